// Ranges: a dot with its interval for every row, against a base. rows: {label, middle, span: {low, high} or null, published, good, benchmark, words}
//
//   const made = ranges(rows, {title, format, base: 100});  main.append(made.node);  made.destroy();

import {extent, scale, ticks} from "/static/chart_scale.js";
import {clear, el} from "/static/dom.js";

const ROW = 26, TOP = 6, BOTTOM = 22;

export function ranges(rows, {title, format, base}) {
  const height = TOP + rows.length * ROW + BOTTOM;
  const known = rows.flatMap(r => [r.middle, r.span?.low, r.span?.high, r.published, base]).filter(v => Number.isFinite(v));
  const domain = extent(known, {room: 0.06});
  const svg = el("svg", {class: "ranges", height, width: "100%", role: "img", "aria-label": `${title}: ${rows.map(r => `${r.label} ${format(r.middle)}`).join(", ")}`});
  const node = el("figure", {class: "chart"}, el("figcaption", {}, el("span", {class: "title"}, title)), el("div", {class: "stage", style: {height: `${height}px`}}, svg));

  function draw(width) {
    const letters = Math.max(6, Math.floor(width * 0.05));
    const name = text => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
    const left = 10 + 6.8 * Math.min(letters, Math.max(...rows.map(r => r.label.length))), right = width - 12;
    const at = scale(domain, [left, right]), bottom = height - BOTTOM;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    clear(svg);
    for (const v of ticks(...domain, Math.max(2, Math.floor((right - left) / 90)))) svg.append(el("line", {class: "tick", x1: at(v), x2: at(v), y1: TOP, y2: bottom}), el("text", {class: "mark", x: at(v), y: height - 7, "text-anchor": "middle"}, format(v)));
    if (base !== null) svg.append(el("line", {class: "base", x1: at(base), x2: at(base), y1: TOP, y2: bottom}));
    rows.forEach((r, i) => {
      const y = TOP + (i + 0.5) * ROW, kind = r.benchmark ? "bench" : r.good === null ? "plain" : r.good ? "good" : "bad";
      const group = el("g", {class: `range ${kind}`}, el("title", {}, `${r.label}: ${format(r.middle)}${r.span ? `, ${format(r.span.low)} to ${format(r.span.high)}` : ""}; ${r.words}${r.published !== null && r.published !== undefined ? `; published ${format(r.published)}` : ""}`), el("rect", {class: "touch", x: 0, y: y - ROW / 2, width, height: ROW}), el("text", {class: "name", x: left - 10, y: y + 4, "text-anchor": "end"}, name(r.label)));
      if (r.span && Number.isFinite(r.span.low) && Number.isFinite(r.span.high)) group.append(el("line", {class: "span", x1: at(r.span.low), x2: at(r.span.high), y1: y, y2: y}), ...[r.span.low, r.span.high].map(v => el("line", {class: "span", x1: at(v), x2: at(v), y1: y - 4, y2: y + 4})));
      if (Number.isFinite(r.published)) group.append(el("path", {class: "published", d: `M${at(r.published)},${y - 5} l5,5 l-5,5 l-5,-5 z`}));
      if (Number.isFinite(r.middle)) group.append(el("circle", {class: "dot-mark", cx: at(r.middle), cy: y, r: 4.5}));
      svg.append(group);
    });
  }

  const resized = new ResizeObserver(([entry]) => { if (entry.contentRect.width > 0) draw(Math.round(entry.contentRect.width)); });
  resized.observe(svg.parentNode);
  draw(500);
  return {node, destroy: () => resized.disconnect()};
}
