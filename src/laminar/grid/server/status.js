"use strict";
// Asks for the grid's figures every two seconds. Everything is put in as text, never as HTML: names are chosen by strangers.
const token = new URLSearchParams(location.search).get("token") || "";
const ask = (path) => fetch(path, { headers: { Authorization: "Bearer " + token } }).then((r) => (r.ok ? r.json() : Promise.reject(r.status)));
const make = (name, text, cls) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const count = (n) => Math.round(n).toLocaleString("en");
const bytes = (n) => { for (const u of ["B", "kB", "MB", "GB", "TB"]) { if (n < 1000 || u === "TB") return (n < 10 && u !== "B" ? n.toFixed(1) : Math.round(n)) + " " + u; n /= 1000; } };
const ago = (s) => (s < 90 ? Math.round(s) + " s" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d");
const words = (table) => Object.entries(table).map(([k, v]) => k + " " + count(v)).join(", ");

function fill(id, head, rows) {
  const table = document.getElementById(id), top = make("tr");
  for (const [name, number] of head) top.append(make("th", name, number ? "n" : ""));
  const body = rows.map((row) => { const tr = make("tr"); row.forEach((cell, i) => { const [text, cls] = Array.isArray(cell) ? cell : [cell, ""]; tr.append(make("td", text, (head[i][1] ? "n " : "") + cls)); }); return tr; });
  table.replaceChildren(top, ...body);
}

function curve(points) {
  const NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 600 190"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("role", "img");
  const key = ["accuracy", "r2", "loss"].find((k) => points.length && k in points[0]);
  if (!key) return null;
  const values = points.map((p) => p[key]), low = Math.min(...values), high = Math.max(...values, low + 1e-9), last = Math.max(1, points[points.length - 1].version);
  const line = document.createElementNS(NS, "polyline");
  line.setAttribute("points", points.map((p) => (10 + (580 * p.version) / last).toFixed(1) + "," + (180 - (170 * (p[key] - low)) / (high - low)).toFixed(1)).join(" "));
  line.setAttribute("fill", "none"); line.setAttribute("stroke", "var(--ink)"); line.setAttribute("stroke-width", "2"); line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.setAttribute("aria-label", key + " of " + points.length + " tested versions, " + low.toFixed(4) + " to " + high.toFixed(4));
  svg.append(line);
  const box = make("div"); box.append(make("p", key + " by version: " + values[values.length - 1].toFixed(4) + " (" + low.toFixed(4) + " to " + high.toFixed(4) + ")", "note"), svg);
  return box;
}

function run(told) {
  const box = make("article", undefined, "run"), bar = make("progress");
  bar.max = told.rounds; bar.value = told.version; bar.setAttribute("aria-label", "versions made");
  box.append(make("b", told.name + " (" + told.layer + "): " + told.state + (told.why ? ", " + told.why : "")), bar);
  box.append(make("p", "version " + told.version + " of " + told.rounds + ", " + count(told.answers) + " answers, " + bytes(told.bytes.up) + " up" + (told.bytes.up ? " (1/" + Math.max(1, Math.round(told.bytes.dense / told.bytes.up)) + " of dense)" : "") + ", mean staleness " + told.staleness.toFixed(2), "note"));
  box.append(make("p", "price of trust: " + count(told.trust.checks) + " tasks done twice, " + Math.round(100 * told.trust.overhead) + " % more answers than tasks; refused: " + (words(told.refused) || "none") + "; late " + count(told.late) + ", lost " + count(told.lost), "note"));
  const picture = curve(told.curve);
  if (picture) box.append(picture);
  return box;
}

async function look() {
  try {
    const [status, nodes, rounds] = await Promise.all([ask("v1/status"), ask("v1/nodes"), ask("v1/rounds")]);
    const figure = (name, n) => { const d = make("div"); d.append(make("b", count(n)), make("span", name)); return d; };
    document.getElementById("figures").replaceChildren(...Object.entries(status.nodes).map(([k, v]) => figure("nodes " + k, v)), ...Object.entries(status.tasks).map(([k, v]) => figure("results " + k, v)));
    document.getElementById("runs").replaceChildren(...(status.runs.length ? status.runs.slice().reverse().map(run) : [make("p", "No run yet. Start one with: laminar grid train LAYER", "note")]));
    fill("nodes", [["node"], ["owner"], ["state"], ["seen"], ["samples/s", 1], ["streak", 1], ["valid", 1], ["invalid", 1], ["lost", 1], ["down", 1], ["up", 1], ["credit", 1]],
      nodes.slice(0, 500).map((n) => [n.number + " " + n.name, n.owner || "-", n.banned ? ["banned: " + n.banned, "bad"] : n.active ? [n.trusted ? "trusted" : "active", "good"] : "away", ago(status.now - n.seen), count(n.speed), n.streak, n.valid, [String(n.invalid), n.invalid ? "bad" : ""], n.lost, bytes(n.bytes_down), bytes(n.bytes_up), count(n.credit)]));
    fill("rounds", [["run"], ["round", 1], ["from version", 1], ["answers", 1], ["wanted", 1], ["seconds", 1], ["closed by"]],
      rounds.slice(-50).reverse().map((r) => [r.name, r.round, r.version, r.answers, r.wanted, r.closed ? (r.closed - r.opened).toFixed(1) : "", r.closed ? r.why : "open"]));
    document.getElementById("when").textContent = new Date(status.now * 1000).toLocaleTimeString();
  } catch (error) {
    document.getElementById("when").textContent = error === 401 ? "the address lacks its token" : "the server does not answer (" + error + ")";
  }
}
look();
setInterval(look, 2000);
