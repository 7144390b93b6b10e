// Compare: two or more layers or runs side by side: recipe, figures, curves, tensors, and what they answer on the same samples.

import {showJudged} from "/static/pages/compare_answers.js";

const MOST = 6, LISTED = 40, FASTEST = 1000;
const STATES = {live: "live", interrupted: "warn", failed: "bad", ended: "bad", finished: "plain"};

export async function show(main, params, tools) {
  const {el, put, api, command} = tools;
  const offered = await api("/api/compare/choices");
  put(main, el("h1", {}, "Compare"));
  if (offered.choices.length < 2) {
    put(main, el("div", {class: "panel"}, el("h2", {}, offered.choices.length ? "There is one layer, and it takes two" : "There is no layer yet"), el("p", {}, "Layers that are built, rolled back from or pulled can be compared here, and runs that are under way or were interrupted. Build one, change its recipe, and build again:"), command("laminar build")));
    return () => {};
  }
  const asked = params.query.getAll("layer").filter(Boolean).slice(0, MOST);
  put(main, chooser(asked, offered, tools));
  if (new Set(asked).size < 2) {
    put(main, proposals(offered, tools));
    return () => {};
  }
  const body = el("div");
  put(main, body);
  return together(body, await api("/api/compare", {layer: asked}), asked, offered, tools);
}

// All of it; and what is told of runs that are under way, as it is told.
function together(body, told, asked, offered, tools) {
  const {el, put, clear, api, live} = tools;
  let end = () => {}, timer = null, asking = false, left = false;

  function draw() {
    const state = {ended: false}, cleanUps = [() => { state.ended = true; }];
    const names = named(told.items), figures = el("div"), plots = curves(told, names, tools, cleanUps);
    const heading = el("div");
    let seen = "";
    const head = () => { if (!heading.contains(document.activeElement)) clear(heading).append(heads(told, names, tools)); };
    const fill = () => {
      if (seen === JSON.stringify(told.metrics)) return;  // what is read or has the focus stays
      seen = JSON.stringify(told.metrics);
      const open = figures.querySelector("details")?.open;
      clear(figures).append(rows("Figures", told.metrics, names, tools, figure(tools.format), "None of them was tested yet."));
      if (open) figures.querySelector("details")?.setAttribute("open", "");
    };
    head();
    fill();
    clear(body);
    put(body, heading, figures, plots.node, rows("Recipe", told.recipe, names, tools, setting(tools.el), "Nothing is known: a layer that was pulled or imported may come without it."));
    const layers = told.items.map((item, i) => ({...item, name: names[i], colour: i})).filter(item => item.id !== null);
    const tensors = el("section", {class: "panel"}), judged = el("section", {class: "panel"});
    put(body, tensors, judged);
    if (layers.length < 2) {
      tensors.append(el("h2", {}, "Tensors and answers"), el("p", {class: "mute"}, "It takes two layers to compare tensors and answers, and a run becomes one when it is done."));
      judged.remove();
    } else {
      tensors.style.setProperty("min-height", `${8.5 + 2.1 * told.modules}rem`);
      showTensors(tensors, layers, tools, state);
      showJudged(judged, layers, offered.data, tools, state);
    }
    end = () => cleanUps.forEach(f => f());
    return () => { head(); fill(); plots.update(told); };
  }

  let refresh = draw();
  const alive = () => told.items.filter(item => item.state === "live").map(item => item.run);
  const standing = () => told.items.map(item => `${item.state} ${item.id}`).join();

  async function again() {
    timer = null;
    if (asking) { soon(); return; }
    asking = true;
    const before = standing();
    let fresh;
    try { fresh = await api("/api/compare", {layer: asked}); } catch { return; } finally { asking = false; }
    if (left) return;
    told = fresh;
    if (standing() === before) refresh();
    else { end(); refresh = draw(); if (!alive().length) stop(); }
  }

  const soon = () => { timer ??= setTimeout(again, FASTEST); };
  const quiet = alive().length ? live(alive(), {news: soon, store: soon, back: soon}) : () => {};
  const look = alive().length ? setInterval(() => { if (!document.hidden) soon(); }, 2 * FASTEST) : null;  // who is killed says nothing
  const stop = () => { quiet(); clearInterval(look); };
  return () => { left = true; stop(); clearTimeout(timer); end(); };
}

// Names that can be told apart: the layer's; with its id, or how its run stands, where two have the same.
function named(items) {
  const same = name => items.filter(i => i.name === name).length > 1;
  return items.map(i => (i.id === null ? `${i.name} (${i.state})` : same(i.name) ? `${i.name} ${i.id.slice(0, 6)}` : i.name)).map((name, k, all) => (all.indexOf(name) === k && all.lastIndexOf(name) === k ? name : `${name} ${items[k].run.slice(0, 6)}`));
}

const link = layers => `#/compare?${new URLSearchParams(layers.map(layer => ["layer", layer]))}`;

function chooser(asked, offered, {el, go, format}) {
  const list = el("datalist", {id: "layers"}, offered.choices.map(c => el("option", {value: c.ref}, c.id === null ? `${c.layer}, a run: ${c.what}` : c.what === "before" ? `before, ${format.ago(c.when)}` : c.what)));
  const slots = [...asked, ...Array(Math.max(1, 2 - asked.length)).fill("")].slice(0, MOST);
  const boxes = slots.map((value, i) => el("span", {class: `slot k${i % 8}`}, el("span", {class: "dot"}), el("input", {type: "text", list: "layers", name: "layer", value, "aria-label": `layer or run ${i + 1}`, placeholder: i < 2 ? "a layer or run" : "one more", autocomplete: "off", spellcheck: "false"}),
    i < asked.length && asked.length > 2 ? el("button", {type: "button", class: "quiet small", "aria-label": `leave out ${value}`, onclick: () => go(link(asked.filter((_, k) => k !== i)))}, "×") : null));
  return el("form", {class: "panel chooser", onsubmit: event => {
    event.preventDefault();
    go(link([...new Set(new FormData(event.target).getAll("layer").map(s => s.trim()).filter(Boolean))]));
  }}, list, el("div", {class: "row"}, boxes, el("button", {class: "main"}, "Compare")), new Set(asked).size < 2 ? pile(offered, {el, format}) : null);
}

// What there is, to be ticked.
function pile(offered, {el, format}) {
  const some = offered.choices.slice(0, LISTED);
  return el("fieldset", {class: "pile"}, el("legend", {class: "mute"}, "or tick two or more:"), some.map(c => el("label", {}, el("input", {type: "checkbox", name: "layer", value: c.ref}), " ", el("b", {}, c.what === "tag" ? c.ref : c.layer), " ", el("span", {class: "mute"}, c.id === null ? `run ${c.ref.slice(0, 8)}, ${c.what}, ${format.ago(c.when)}` : c.what === "before" ? `as it was ${format.ago(c.when)}` : c.what === "tag" ? `tag, ${format.short(c.id)}` : `built ${format.ago(c.when)}`))),
    offered.choices.length > some.length ? el("p", {class: "mute"}, `and ${format.count(offered.choices.length - some.length)} more, by name above`) : null);
}

// What a person most likely wants: a layer and the one before it, and layers of one stack.
function proposals(offered, {el, format}) {
  const found = [];
  const now = offered.choices.filter(c => c.what === "now"), runs = offered.choices.filter(c => c.id === null);
  for (const run of runs.slice(0, 3)) {
    const is = now.find(c => c.ref === run.layer), other = runs.find(r => r !== run && r.layer === run.layer);
    const against = is ?? other ?? now[0];
    if (against) found.push([`${run.layer}, ${run.what === "live" ? "which is being trained," : `a run that ${run.what === "interrupted" ? "was interrupted" : run.what},`} and ${is ? "what it is now" : against.id === null ? "another run of it" : against.ref}`, [run.ref, against.ref], `heard of ${format.ago(run.when)}`]);
  }
  for (const c of now) {
    const before = offered.choices.find(o => o.what === "before" && o.ref.startsWith(`${c.ref}@`));
    if (before) found.push([`${c.ref} and what it was before`, [c.ref, before.ref], `built ${format.ago(c.when)}`]);
  }
  if (now.length > 1) found.push([`the newest ${Math.min(now.length, 3)} layers`, now.slice(0, 3).map(c => c.ref), now.slice(0, 3).map(c => c.ref).join(", ")]);
  return el("div", {class: "panel"}, el("h2", {}, "Choose two layers or runs, or more"), el("p", {class: "mute"}, "By name (head), history (head~1), tag, the beginning of an id, or a run: also one that is under way. Or take one of these:"), el("ul", {class: "plain list"}, found.slice(0, 8).map(([text, layers, more]) => el("li", {}, el("a", {href: link(layers), tabindex: 0}, text), " ", el("span", {class: "mute"}, more)))));
}

function heads(told, names, {el, badge, format}) {
  const facts = item => (item.id !== null
    ? [["made", format.ago(item.created)], ["trained for", format.seconds(item.seconds)], ["data", item.data ?? "not known"], ["parameters", format.count(item.parameters)], ["frozen", item.frozen.length ? item.frozen.join(", ") : "nothing"]]
    : [["heard of", format.ago(item.created)], ["trained for", format.seconds(item.seconds)], ["data", item.data ?? "not known"], ["epoch", item.epochs[1] ? `${Math.min((item.epochs[0] ?? 0) + (item.state === "live" ? 1 : 0), item.epochs[1])} of ${item.epochs[1]}` : "-"], ["frozen", item.frozen.length ? item.frozen.join(", ") : "nothing"]]);
  return el("div", {class: "columns"}, told.items.map((item, i) => el("article", {class: `panel head k${i % 8}`},
    el("h2", {}, el("span", {class: "dot"}), " ", item.stack ? `${item.stack}/` : "", item.name, " ", item.id === null ? badge(item.state, STATES[item.state] ?? "plain", item.why || null) : null),
    el("p", {}, item.id !== null ? el("code", {title: item.id}, format.short(item.id)) : el("a", {href: `#/runs?run=${encodeURIComponent(item.run)}`}, "run ", el("code", {}, item.run)), " ", el("span", {class: "mute"}, item.asked === item.id || item.asked === item.run ? "" : item.asked)),
    el("dl", {class: "about"}, facts(item).map(([name, value]) => fact(el, name, value)), fact(el, "stands on", item.parent ? el("code", {}, format.short(item.parent)) : "nothing")),
    item.state !== "live" && item.why ? el("p", {class: "mute little"}, item.why) : null,
    item.notes.map(note => el("p", {class: "mute little"}, note)))));
}

const fact = (el, name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

const figure = format => (value, row, values) => {
  const known = values.filter(v => typeof v === "number");
  const best = /loss|mae/.test(row.field) ? Math.min(...known) : Math.max(...known);
  const text = format.number(value);
  return known.length > 1 && value === best && !row.same ? ["best", text] : ["", text];
};

const setting = el => value => ["", value === null || value === undefined ? "–" : el("code", {}, typeof value === "string" ? value : JSON.stringify(value))];

// A table with a column a layer: what differs first, what is equal folded away.
function rows(title, all, names, {el}, shown, none) {
  const line = row => el("tr", {class: row.same ? "same" : null}, el("th", {scope: "row"}, row.field), row.values.map(value => { const [cls, inside] = shown(value, row, row.values); return el("td", {class: cls || null}, inside); }));
  const made = (some, caption) => el("div", {class: "scroll"}, el("table", {class: "sides"}, el("caption", {class: "unseen"}, caption), el("thead", {}, el("tr", {}, el("th", {scope: "col"}, ""), names.map((name, i) => el("th", {scope: "col", class: `k${i % 8}`}, el("span", {class: "dot"}), " ", name)))), el("tbody", {}, some.map(line))));
  const differ = all.filter(row => !row.same), same = all.filter(row => row.same);
  return el("section", {class: "panel"}, el("h2", {}, title), differ.length ? made(differ, `${title}: what differs`) : el("p", {class: "mute"}, all.length ? "All is the same." : none),
    same.length ? el("details", {open: !differ.length && same.length < 8}, el("summary", {}, `${same.length} ${same.length === 1 ? "is" : "are"} the same`), made(same, `${title}: what is the same`)) : null);
}

function curves(told, names, {el, chart}, cleanUps) {
  const series = (told, name) => told.curves.map((c, i) => ({name: names[i], colour: i, kind: "both", x: c.epochs, y: (c.figures[name] ?? []).map(v => v ?? NaN)})).filter(s => s.x.length && s.y.length);
  const figures = [...new Set(told.curves.flatMap(c => Object.keys(c.figures)))].filter(f => ["accuracy", "loss", "mae", "r2"].includes(f)).slice(0, 3);
  const first = figures.length || !told.items.some(item => item.state === "live") ? figures : ["loss"];  // a run under way will be tested
  const made = first.map(name => [name, chart({title: `test ${name}`, name, height: 210, x: {label: "epoch", format: v => (Number.isInteger(v) ? String(v) : "")}, series: series(told, name)})]);
  cleanUps.push(...made.map(([, m]) => m.destroy));
  return {node: made.length ? el("div", {class: "plots"}, made.map(([, m]) => m.node)) : null, update: fresh => made.forEach(([name, m]) => m.update({series: series(fresh, name)}))};
}

async function showTensors(box, items, {el, api, clear, table, badge, format, trouble, Trouble}, state) {
  const names = items.map(item => item.name);
  let second = 1;
  async function fill() {
    clear(box).append(el("div", {class: "row spread"}, el("h2", {}, "Tensors"), items.length > 2 ? el("label", {class: "row"}, `${names[0]} against `, el("select", {onchange: e => { second = Number(e.target.value); fill(); }}, items.slice(1).map((_, i) => el("option", {value: i + 1, selected: i + 1 === second}, names[i + 1])))) : el("span", {class: "mute"}, `${names[0]} against ${names[1]}`)));
    const body = el("div", {class: "tensors"}, el("p", {class: "mute"}, "comparing …"));
    box.append(body);
    try {
      const told = await api("/api/compare/tensors", {layer: [items[0].id, items[second].id]});
      if (state.ended) return;
      const most = Math.max(1e-9, ...told.modules.map(m => m.moved ?? 0));
      const kinds = {changed: "plain", added: "good", removed: "bad", reshaped: "warn"};
      const of = told.modules.filter(m => m.state === "equal").length;
      clear(body).append(el("p", {class: "mute"}, `${format.many(told.equal, "tensor")} equal, ${format.many(told.tensors.length, "tensor")} not; ${of} of ${format.many(told.modules.length, "module")} equal. Moved: norm of the difference over the norm of the first, of the numbers that differ.`),
        table([
          {head: "module", cell: m => el("code", {}, m.name)}, {head: "", cell: m => (m.state === "equal" ? el("span", {class: "mute"}, "equal") : badge(m.state, kinds[m.state] ?? "plain"))},
          {head: "moved", cell: m => el("div", {class: "moved"}, el("div", {class: "bar-line"}, el("span", {class: "bar-fill plain", style: {width: `${(100 * (m.moved ?? 0)) / most}%`}})), el("span", {}, m.moved === null ? "–" : format.percent(m.moved)))},
          {head: "cosine", cell: m => (m.cosine === null ? "–" : m.cosine.toFixed(4)), right: true},
          {head: "norms", cell: m => (m.norms === null ? "–" : `${format.number(m.norms[0])} → ${format.number(m.norms[1])}`), right: true, class: "wide-only"},
          {head: "elements", cell: m => format.count(m.elements), right: true, class: "wide-only"}], told.modules, {caption: "Modules"}),
        told.tensors.length ? el("details", {}, el("summary", {}, `the ${format.many(told.tensors.length, "tensor")} that ${told.tensors.length === 1 ? "differs" : "differ"}`), table([{head: "tensor", cell: t => el("code", {}, t.name)}, {head: "", cell: t => t.state}, {head: "moved", cell: t => (t.moved === null ? "–" : format.percent(t.moved)), right: true}, {head: "cosine", cell: t => (t.cosine === null ? "–" : t.cosine.toFixed(4)), right: true}], told.tensors, {caption: "Tensors that differ"})) : null);
    } catch (error) {
      if (state.ended) return;
      if (!(error instanceof Trouble)) throw error;
      clear(body).append(trouble(error));
    }
  }
  await fill();
}
