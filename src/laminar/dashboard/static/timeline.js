// A timeline: who does what in a step, one row for every worker and link. Bars are [kind, name, begin, end, tasks].
//
//   const made = timeline(rows, {title, format: seconds => text});  main.append(made.node);  made.destroy();

import {ticks} from "/static/chart_scale.js";
import {clear, el} from "/static/dom.js";

const ROW = 26, GAP = 6, TOP = 22, RIGHT = 8, LEAST = 0.4;

export function timeline(rows, {title, format}) {
  const end = Math.max(...rows.flatMap(row => row.bars.map(bar => bar[3])), 0) || 1;
  const height = TOP + rows.length * (ROW + GAP) + 4;
  const kinds = [...new Set(rows.flatMap(row => row.bars.map(bar => bar[0])))];
  const busy = rows.map(row => row.bars.reduce((sum, bar) => sum + bar[3] - bar[2], 0) / end);
  const svg = el("svg", {class: "timeline", height, width: "100%", role: "img", "aria-label": `${title}, ${format(end)}: ${rows.map((row, i) => `${row.name} busy ${Math.round(100 * busy[i])} %`).join(", ")}`});
  const readout = el("p", {class: "mute said", "aria-hidden": "true"}, "Point at a bar to read it.");
  const node = el("figure", {class: "chart"},
    el("figcaption", {}, el("span", {class: "title"}, title, el("span", {class: "mute"}, ` ${format(end)}`)), el("span", {class: "kinds"}, kinds.map(kind => el("span", {class: "kind"}, el("i", {class: `kind-${kind}`}), kind)))),
    el("div", {class: "stage", style: {height: `${height}px`}}, svg), readout);

  function draw(width) {
    const left = Math.min(10 + 7.2 * Math.max(...rows.map(row => Math.min(row.name.length, 24))), width * 0.35);
    const scale = (width - left - RIGHT) / end, bottom = height - 4;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    clear(svg);
    for (const at of ticks(0, end, width < 500 ? 4 : 8)) {
      const x = left + at * scale;
      svg.append(el("line", {class: "tick", x1: x, x2: x, y1: TOP - 4, y2: bottom}));
      if (x < width - 40) svg.append(el("text", {class: "mark", x, y: TOP - 8, "text-anchor": at === 0 ? "start" : "middle"}, format(at)));
    }
    rows.forEach((row, i) => {
      const y = TOP + i * (ROW + GAP);
      const name = row.name.length > 24 ? `${row.name.slice(0, 23)}…` : row.name;
      svg.append(el("text", {class: "name", x: left - 8, y: y + ROW / 2 + 4, "text-anchor": "end"}, name, el("title", {}, `${row.name}: busy ${Math.round(100 * busy[i])} %`)),
        el("rect", {class: "lane", x: left, y, width: end * scale, height: ROW, rx: 3}));
      for (const [kind, what, begin, stop, tasks] of row.bars) {
        const wide = Math.max(LEAST, (stop - begin) * scale), shown = wide > 3 ? wide - 0.6 : wide;
        const words = `${tasks > 1 ? `${tasks} tasks, most of them ${kind}` : what || kind}: ${format(stop - begin)}, from ${format(begin)} on`;
        const bar = el("rect", {class: `work kind-${kind}`, x: left + begin * scale, y, width: shown, height: ROW, onpointerenter: () => { readout.textContent = `${row.name}: ${words}`; }}, el("title", {}, words));
        svg.append(bar);
        const letters = Math.floor((wide - 6) / 6), text = what || kind;
        if (tasks <= 1 && letters >= Math.min(text.length, 7)) svg.append(el("text", {class: "inside", x: left + begin * scale + wide / 2, y: y + ROW / 2 + 4, "text-anchor": "middle"}, text.length <= letters ? text : `${text.slice(0, letters - 1)}…`));
      }
    });
  }

  const resized = new ResizeObserver(([entry]) => { if (entry.contentRect.width > 0) draw(Math.round(entry.contentRect.width)); });
  resized.observe(svg.parentNode);
  draw(800);
  return {node, destroy: () => resized.disconnect()};
}
