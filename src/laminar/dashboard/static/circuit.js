// A circuit: functions as boxes below all that they wait for, and who waits for whom as arrows.

import {el} from "/static/dom.js";

const WIDE = 210, HIGH = 62, ACROSS = 30, DOWN = 50, TOP = 12;
const cost = ns => (ns < 1e3 ? `${ns.toFixed(0)} ns` : ns < 1e6 ? `${(ns / 1e3).toFixed(1)} µs` : `${(ns / 1e6).toFixed(1)} ms`);

export function circuit(told, {onpick}) {
  const widest = Math.max(1, ...told.rows.map(row => row.length));
  const wide = ACROSS + widest * (WIDE + ACROSS) + 40, high = TOP + told.rows.length * (HIGH + DOWN) - DOWN + 6;
  const places = new Map();
  told.rows.forEach((row, r) => row.forEach((number, c) => places.set(number, [ACROSS + (c + (widest - row.length) / 2) * (WIDE + ACROSS), TOP + r * (HIGH + DOWN)])));
  const arrows = told.edges.filter(e => places.has(e.from) && places.has(e.to)).map(e => el("path", {class: `edge ${e.kind}${e.next_round ? " round" : ""}`, d: path(places.get(e.from), places.get(e.to), e.next_round), "marker-end": "url(#arrow)"}, el("title", {}, `${e.kind}: ${e.what}${e.next_round ? ", for the next round" : ""}`)));
  const boxes = told.functions.filter(f => places.has(f.number)).map(f => box(f, places.get(f.number), onpick));
  const used = [...new Set(told.edges.map(e => e.kind))];
  const words = {value: "a value", guard: "runs or is ignored", array: "uses the same array", barrier: "all instances arrive"};
  return el("div", {}, el("div", {class: "scroll circuit", role: "region", "aria-label": "circuit"},
    el("svg", {width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "group", "aria-label": `${told.functions.length} functions`},
      el("defs", {}, el("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"}, el("path", {class: "head", d: "M0,0 L8,4 L0,8 z"}))), arrows, boxes)),
  used.length ? el("p", {class: "kinds"}, used.map(k => el("span", {class: "kind"}, el("i", {class: `edge-${k}`}), words[k] ?? k)), told.edges.some(e => e.next_round) ? el("span", {class: "mute"}, "dashed: for the next round") : null) : null);
}

function box(f, [left, top], onpick) {
  const lines = f.lines[0] === f.lines[1] ? `line ${f.lines[0]}` : `lines ${f.lines[0]} to ${f.lines[1]}`;
  const takes = [...new Set([...f.takes, ...f.reads])].join(", ") || "–";
  const gives = [...new Set([...f.gives, ...f.writes])].join(", ") || (f.kind === "condition" ? "true or false" : "–");
  const detail = `${takes} → ${gives}`;
  const pick = () => onpick(f), leave = () => onpick(null);
  return el("g", {class: `function ${f.kind}`, tabindex: 0, role: "img", "aria-label": `${f.kind} ${f.number}, ${lines}: ${detail}, ${cost(f.nanoseconds)} an instance`, onpointerenter: pick, onpointerleave: leave, onfocus: pick, onblur: leave},
    el("title", {}, `${detail}${f.guarded ? "; for instances whose condition holds" : ""}`),
    el("rect", {x: left, y: top, width: WIDE, height: HIGH, rx: f.kind === "condition" ? 22 : 6}),
    el("text", {class: "name", x: left + 14, y: top + 20}, `${f.kind === "condition" ? "condition" : "function"} ${f.number}`),
    el("text", {x: left + 14, y: top + 36}, `${lines} · ${cost(f.nanoseconds)} an instance`),
    el("text", {x: left + 14, y: top + 52}, detail.length > 32 ? `${detail.slice(0, 31)}…` : detail));
}

function path([fromX, fromY], [toX, toY], round) {
  if (round) { // round the side, upwards
    const a = [fromX + WIDE, fromY + HIGH / 2], b = [toX + WIDE, toY + HIGH / 2];
    return `M${a} C${a[0] + 36},${a[1]} ${b[0] + 36},${b[1]} ${b}`;
  }
  const a = [fromX + WIDE / 2, fromY + HIGH], b = [toX + WIDE / 2, toY], middle = (a[1] + b[1]) / 2;
  return `M${a} C${a[0]},${middle} ${b[0]},${middle} ${b}`;
}
