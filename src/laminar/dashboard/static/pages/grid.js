// Grid: what a grid's server tells, drawn by the script of its own status page.

const EVERY = 2000;

export async function show(main, params, {el, put, api, clear, command, trouble, Trouble, session}) {
  const when = el("span", {class: "mute", role: "status"}, "asking …");
  const style = el("link", {rel: "stylesheet", href: "/grid/view.css"});
  const styled = new Promise(done => { style.addEventListener("load", done); style.addEventListener("error", done); });
  put(main, style, el("div", {class: "row spread"}, el("h1", {}, "Grid"), when));
  const body = el("div");
  put(main, body);
  let ended = false, timer = null, parts = null, view = null;

  function begin() {
    parts = {figures: el("section", {class: "figures", "aria-label": "The grid in figures"}), runs: el("section"), nodes: el("section", {class: "card table", tabindex: 0, role: "region", "aria-label": "nodes"}), rounds: el("section", {class: "card table", tabindex: 0, role: "region", "aria-label": "rounds"}), tasks: el("section", {class: "card table", tabindex: 0, role: "region", "aria-label": "newest tasks"})};
    parts.all = el("div", {class: "grid-view"}, parts.figures, el("h2", {}, "Runs"), parts.runs, el("h2", {}, "Nodes"), parts.nodes, el("h2", {}, "Rounds"), parts.rounds, el("h2", {}, "Newest tasks"), parts.tasks);
    clear(body).append(parts.all);
  }

  async function look() {
    try {
      const told = await api("/api/grid");
      if (told.error) throw new Trouble(told.error);
      view ??= await import("/grid/view.js");
      await styled;  // nothing is drawn that would move when its style comes
      if (ended) return;
      if (!parts) begin();
      parts.figures.replaceChildren(...view.figures(told.status));
      parts.runs.replaceChildren(...view.runs(told.status.runs));
      parts.nodes.replaceChildren(...view.nodes(told.nodes, told.status.now, told.url));
      parts.rounds.replaceChildren(...view.rounds(told.rounds));
      parts.tasks.replaceChildren(...view.tasks(told.tasks, told.status.now));
      parts.all.classList.remove("stale");
      when.textContent = `${told.url}, at ${new Date(told.status.now * 1000).toLocaleTimeString()}`;
    } catch (error) {
      if (ended) return;
      if (!(error instanceof Trouble)) throw error;
      when.textContent = "";
      if (parts) { parts.all.classList.add("stale"); when.textContent = `no answer: ${error.message}`; } else if (error.code === "L501" && !session?.grid) clear(body).append(nothing(error));
      else clear(body).append(trouble(error));
    } finally { if (!ended) timer = setTimeout(look, document.hidden ? 5 * EVERY : EVERY); }
  }

  const nothing = error => el("div", {class: "panel"}, el("h2", {}, "No grid is served from this folder"), el("p", {}, "A grid trains a layer on machines that nobody controls: desktops that come and go. Serve one from here, and this page shows its nodes, rounds and tasks:"), command("laminar grid serve"), el("p", {}, "Or look at one elsewhere:"), command("laminar ui --grid grid://HOST:8787"), el("p", {class: "mute"}, error.message));

  await look();
  return () => { ended = true; clearTimeout(timer); };
}
