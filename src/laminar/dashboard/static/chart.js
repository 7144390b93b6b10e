// A chart of lines: read by pointer or keys, zoomed by dragging, kept as SVG, PNG or CSV; and as a table for who cannot see it.
//
//   const made = chart({title: "loss", x: {label: "step"}, y: {log: false}, series: [{name: "test", x: [1, 2], y: [0.5, 0.4]}], height: 240});
//   main.append(made.node);  made.update({series});  made.destroy();
//
// A series: name, x (ascending), y; colour (0-7; by order if left out), dash, kind ("line", "points", "both"), faint.
// Options: title, name (of files), height, x: {label, format, log, time, zero}, y: {label, format, log, zero, max}, marks: [{x, text}],
// onzoom(low, high) or onzoom(null): finer points may then be given by update().

import {draw, MARGIN} from "/static/chart_draw.js";
import {nearest} from "/static/chart_scale.js";
import {save} from "/static/chart_save.js";
import {clear, el, table} from "/static/dom.js";
import {number} from "/static/format.js";

let last = 0;

export function chart(given) {
  const options = {height: 240, name: given.title ?? "chart", ...given, x: given.x ?? {}, y: given.y ?? {}};
  const state = {id: ++last, options, series: [], hidden: new Set(), zoom: null, log: !!options.y.log, width: 600, height: options.height, cursor: null, at: null};
  const svg = state.svg = el("svg", {class: "plot", tabindex: 0, role: "img", height: options.height, width: "100%", preserveAspectRatio: "none"});
  const legend = el("div", {class: "legend"});
  const readout = el("div", {class: "readout", hidden: true});
  const aloud = el("div", {class: "unseen", "aria-live": "polite"});
  const other = el("div", {class: "alternative", hidden: true});
  const button = (text, label, onclick, more = {}) => el("button", {type: "button", class: "quiet small", onclick, "aria-label": `${options.title}: ${label}`, title: label, ...more}, text);
  const logButton = button("log", "logarithmic scale", () => { state.log = !state.log; redraw(); }, {"aria-pressed": state.log});
  const resetButton = button("reset", "show all again (double click)", () => zoomTo(null), {disabled: true});
  const tableButton = button("table", "as a table", () => { other.hidden = !other.hidden; tableButton.setAttribute("aria-pressed", !other.hidden); fillTable(); }, {"aria-pressed": false});
  const saving = ["svg", "png", "csv"].map(kind => button(kind, `save as ${kind.toUpperCase()}`, () => save(kind, {svg, title: options.title, name: options.name, series: shown(), xLabel: options.x.label})));
  const stage = el("div", {class: "stage", style: {height: `${options.height}px`}}, svg, readout);
  const node = el("figure", {class: "chart"},
    el("figcaption", {}, el("span", {class: "title"}, options.title ?? "", options.y.label ? el("span", {class: "mute"}, ` ${options.y.label}`) : null),
      el("span", {class: "tools"}, resetButton, logButton, tableButton, saving)),
    stage, legend, other, aloud);

  const shown = () => state.series.filter(s => !state.hidden.has(s.name));
  const say = v => (options.y.format ?? number)(v);
  const sayX = v => (options.x.format ?? number)(v);

  function redraw() {
    draw(state);
    logButton.setAttribute("aria-pressed", state.log);
    resetButton.disabled = state.zoom === null;
    const told = shown().map(s => (s.y.length ? `${s.name} ${say(s.y[s.y.length - 1])}` : "")).filter(Boolean).join(", ");
    svg.setAttribute("aria-label", `${options.title ?? "chart"} by ${options.x.label ?? "x"}. Last: ${told || "nothing yet"}. Arrow keys read it, the button "table" shows it as a table.`);
    if (!other.hidden) fillTable();
    if (state.cursor !== null) pointAt(state.cursor, false);
  }

  function fillTable() {
    if (other.hidden) return;
    const rows = shown().flatMap(s => sampled(s.x.length, 200).map(i => ({s: s.name, x: s.x[i], y: s.y[i]})));
    clear(other).append(table([{head: "series", cell: r => r.s}, {head: options.x.label ?? "x", cell: r => sayX(r.x), right: true}, {head: options.title ?? "value", cell: r => say(r.y), right: true}], rows, {caption: options.title}));
  }

  function drawLegend() {
    clear(legend).append(...state.series.map(s => el("button", {
      type: "button", class: `key k${s.colour % 8}`, "aria-pressed": !state.hidden.has(s.name), title: "show or hide",
      onclick: () => { state.hidden.has(s.name) ? state.hidden.delete(s.name) : state.hidden.add(s.name); drawLegend(); redraw(); },
    }, el("svg", {width: 20, height: 8, "aria-hidden": "true"}, el("line", {x1: 0, x2: 20, y1: 4, y2: 4, class: `curve k${s.colour % 8}${s.faint ? " faint" : ""}`, "stroke-dasharray": s.dash || null})), s.name)));
  }

  // The cursor: a line at an x, a spot on every curve there, and what they are.
  function pointAt(x, aloudToo) {
    svg.querySelectorAll("[data-cursor]").forEach(each => each.remove());
    const rows = [];
    let at = null;
    for (const s of shown()) {
      const i = nearest(s.x, x);
      if (i < 0 || !Number.isFinite(s.y[i])) continue;
      if (at === null || Math.abs(s.x[i] - x) < Math.abs(at - x)) at = s.x[i];
      rows.push({s, i});
    }
    state.cursor = at === null ? null : x;
    readout.hidden = at === null;
    if (at === null) return;
    const px = state.at.x(at), bottom = state.height - MARGIN.bottom;
    const mark = el("g", {class: "cursor", data: {cursor: 1}}, el("line", {x1: px, x2: px, y1: MARGIN.top, y2: bottom}));
    for (const {s, i} of rows) { const cy = state.at.y(s.y[i]), cx = state.at.x(s.x[i]); if (Number.isFinite(cy) && cx >= state.at.left - 1 && cx <= state.width) mark.append(el("circle", {cx, cy, r: 4, class: `spot k${s.colour % 8}`})); }
    svg.append(mark);
    clear(readout).append(el("div", {class: "at"}, `${options.x.label ?? "x"} ${sayX(at)}`), ...rows.map(({s, i}) => el("div", {class: `one k${s.colour % 8}`}, el("span", {class: "dot"}), el("span", {class: "name"}, s.name), el("b", {}, say(s.y[i])), Math.abs(s.x[i] - at) > 1e-9 * Math.abs(at || 1) ? el("span", {class: "mute"}, ` at ${sayX(s.x[i])}`) : null)));
    const left = px / state.width > 0.55;
    readout.style.setProperty("left", left ? "auto" : `${(100 * px) / state.width}%`);
    readout.style.setProperty("right", left ? `${100 - (100 * px) / state.width}%` : "auto");
    if (aloudToo) aloud.textContent = `${options.x.label ?? "x"} ${sayX(at)}: ${rows.map(({s, i}) => `${s.name} ${say(s.y[i])}`).join(", ")}`;
  }

  function leave() {
    state.cursor = null;
    readout.hidden = true;
    svg.querySelectorAll("[data-cursor]").forEach(each => each.remove());
  }

  function zoomTo(range) {
    state.zoom = range;
    redraw();
    options.onzoom?.(...(range ?? [null]));
  }

  const pixel = event => { const box = svg.getBoundingClientRect(); return ((event.clientX - box.left) * state.width) / box.width; };
  let from = null, band = null;
  svg.addEventListener("pointerdown", event => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = pixel(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    const here = pixel(event);
    if (from !== null && Math.abs(here - from) > 4) {
      if (!band) { leave(); band = el("rect", {class: "band", y: MARGIN.top, height: state.height - MARGIN.top - MARGIN.bottom, data: {cursor: 1}}); svg.append(band); }
      band.setAttribute("x", Math.min(from, here));
      band.setAttribute("width", Math.abs(here - from));
    } else if (from === null && here >= state.at.left - 6) pointAt(state.at.x.back(here), false);
    else if (from === null) leave();
  });
  svg.addEventListener("pointerup", event => {
    const here = pixel(event), start = from;
    from = null;
    if (!band) { if (event.pointerType === "touch") pointAt(state.at.x.back(here), true); return; }
    band.remove();
    band = null;
    const range = [start, here].sort((a, b) => a - b).map(p => state.at.x.back(Math.min(Math.max(p, state.at.left), state.width - MARGIN.right)));
    if (range[1] > range[0]) zoomTo(range);
  });
  svg.addEventListener("pointercancel", () => { from = null; band?.remove(); band = null; });
  svg.addEventListener("pointerleave", () => { if (from === null) leave(); });
  svg.addEventListener("dblclick", () => zoomTo(null));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", event => {
    const longest = shown().reduce((best, s) => (s.x.length > (best?.x.length ?? 0) ? s : best), null);
    if (!longest) return;
    const [low, high] = state.at.domain.x;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const now = nearest(longest.x, state.cursor ?? (event.key === "ArrowRight" ? -Infinity : Infinity));
      const step = (event.shiftKey ? 10 : 1) * (event.key === "ArrowRight" ? 1 : -1);
      const to = state.cursor === null ? now : Math.min(Math.max(now + step, 0), longest.x.length - 1);
      pointAt(longest.x[to], true);
    } else if (event.key === "+" || event.key === "-") {
      const middle = state.cursor ?? (low + high) / 2, half = ((high - low) / 2) * (event.key === "+" ? 0.5 : 2);
      zoomTo([middle - half, middle + half]);
    } else if (event.key === "Escape" && state.zoom) zoomTo(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const resized = new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width > 0 && width !== state.width) { state.width = width; redraw(); }
  });
  resized.observe(stage);

  function update(more) {
    if (more.marks) options.marks = more.marks;
    if (more.x) options.x = more.x;
    if (more.title) node.querySelector(".title").firstChild.textContent = options.title = more.title;
    if (more.series) {
      const before = state.series.map(s => `${s.name}\u0000${s.colour}`).join("\u0001");
      state.series = more.series.map((s, i) => ({colour: i, kind: "line", ...s}));
      if (before !== state.series.map(s => `${s.name}\u0000${s.colour}`).join("\u0001")) drawLegend();
    }
    redraw();
  }

  update({series: options.series ?? []});
  return {node, update, destroy: () => resized.disconnect(), get zoom() { return state.zoom; }, reset: () => zoomTo(null)};
}

function sampled(length, most) {
  if (length <= most) return Array.from({length}, (_, i) => i);
  return Array.from({length: most}, (_, i) => Math.round((i * (length - 1)) / (most - 1)));
}
