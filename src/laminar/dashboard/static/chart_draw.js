// Drawing: a chart's state to SVG. Colours are classes (k0 … k7), so that a change of theme needs no drawing.

import {el} from "/static/dom.js";
import {extent, logTicks, scale, ticks, tickText, timeTicks} from "/static/chart_scale.js";

export const COLOURS = 8;
export const MARGIN = {top: 10, right: 14, bottom: 34};
const LEFT = [36, 78];  // room for the words of the y axis: least, most

// Scales of what is visible: x as zoomed, y as far as what is seen reaches.
export function scales(state) {
  const {width, height, options, zoom} = state, right = width - MARGIN.right;
  const seen = state.series.filter(s => !state.hidden.has(s.name));
  const x = zoom ?? extent(seen.flatMap(s => [s.x[0], s.x[s.x.length - 1]]), {log: options.x.log, room: options.x.log ? 0.02 : 0, zero: options.x.zero});
  const [low, high] = x, values = [];
  for (const s of seen) for (let i = 0; i < s.x.length; i++) if (s.x[i] >= low && s.x[i] <= high) values.push(s.y[i]);
  const y = extent(values, {log: state.log, zero: options.y.zero});
  if (options.y.max !== undefined && y[1] > options.y.max) y[1] = options.y.max + (options.y.max - y[0]) * 0.02;
  const up = Math.max(2, Math.floor((height - MARGIN.bottom - MARGIN.top) / 38)), ys = state.log ? logTicks(...y, up) : ticks(...y, up);
  const words = ys.map(options.y.tick ?? options.y.format ?? tickText), left = Math.min(Math.max(LEFT[0], 16 + 6.6 * Math.max(...words.map(w => w.length), 1)), LEFT[1]);
  return {x: scale(x, [left, right], options.x.log), y: scale(y, [height - MARGIN.bottom, MARGIN.top], state.log), domain: {x, y}, ys, words, left, right};
}

export function draw(state) {
  const {svg, width, height, options} = state;
  const at = state.at = scales(state), {left} = at;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...axes(state, at));
  const id = `clip-${state.id}`;
  svg.append(el("defs", {}, el("clipPath", {id}, el("rect", {x: left - 4, y: MARGIN.top - 4, width: Math.max(0, width - left - MARGIN.right + 8), height: height - MARGIN.top - MARGIN.bottom + 8}))));
  const plot = el("g", {"clip-path": `url(#${id})`});
  for (const s of state.series) {
    if (state.hidden.has(s.name)) continue;
    const shape = `k${s.colour % COLOURS}${s.faint ? " faint" : ""}`;
    if (s.kind !== "points" && s.x.length > 1) plot.append(el("path", {d: path(s, at), class: `curve ${shape}`, "stroke-dasharray": s.dash || null}));
    if (s.kind === "points" || s.kind === "both" || s.x.length === 1) {
      for (let i = 0; i < s.x.length; i++) { const x = at.x(s.x[i]), y = at.y(s.y[i]); if (Number.isFinite(x) && Number.isFinite(y)) plot.append(el("circle", {cx: x.toFixed(1), cy: y.toFixed(1), r: s.kind === "points" ? 4 : 2.6, class: `spot ${shape}`})); }
    }
  }
  for (const mark of options.marks ?? []) {
    const x = at.x(mark.x);
    if (x >= left && x <= width - MARGIN.right) plot.append(el("g", {class: "mark-line"}, el("line", {x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom}), el("title", {}, mark.text)));
  }
  svg.append(plot);
  if (!state.series.some(s => !state.hidden.has(s.name) && s.x.length)) svg.append(el("text", {x: width / 2, y: height / 2, class: "none", "text-anchor": "middle"}, options.empty ?? "nothing to draw yet"));
}

function axes({height, options}, at) {
  const {left, right} = at, bottom = height - MARGIN.bottom;
  const across = Math.max(2, Math.min(8, Math.floor((right - left) / 90)));
  const xs = options.x.log ? logTicks(...at.domain.x, across) : options.x.time ? timeTicks(...at.domain.x, across) : ticks(...at.domain.x, across);
  const xText = options.x.tick ?? options.x.format ?? tickText;
  return [
    ...at.ys.map((v, i) => el("g", {class: "axis"}, el("line", {x1: left, x2: right, y1: at.y(v).toFixed(1), y2: at.y(v).toFixed(1)}), el("text", {x: left - 8, y: at.y(v).toFixed(1), "text-anchor": "end", dy: "0.32em"}, at.words[i]))),
    ...xs.map(v => el("g", {class: "axis x"}, el("line", {x1: at.x(v).toFixed(1), x2: at.x(v).toFixed(1), y1: bottom, y2: bottom + 4}), el("text", {x: at.x(v).toFixed(1), y: bottom + 17, "text-anchor": "middle"}, xText(v)))),
    el("line", {x1: left, x2: right, y1: bottom, y2: bottom, class: "base"}),
    el("text", {x: right, y: height - 3, "text-anchor": "end", class: "label"}, options.x.label ?? ""),
  ];
}

function path(s, at) {
  let d = "", pen = false;
  for (let i = 0; i < s.x.length; i++) {
    const x = at.x(s.x[i]), y = at.y(s.y[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
    d += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  }
  return d;
}
