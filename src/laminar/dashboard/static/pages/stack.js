// Stack: the tree of layers, the top one first; what a build would do about each; and beside it one layer in full.

import {detail} from "/static/pages/stack_detail.js";

const LANE = 18, ROW = 58, MOST = 10;
const STATES = {built: ["built", "good"], stale: ["stale", "warn"], never: ["never built", "plain"], building: ["building", "live"]};

export async function show(main, params, tools) {
  const {el, clear, api, live, trouble, format, go, say} = tools;
  const summary = el("div", {class: "summary"}), list = el("div", {class: "tree list", role: "list", "aria-label": "Layers, the top one first"});
  const side = el("aside", {class: "side", "aria-label": "One layer", hidden: true}), said = el("div");
  const split = el("div", {class: "split"}, el("section", {class: "panel flush"}, list), side);
  const head = el("header", {class: "top"}, el("h1", {}, "Stack"), summary);
  main.append(head, said, split);
  let told = null, known = new Map(), drawn = new Map(), chosen = null, done = false, turn = 0;

  async function load() {
    const mine = ++turn;
    try {
      told = await api("/api/stack");
    } catch (error) {
      if (done || mine !== turn) return;
      clear(said).append(trouble(error));
      if (!told) split.hidden = true;
      return;
    }
    if (done || mine !== turn) return;
    clear(said);
    split.hidden = !told.layers.length;
    head.firstChild.textContent = told.stack ?? "Stack";
    if (!told.layers.length || !told.made) said.append(start(told, tools));
    draw();
    if (!told.file) return;
    try {
      const plan = await api("/api/stack/plan");
      if (done || mine !== turn) return;
      known = new Map(plan.layers.map(each => [each.ref, each]));
    } catch (error) {
      if (done || mine !== turn) return;
      known = new Map();
      said.append(trouble(error));
    }
    for (const layer of told.layers) fill(layer);
    sum();
  }

  function draw() {
    const layers = new Map(told.layers.map(layer => [layer.ref, layer]));
    const lanes = Math.min(MOST, 1 + told.tree.reduce((most, row) => Math.max(most, row.lane), 0));
    const focused = document.activeElement?.dataset?.ref;
    drawn = new Map();
    const rows = told.tree.map(row => line(row, layers.get(row.name), lanes));
    clear(list).append(...rows);
    for (const layer of told.layers) fill(layer);
    if (focused && drawn.get(focused)) drawn.get(focused).node.focus({preventScroll: true});
    choose(chosen);
    sum();
  }

  function line(row, layer, lanes) {
    const state = el("span", {class: "state"}), why = el("span", {class: "why mute"});
    const node = el("div", {class: "layer", role: "listitem", tabindex: 0, data: {ref: layer.ref}, onclick: () => open(layer.ref), onkeydown: event => { if (event.key === "Enter") open(layer.ref); }},
      graph(el, row, lanes),
      el("div", {class: "who"}, el("div", {class: "row tight"}, el("b", {}, layer.stack === told.stack ? layer.name : layer.ref), state, layer.tags.map(tag => el("span", {class: "tag", title: `tag ${tag}`}, tag)),
        layer.notes ? el("span", {class: "badge warn", title: "it has notes"}, "!") : null), why),
      el("div", {class: "fig metric"}, metric(layer, format)),
      el("div", {class: "fig", title: `${layer.own} of ${layer.tensors} tensors are its own`}, layer.id ? [el("b", {}, `+${format.bytes(layer.added)}`), el("small", {}, `of ${format.bytes(layer.whole)}`)] : null),
      el("div", {class: "fig", title: "seconds of training"}, layer.id ? [el("b", {}, format.seconds(layer.seconds)), el("small", {}, "training")] : null),
      el("div", {class: "fig dots", title: layer.rolled_back ? "rolled back" : `${layer.versions} versions`}, versions(el, layer)));
    drawn.set(layer.ref, {node, state, why});
    return node;
  }

  function fill(layer) {
    const row = drawn.get(layer.ref);
    if (!row) return;
    const plan = known.get(layer.ref);
    clear(row.state).append(...badges(layer, plan, tools));
    row.why.textContent = layer.lost || (plan && plan.state !== "built" && plan.why !== "never built" ? plan.why : layer.written ? below(layer) : "not in laminar.toml");
    const dot = row.node.querySelector(".at");
    dot?.setAttribute("class", `at ${layer.lost ? "lost" : plan?.state ?? (layer.id ? "known" : "never")}`);
    row.node.setAttribute("aria-label", `${layer.name}, ${plan?.state ?? ""} ${row.why.textContent}`);
  }

  const below = layer => (layer.stands_on ? `on ${layer.stands_on.split("/")[1]}` : layer.origin ? `on ${layer.origin}` : "bottom layer") + (layer.frozen ? `, ${format.many(layer.frozen, "frozen module")}` : "");

  function sum() {
    const mine = told.layers.filter(layer => layer.written), counts = {};
    for (const layer of mine) { const state = known.get(layer.ref)?.state; if (state) counts[state] = (counts[state] ?? 0) + 1; }
    const saved = [...known.values()].reduce((all, each) => all + each.saved, 0), todo = (counts.stale ?? 0) + (counts.never ?? 0);
    const added = told.layers.reduce((all, layer) => all + layer.added, 0);
    if (!told.file) {  // nothing says what a build would do
      clear(summary).append(...told.layers.length ? [fact(told.layers.length, told.layers.length === 1 ? "layer kept" : "layers kept"), fact(format.bytes(added), "of tensors kept")] : []);
      return;
    }
    clear(summary).append(
      fact(mine.length, mine.length === 1 ? "layer" : "layers"),
      fact(known.size ? counts.built ?? 0 : "…", "up to date"),
      fact(known.size ? todo : "…", "to train", todo ? "warn" : ""),
      fact(known.size ? format.seconds(saved) : "…", "saved by reuse"),
      fact(format.bytes(added), "of tensors kept"));
  }

  const fact = (value, text, kind = "") => el("div", {class: `fact ${kind}`}, el("b", {}, String(value)), el("span", {}, text));

  function open(ref) { go(`#/stack/${encodeURIComponent(ref)}`); }

  function choose(ref) {
    for (const [each, row] of drawn) each === ref ? row.node.setAttribute("aria-current", "true") : row.node.removeAttribute("aria-current");
  }

  async function change({path}) {
    const ref = path[0] ?? null, before = chosen;
    chosen = ref;
    choose(ref);
    split.classList.toggle("open", !!ref);
    side.hidden = !ref;
    if (!ref) { clear(side); if (before) drawn.get(before)?.node.focus(); return; }
    await detail(side, ref, path[1] ?? null, {...tools, changed: () => { load(); change({path}); }, close: () => go("#/stack"), alive: () => !done && chosen === ref});
    if (!done && before !== ref) { side.scrollTop = 0; if (innerWidth < 1000) side.scrollIntoView({block: "start"}); say(`${ref} is open`); }
  }

  if (params.path[0]) { split.classList.add("open"); side.hidden = false; }  // its room, before anything is drawn that it would push away
  await load();
  if (params.path[0]) await change(params);
  const stop = live([], {store: () => { load(); if (chosen) change({path: [chosen]}); }, back: load});
  const timer = setInterval(() => { if ([...known.values()].some(each => each.state === "building") && !document.hidden) load(); }, 5000);
  return Object.assign(() => { done = true; stop(); clearInterval(timer); }, {change});
}

function badges(layer, plan, {badge}) {
  const found = [];
  if (layer.lost) found.push(badge("damaged", "bad", layer.lost));
  else if (plan) found.push(badge(...STATES[plan.state]));
  else if (!layer.written) found.push(badge(layer.id ? "kept" : "gone", "plain"));
  if (layer.rolled_back) found.push(badge("rolled back", "warn", `version ${layer.cursor + 1} of ${layer.versions}`));
  else if (plan?.id && layer.id && plan.id !== layer.id) found.push(badge("ref elsewhere", "warn", "a build moves the ref to the layer of the present inputs"));
  return found;
}

function metric(layer, format) {
  const el = (tag, text) => { const made = document.createElement(tag); made.textContent = text; return made; };
  const {accuracy, loss, r2} = layer.metrics;
  if (accuracy !== undefined) return [el("b", format.percent(accuracy)), el("small", `loss ${format.number(loss)}`)];
  if (r2 !== undefined) return [el("b", `r² ${format.number(r2)}`), el("small", `loss ${format.number(loss)}`)];
  return loss !== undefined ? [el("b", format.number(loss)), el("small", "loss")] : null;
}

// Lines of the tree in one row: those that pass by, its own, and the bend to the lane it stands on.
function graph(el, row, lanes) {
  const x = lane => 14 + Math.min(lane, MOST - 1) * LANE, middle = ROW / 2, own = x(row.lane);
  const parts = row.through.filter(lane => lane < MOST).map(lane => el("line", {x1: x(lane), x2: x(lane), y1: 0, y2: ROW}));
  if (row.above) parts.push(el("line", {x1: own, x2: own, y1: 0, y2: middle}));
  if (row.joins !== null) parts.push(el("path", {d: `M${own} ${middle}C${own} ${middle + 20} ${x(row.joins)} ${middle + 6} ${x(row.joins)} ${ROW}`}));
  else if (row.below) parts.push(el("line", {x1: own, x2: own, y1: middle, y2: ROW}));
  return el("svg", {class: "lanes", width: 14 + lanes * LANE, height: ROW, "aria-hidden": "true"}, parts, el("circle", {cx: own, cy: middle, r: 6, class: "at"}));
}

// One dot a version, the newest right; the one that the ref shows is filled, those that were rolled back are dashed.
function versions(el, layer) {
  if (layer.versions < 2) return null;
  const from = Math.max(0, layer.versions - 8);
  return el("svg", {width: 12 * (layer.versions - from) + 4, height: 14, role: "img", "aria-label": `version ${layer.cursor + 1} of ${layer.versions}`},
    Array.from({length: layer.versions - from}, (_, i) => el("circle", {cx: 8 + 12 * i, cy: 7, r: 4, class: from + i === layer.cursor ? "now" : from + i > layer.cursor ? "ahead" : "past"})));
}

function start(told, {el, command}) {
  const steps = told.file
    ? [["The stack is written; nothing is built yet. Train it:"], ["laminar build"]]
    : [["There is no laminar.toml in this folder or above it. Begin with a stack that builds as it stands (a minute, no download):"], ["laminar init my-stack"], ["cd my-stack && laminar build"], ["Then open the dashboard there:"], ["laminar ui"]];
  return el("section", {class: "panel start"}, el("h2", {}, "How to start"), steps.map(([text]) => (text.startsWith("laminar") || text.startsWith("cd ") ? command(text) : el("p", {}, text))),
    el("p", {class: "mute"}, "This page shows what appears, as it appears; it need not be loaded again."));
}
