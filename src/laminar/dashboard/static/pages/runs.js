// Runs: which there are, the live ones first; the curves of those that are chosen, drawn over each other, moving while they train.

import {details} from "/static/pages/run_detail.js";

const CHARTS = [
  {chart: "loss", title: "Loss", y: {}}, {chart: "accuracy", title: "Accuracy", y: {max: 1}}, {chart: "samples_per_second", title: "Samples a second", y: {zero: true}},
  {chart: "busy", title: "Workers busy", y: {zero: true, max: 1, unit: "percent"}},
  {chart: "r2", title: "r²", y: {max: 1}}, {chart: "mae", title: "Mean absolute error", y: {}}, {chart: "staleness", title: "Staleness", y: {zero: true}},
  {chart: "bytes", title: "Bytes sent", y: {zero: true, unit: "bytes"}}, {chart: "workers", title: "Workers", y: {zero: true}}, {chart: "gradients_by_worker", title: "Gradients/s", y: {zero: true}}, {chart: "shares", title: "Shares of workers", y: {zero: true}}, {chart: "lr", title: "Learning rate", y: {}},
];
const AXES = {step: "Steps", epoch: "Epochs", time: "Time"};
const STATES = {live: "live", finished: "good", failed: "bad", interrupted: "warn", ended: "bad"};
const DASHES = {train: "2 4", "as it went": "2 4", "each epoch": "", "mean so far": "6 3", "without compression": "6 3"};
const FORMATS = {bytes: f => ({format: f.bytes, tick: v => f.bytes(v).replace(".0 ", " ")}), percent: f => ({format: f.percent, tick: v => `${Math.round(100 * v)} %`})};
const SHOWN = 6, AT_ONCE = 200;

export async function show(main, params, tools) {
  const {el, clear, api, live, chart, table, badge, trouble, command, format} = tools;
  let runs = [], trials = {}, withTrials = false, begun = false, now = 0, told = {}, done = false, stop = () => {}, axis = params.query.get("x") in AXES ? params.query.get("x") : "step", most = AT_ONCE;
  let chosen = params.query.getAll("run"), asking = null, again = false, cost = 0, wanted = "";
  const charts = new Map(), colours = new Map();

  const search = el("input", {type: "search", placeholder: "search layer or run", "aria-label": "Search runs", oninput: () => { wanted = search.value.toLowerCase(); drawList(); }});
  const many = el("span"), box = el("label", {class: "trials", hidden: true}, el("input", {type: "checkbox", onchange: event => { withTrials = event.target.checked; drawList(); }}), " ", many);
  const list = el("div", {class: "runs"}), said = el("div"), below = el("div");
  const area = el("div", {class: "charts", "aria-label": "Curves"});
  const axes = el("div", {class: "switch", role: "group", "aria-label": "Curves over"}, Object.entries(AXES).map(([name, text]) => el("button", {type: "button", "aria-pressed": name === axis, data: {axis: name}, onclick: () => over(name)}, text)));
  const what = el("div", {class: "row what"});
  main.append(el("header", {class: "top"}, el("h1", {}, "Runs"), axes), said,
    el("div", {class: "board"}, el("section", {class: "panel flush rail"}, el("div", {class: "search"}, search, box), list), el("section", {class: "stagearea"}, what, area, below)));

  const colour = run => { if (!colours.has(run)) { const used = new Set(colours.values()); let c = 0; while (used.has(c) && c < 7) c++; colours.set(run, c); } return colours.get(run); };
  const label = run => { const known = runs.find(r => r.run === run); return known?.layer ? (chosen.filter(c => runs.find(r => r.run === c)?.layer === known.layer).length > 1 ? `${known.layer} ${run.slice(0, 6)}` : known.layer) : run.slice(0, 8); };

  async function loadList() {
    try {
      const found = await api("/api/runs");
      if (done) return;
      ({runs, now, trials} = found);
      const count = runs.filter(r => trials[r.run]).length;
      box.hidden = !count;
      many.textContent = `with ${format.many(count, "trial")} of experiments`;
      clear(said);
      if (!runs.length) said.append(el("section", {class: "panel start"}, el("h2", {}, "No run yet"), el("p", {}, "A run is one training of one layer. Its curves appear here while it trains:"), command("laminar build")));
    } catch (error) { if (!done) clear(said).append(trouble(error)); return; }
    chosen = chosen.filter(run => runs.some(r => r.run === run));
    if (!chosen.length && runs.length) { const alive = runs.filter(r => r.state === "live"); chosen = (alive.length ? alive : runs.slice(0, 1)).slice(0, SHOWN).map(r => r.run); }
    for (const run of [...colours.keys()]) if (!chosen.includes(run)) colours.delete(run);
    drawList();
    drawDetails();
  }

  // How the chosen runs stand; what was looked at or selected stays until something else is to be said.
  let saidOf = "";
  function drawDetails() {
    const mine = chosen.filter(run => told[run]), now = JSON.stringify([mine, mine.map(run => [told[run].events, told[run].workers, told[run].damaged, told[run].last, runs.find(r => r.run === run)])]);
    if (now === saidOf) return;
    saidOf = now;
    below.replaceChildren(details(mine, told, runs, {...tools, label, colour, now: Date.now() / 1000}));
  }

  function drawList() {
    const fit = runs.filter(r => (wanted ? `${r.layer} ${r.run} ${r.state} ${trials[r.run] ?? ""}`.toLowerCase().includes(wanted) : withTrials || !trials[r.run] || r.state === "live" || chosen.includes(r.run)));
    const at = document.activeElement?.closest?.("[data-run]")?.dataset.run;
    const rows = fit.slice(0, most).map(r => {
      const on = chosen.includes(r.run), part = r.state === "live" && r.steps ? Math.min(1, (r.step + 1) / r.steps) : null;
      return el("li", {class: on ? "run on" : "run", tabindex: 0, data: {run: r.run}, role: "option", "aria-selected": on, onclick: event => pick(r.run, event.ctrlKey || event.metaKey || event.target.closest(".box")), onkeydown: event => { if (event.key === "Enter") pick(r.run, false); else if (event.key === " ") { event.preventDefault(); pick(r.run, true); } }},
        el("span", {class: `box${on ? ` k${colour(r.run)}` : ""}`, title: "show beside the others (Space)"}, el("span", {class: "dot"})),
        el("span", {class: "who"}, el("b", {}, r.layer ?? r.run), " ", badge(r.state === "ended" ? "ended" : r.state, STATES[r.state], r.why || null), el("span", {class: "why mute"}, about(r))),
        el("span", {class: "fig"}, r.metrics.accuracy !== undefined ? el("b", {}, format.percent(r.metrics.accuracy)) : r.metrics.loss !== undefined ? el("b", {}, format.number(r.metrics.loss)) : null, el("small", {}, r.state === "live" ? (r.epochs ? `epoch ${Math.min((r.epoch ?? 0) + 1, r.epochs)}/${r.epochs}` : "") : format.ago(r.last, now))),
        part !== null ? el("span", {class: "progress", style: {"--part": String(part)}}) : null);
    });
    clear(list).append(el("ul", {class: "list", role: "listbox", "aria-multiselectable": true, "aria-label": "Runs"}, rows));
    if (fit.length > most) list.append(el("button", {type: "button", class: "quiet", onclick: () => { most += 500; drawList(); }}, `${format.count(fit.length - most)} more`));
    if (at) list.querySelector(`[data-run="${CSS.escape(at)}"]`)?.focus({preventScroll: true});
    const first = begun ? null : list.querySelector(".run.on");
    if (first) {  // what was asked for by the address is in sight
      begun = true;
      const rail = list.parentNode, below = first.getBoundingClientRect().bottom - rail.getBoundingClientRect().top;
      if (below > rail.clientHeight) rail.scrollTop = below - rail.clientHeight / 2;
    }
    drawWhat();
  }

  function about(r) {
    if (r.state === "live") return `${r.stack ?? ""} · ${r.steps ? `${format.count(r.step ?? 0)} of ${format.count(r.steps)} steps` : "starting"}`;
    if (r.state === "ended") return r.last ? `${r.why}; last seen ${format.ago(r.last, now)}` : r.why;
    return [trials[r.run] ? `trial of ${trials[r.run]}` : null, r.strategy, r.seconds !== null ? format.seconds(r.seconds) : null, r.state === "finished" ? null : r.why].filter(Boolean).join(" · ");
  }

  function drawWhat() {
    clear(what).append(...chosen.map(run => {
      const r = runs.find(each => each.run === run);
      return el("span", {class: `chip k${colour(run)}`}, el("span", {class: "dot"}), label(run), r?.state === "live" ? badge("live", "live") : null,
        el("a", {href: `/api/runs/csv?run=${encodeURIComponent(run)}`, download: `${run}.csv`, title: "every step and epoch as CSV", "aria-label": `${label(run)}: all as CSV`}, "csv"),
        chosen.length > 1 ? el("button", {type: "button", class: "quiet small", "aria-label": `Without ${label(run)}`, onclick: () => pick(run, true)}, "✕") : null);
    }));
  }

  function pick(run, more) {
    if (more) chosen = chosen.includes(run) ? chosen.filter(each => each !== run) : [...chosen, run].slice(-SHOWN);
    else chosen = [run];
    if (!chosen.length) chosen = [run];
    for (const known of [...colours.keys()]) if (!chosen.includes(known)) colours.delete(known);
    remember();
    drawList();
    listen();
    load();
  }

  function over(name) {
    axis = name;
    for (const button of axes.children) button.setAttribute("aria-pressed", button.dataset.axis === axis);
    for (const made of charts.values()) made.made.reset();
    remember();
    load();
  }

  function remember() {
    const words = new URLSearchParams(chosen.map(run => ["run", run]));
    if (axis !== "step") words.set("x", axis);
    history.replaceState(null, "", `#/runs?${words}`);
  }

  // One question at a time; what changed meanwhile is asked for after it, no faster than the answers come.
  async function load() {
    if (!chosen.length || done) return;
    if (asking) { again = true; return; }
    const began = performance.now();
    asking = new AbortController();
    try {
      const found = await api("/api/runs/curves", {run: chosen, x: axis, points: 600});
      if (done) return;
      told = found.runs;
      if (found.x === axis) draw();
    } catch (error) { if (!done) clear(below).append(trouble(error)); }
    cost = performance.now() - began;
    asking = null;
    if (again) { again = false; setTimeout(load, Math.max(300, 3 * cost)); }
  }

  function draw() {
    const xOptions = {label: {step: "step", epoch: "epoch", time: "time"}[axis], time: axis === "time", format: axis === "time" ? format.seconds : undefined, zero: axis !== "step"};
    const named = new Set(Object.values(told).flatMap(run => run.series.map(s => s.chart)));
    const all = [...CHARTS, ...[...named].filter(name => !CHARTS.some(c => c.chart === name)).sort().map(name => ({chart: name, title: name.replaceAll("_", " "), y: {}}))];
    for (const {chart: name, title, y} of all) {
      const series = chosen.filter(run => told[run]).flatMap(run => told[run].series.filter(s => s.chart === name).map(s => line(run, s)));
      if (!series.length && !["loss", "accuracy"].includes(name)) { drop(name); continue; }
      if (name === "accuracy" && !series.length && named.has("r2")) { drop(name); continue; }
      const known = charts.get(name);
      if (known) { known.full = series; if (!known.made.zoom) known.made.update({series, x: xOptions}); else finer(name); continue; }
      const made = chart({title, name: `${name}-${chosen.join("-")}`.slice(0, 80), x: xOptions, y: {...y, ...FORMATS[y.unit]?.(format)}, series, height: name === "loss" || name === "accuracy" ? 260 : 190, onzoom: () => finer(name)});
      charts.set(name, {made, full: series});
      area.insertBefore(made.node, after(name, all));
    }
    drawDetails();
  }

  const after = (name, all) => { const order = all.map(c => c.chart); for (const next of order.slice(order.indexOf(name) + 1)) if (charts.has(next)) return charts.get(next).made.node; return null; };
  const drop = name => { const known = charts.get(name); if (known) { known.made.node.remove(); known.made.destroy(); charts.delete(name); } };

  function line(run, s) {
    const several = chosen.length > 1;
    return {name: several ? `${label(run)} ${s.name}` : s.name, x: s.x, y: s.y, faint: s.faint || (several && s.name === "each step" && s.chart === "loss"), kind: s.of > 25 || s.faint ? "line" : "both",
      colour: several ? colour(run) : {"each step": 0, "mean": 0, "as it went": 0, train: 2, test: 1, "without compression": 4, "by the server": 5}[s.name] ?? (/^worker (\d+)$/.test(s.name) ? Number(s.name.slice(7)) : 3), dash: several ? DASHES[s.name] ?? (s.name === "worker 1" ? "6 3" : "") : ""};
  }

  // A part is looked at closely: its own points are fetched.
  async function finer(name) {
    const known = charts.get(name);
    if (!known) return;
    const zoom = known.made.zoom;
    if (!zoom) { known.made.update({series: known.full}); return; }
    try {
      const found = await api("/api/runs/curves", {run: chosen, x: axis, points: 600, low: zoom[0], high: zoom[1]});
      if (!done && known.made.zoom === zoom) known.made.update({series: chosen.filter(run => found.runs[run]).flatMap(run => found.runs[run].series.filter(s => s.chart === name).map(s => line(run, s)))});
    } catch { /* the coarse ones are there */ }
  }

  let listed = null;
  const soon = () => { if (!listed) listed = setTimeout(async () => { listed = null; await loadList(); }, 800); };

  function listen() {
    stop();
    stop = live(chosen, {news: fresh => { load(); if (fresh.events.length || fresh.begun) soon(); }, store: async () => { const before = chosen.join(); await loadList(); if (chosen.join() !== before) { listen(); load(); } }, back: () => { loadList(); load(); }});
  }

  await loadList();
  if (done) return () => {};
  load();
  listen();
  const timer = setInterval(() => { if (runs.some(r => r.state === "live") && !document.hidden) loadList(); }, 2000);
  return Object.assign(() => { done = true; stop(); clearInterval(timer); clearTimeout(listed); for (const known of charts.values()) known.made.destroy(); },
    {change: async ({query}) => {
      const asked = query.getAll("run"), x = query.get("x") in AXES ? query.get("x") : "step";
      if (asked.length && asked.join() !== chosen.join()) { chosen = asked; await loadList(); listen(); load(); }
      if (x !== axis) over(x);
    }});
}
