// The graph of a model: its modules in the order in which they run, frozen and trained ones marked, and what flows past others as arcs.

const ROW = 40, LANE = 9, MOST = 8;
const WORDS = {frozen: "frozen", trained: "trained here", unchanged: "as below"};
const SAID = ["in_channels", "out_channels", "in_features", "out_features", "num_features", "kernel_size", "stride", "embedding_dim", "num_embeddings", "num_heads", "p", "normalized_shape"];

export function modelGraph(found, {el, format, table}) {
  const whole = found.states[""] ?? {tensors: 0, own: 0, bytes: 0, added: 0};
  const parts = ["frozen", "trained", "unchanged"].map(state => {
    const own = Object.entries(found.states).filter(([path, s]) => s.state === state && leaf(found.states, path));
    return {state, bytes: own.reduce((all, [, s]) => all + s.bytes, 0), count: own.length};
  }).filter(part => part.count);
  const made = el("div", {class: "model"},
    el("div", {class: "share", role: "img", "aria-label": parts.map(p => `${WORDS[p.state]} ${format.bytes(p.bytes)}`).join(", ")}, parts.map(p => el("span", {class: p.state, style: {"flex-grow": String(Math.max(p.bytes, whole.bytes * 0.01))}}))),
    el("div", {class: "row small"}, parts.map(p => el("span", {class: `word ${p.state}`}, el("span", {class: "dot"}), `${WORDS[p.state]}: ${format.many(p.count, "module")}, ${format.bytes(p.bytes)}`))),
    found.note ? el("p", {class: "mute"}, found.note) : null);
  made.append(found.nodes.length ? drawn(found, el, format) : table([{head: "module", cell: m => el("code", {}, m.path || "(whole)")}, {head: "", cell: m => WORDS[found.states[m.path]?.state] ?? ""}], found.modules, {caption: "Modules"}));
  return made;
}

const leaf = (states, path) => !Object.keys(states).some(other => other !== path && (path === "" ? true : other.startsWith(`${path}.`)));

function drawn(found, el, format) {
  const place = new Map(found.nodes.map((node, i) => [node.id, i]));
  const far = found.edges.map(([a, b]) => [place.get(a), place.get(b)]).filter(([a, b]) => a !== undefined && b !== undefined && b - a !== 1).sort((a, b) => a[1] - a[0] - (b[1] - b[0]));
  const next = new Set(found.edges.map(([a, b]) => [place.get(a), place.get(b)]).filter(([a, b]) => b - a === 1).map(([a]) => a));
  const lanes = [];  // shortest arcs nearest to the modules
  const arcs = far.map(([a, b]) => {
    let lane = lanes.findIndex(taken => taken.every(([c, d]) => b <= c || a >= d));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push([a, b]);
    return {a, b, lane: Math.min(lane, MOST - 1)};
  });
  const left = 14 + Math.min(lanes.length, MOST) * LANE, height = found.nodes.length * ROW, y = i => i * ROW + ROW / 2;
  const gutter = el("svg", {class: "flow", width: left + 12, height, "aria-hidden": "true"},
    found.nodes.map((_, i) => (next.has(i) ? el("line", {x1: left + 6, x2: left + 6, y1: y(i), y2: y(i + 1)}) : null)).filter(Boolean),
    arcs.map(({a, b, lane}) => { const x = left - 2 - (lane + 1) * LANE; return el("path", {d: `M${left + 6} ${y(a)}C${x} ${y(a) + 12} ${x} ${y(a) + 12} ${x} ${y(a) + 26}L${x} ${Math.max(y(b) - 26, y(a) + 26)}C${x} ${y(b) - 12} ${x} ${y(b) - 12} ${left + 6} ${y(b)}`}); }),
    found.nodes.map((node, i) => el("circle", {cx: left + 6, cy: y(i), r: 5, class: state(found, node)})));
  const rows = found.nodes.map(node => {
    const known = found.states[node.path], mark = state(found, node), facts = SAID.filter(name => node.facts[name] !== undefined).map(name => `${name.replaceAll("_", " ")} ${[node.facts[name]].flat().join("×")}`);
    return el("li", {class: mark, title: facts.join(", ") || null}, el("b", {}, node.kind), el("code", {}, node.path), el("span", {class: "mute facts"}, brief(node)),
      el("span", {class: "mute shape"}, node.shape ? node.shape.join("×") : ""), known && node.path ? el("span", {class: `word ${mark}`}, mark === "plain" ? "" : `${WORDS[mark]} ${format.bytes(known.bytes)}`) : el("span"));
  });
  return el("div", {class: "graph", style: {"--left": `${left + 12}px`}}, gutter, el("ol", {}, rows));
}

function brief(node) {
  const f = node.facts, size = f.kernel_size !== undefined ? `${[f.kernel_size].flat().join("×")} ` : "";
  if (f.in_channels !== undefined) return `${size}${f.in_channels} → ${f.out_channels}`;
  if (f.in_features !== undefined) return `${f.in_features} → ${f.out_features}`;
  return size.trim();
}

function state(found, node) {
  const known = node.path ? found.states[node.path] : null;
  return known ? known.state : "plain";
}
