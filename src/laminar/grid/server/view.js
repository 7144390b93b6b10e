// The grid in figures, runs, nodes, rounds and tasks, as elements: for the status page of a grid's server and for the dashboard.
// Everything is put in as text, never as HTML: names are chosen by strangers.
const RUNS = 10, NODES = 500, ROUNDS = 50, TASKS = 100, SVG = "http://www.w3.org/2000/svg";

// Where the time of nodes goes, as they say.
const PARTS = ["computing", "transfer", "waiting", "paused", "wasted"];
const parts = (spent) => PARTS.map((part) => (spent.seconds ? percent(spent[part]) : "–"));

// Elements

function make(name, text, cls) {
  const found = document.createElement(name);
  if (text !== undefined) found.textContent = text;
  if (cls) found.className = cls;
  return found;
}
function around(name, cls, ...inside) { const found = make(name, undefined, cls); found.append(...inside); return found; }
function drawn(name, cls, said) {
  const found = document.createElementNS(SVG, name);
  found.setAttribute("class", cls);
  for (const [key, value] of Object.entries(said)) found.setAttribute(key, value);
  return found;
}

// Words

const count = (n) => Math.round(n).toLocaleString("en");
const percent = (share) => Math.round(100 * share) + " %";
function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) { if (n < 999.5) return (n < 9.95 && unit !== "B" ? n.toFixed(1) : Math.round(n)) + " " + unit; n /= 1000; }
  return n.toFixed(1) + " TB";
}
function ago(s) {
  if (s < 90) return Math.max(0, Math.round(s)) + " s";
  return s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}
const STATES = { open: "good", paused: "warn", done: "dim", stopped: "bad" };

// The grid in figures

export function figures(status) {
  const { nodes, tasks } = status, of = (state) => tasks[state] || 0;
  const up = status.runs.reduce((sum, told) => sum + told.bytes.up, 0);
  const rows = [
    [count(nodes.active), "of " + count(nodes.known) + " nodes are here", nodes.active ? "good" : ""],
    [count(nodes.trusted), "trusted"],
    [count(nodes.banned), "banned", nodes.banned ? "bad" : ""],
    [count(of("in progress")), "results under way, " + count(of("unsent")) + " wait"],
    [count(of("valid")), "valid"],
    [count(of("invalid")), "invalid", of("invalid") ? "bad" : ""],
    [count(of("late") + of("lost")), "late or lost"],
    [bytes(up), "of answers"],
  ];
  return rows.map(([number, name, cls]) => around("div", "", make("b", number, cls), make("span", name)));
}

// Runs

function curve(points) {
  const key = ["accuracy", "r2", "loss"].find((k) => points.length && k in points[0]);
  if (!key) return make("p", "No version was tested yet.", "dim");
  const values = points.map((p) => p[key]), least = Math.min(...values), most = Math.max(...values), room = most - least || 1;
  const first = points[0].version, last = points[points.length - 1].version, wide = last - first || 1;
  const places = points.map((p) => [6 + (588 * (p.version - first)) / wide, most === least ? 80 : 152 - (144 * (p[key] - least)) / room].map((n) => n.toFixed(1)));
  const line = places.map((xy) => xy.join(",")).join(" "), end = places[places.length - 1];
  const svg = drawn("svg", "", { viewBox: "0 0 600 160", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", key + " of " + points.length + " tested versions, from " + least.toFixed(4) + " to " + most.toFixed(4));
  for (const y of [8, 80, 152]) svg.append(drawn("path", "grid", { d: "M0 " + y + "H600" }));
  svg.append(drawn("polygon", "area", { points: places[0][0] + ",160 " + line + " " + end[0] + ",160" }), drawn("polyline", "line", { points: line }), drawn("path", "point", { d: "M" + end.join(" ") + "h0" }));
  const ends = (cls, ...words) => around("div", "ends " + cls, ...words.map((word) => make("span", word)));
  const scale = most === least ? ["", most.toFixed(3), ""] : [most.toFixed(3), ((most + least) / 2).toFixed(3), least.toFixed(3)];
  const caption = around("figcaption", "", key + " by version, now ", make("b", values[values.length - 1].toFixed(4)));
  return around("figure", "", caption, ends("up", ...scale), svg, ends("along", "version " + first, ...(last > first ? [String(last)] : [])));
}

function run(told) {
  const bar = make("progress"), { trust, bytes: sent } = told;
  bar.max = told.rounds; bar.value = told.version; bar.setAttribute("aria-label", "versions made");
  const facts = [
    ["version", count(told.version) + " of " + count(told.rounds)],
    ["answers", count(told.answers) + " for " + count(told.applied) + " tasks"],
    ["sent by nodes", bytes(sent.up) + (sent.up && sent.dense > 1.5 * sent.up ? ", 1/" + Math.round(sent.dense / sent.up) + " of dense" : "")],
    ["price of trust", percent(trust.overhead) + ", " + count(trust.checks) + " done twice"],
    ["disputed", count(trust.disagreements)],
    ["late, lost", count(told.late) + ", " + count(told.lost)],
    ["mean staleness", told.staleness.toFixed(2)],
    ...(told.utilization.seconds ? PARTS.map((part) => ["nodes' time " + part, percent(told.utilization[part])]) : []),
  ];
  const refused = Object.entries(told.refused).sort((a, b) => b[1] - a[1]);
  const chips = refused.length ? [make("b", "refused", "bad"), ...refused.map(([why, n]) => make("span", why + " " + count(n)))] : [make("b", "refused", "dim"), make("span", "none")];
  const title = around("div", "title", make("h3", told.name), make("span", told.layer, "dim"), make("span", told.state, "badge " + (STATES[told.state] || "")));
  if (told.why) title.append(make("span", told.why, told.state === "done" ? "dim" : "warn"));
  const table = around("dl", "", ...facts.map(([name, text]) => around("div", "", make("dt", name), make("dd", text))));
  return around("article", "card", title, bar, table, around("div", "chips", ...chips), curve(told.curve));
}

export function runs(all) {
  if (!all.length) return [around("p", "card empty", "No run yet. In the folder of the stack: ", make("code", "laminar grid train LAYER"))];
  const live = (told) => told.state === "open" || told.state === "paused";
  const sorted = all.slice().reverse().sort((a, b) => live(b) - live(a)), more = all.length - RUNS;
  return [...sorted.slice(0, RUNS).map(run), ...(more > 0 ? [make("p", "and " + count(more) + " older ones: laminar grid status", "dim")] : [])];
}

// Tables: columns are [name, is it a number, is it left out on narrow screens]; cells are text or [text, class, share, title]

function table(columns, rows) {
  const cls = (i, more) => [columns[i][1] && "n", columns[i][2] && "minor", more].filter(Boolean).join(" ");
  const head = around("tr", "", ...columns.map((column, i) => make("th", column[0], cls(i))));
  const body = rows.map((row) => around("tr", "", ...row.map((cell, i) => {
    const [text, more, share, title] = Array.isArray(cell) ? cell : [cell], found = make("td", text, cls(i, more));
    if (title || String(text).length > 20) found.title = title || text;
    if (share !== undefined) found.style.setProperty("--share", share.toFixed(3));
    return found;
  })));
  return around("table", "", head, ...body);
}

// `origin`: the address that nodes join by.
export function nodes(all, now, origin) {
  if (!all.length) return [around("p", "empty", "No node has joined yet. On a desktop: ", make("code", "laminar grid join " + origin), ". It asks for the token that laminar grid serve prints.")];
  const most = Math.max(1, ...all.map((n) => n.credit)), more = all.length - NODES;
  const sorted = all.slice().sort((a, b) => b.active - a.active || b.credit - a.credit || a.number - b.number).slice(0, NODES);
  const state = (n) => (n.banned ? ["banned", "bad", undefined, n.banned] : n.active ? [n.trusted ? "trusted" : "here", "good"] : ["away", "dim"]);
  const columns = [["node"], ["owner", 0, 1], ["state"], ["credit", 1], ["seen", 1, 1], ["works", 1, 1], ...PARTS.map((part) => [part, 1, 1]), ["samples/s", 1, 1], ["streak", 1, 1], ["valid", 1], ["invalid", 1], ["lost", 1, 1], ["down", 1, 1], ["up", 1, 1]];
  const rows = sorted.map((n) => [
    n.number + " " + n.name, n.owner || "–", state(n), [count(n.credit), "portion", n.credit / most], ago(now - n.seen), percent(n.available), ...parts(n.utilization), count(n.speed), count(n.streak),
    count(n.valid), [count(n.invalid), n.invalid ? "bad" : ""], count(n.lost), bytes(n.bytes_down), bytes(n.bytes_up),
  ]);
  return [table(columns, rows), ...(more > 0 ? [make("p", "and " + count(more) + " more: laminar grid nodes", "empty")] : [])];
}

export function rounds(all) {
  if (!all.length) return [make("p", "No round yet.", "empty")];
  const columns = [["run"], ["round", 1], ["from version", 1, 1], ["answers", 1], ["wanted", 1], ["seconds", 1], ["closed by"], ...PARTS.map((part) => [part, 1, 1])];
  const rows = all.slice(-ROUNDS).reverse().map((r) => [r.name, count(r.round), count(r.version), count(r.answers), count(r.wanted), r.closed ? (r.closed - r.opened).toFixed(1) : "", r.closed ? r.why : ["open", "good"], ...parts(r.utilization)]);
  return [table(columns, rows)];
}

// The newest results, with what became of each.
export function tasks(all, now) {
  if (!all.length) return [make("p", "No task was given out yet.", "empty")];
  const columns = [["result", 1], ["run"], ["round", 1], ["node"], ["state"], ["verdict"], ["sent", 1, 1], ["took", 1, 1], ["bytes", 1, 1]];
  const kinds = { valid: "good", invalid: "bad", late: "warn", lost: "warn", failed: "bad" };
  const rows = all.slice(0, TASKS).map((t) => [
    String(t.id), t.run || "–", count(t.round), t.node || "–", [t.state, kinds[t.state] || ""], t.verdict || "", t.sent ? ago(now - t.sent) : "–",
    t.sent && t.returned ? ago(t.returned - t.sent) : "–", t.bytes ? bytes(t.bytes) : "–",
  ]);
  return [table(columns, rows)];
}
