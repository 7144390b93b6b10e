// As much of a browser as the status page needs; it remembers what was made, and knows no HTML.
class Style { constructor() { this.set = {}; } setProperty(name, value) { this.set[name] = value; } }
class Node {
  constructor(tag) { this.tag = tag; this.inside = []; this.said = {}; this.className = ""; this.style = new Style(); }
  set textContent(text) { this.inside = [String(text)]; }
  set innerHTML(html) { throw new Error("innerHTML"); }
  insertAdjacentHTML() { throw new Error("insertAdjacentHTML"); }
  append(...more) { this.inside.push(...more); }
  replaceChildren(...more) { this.inside = more; }
  setAttribute(name, value) { this.said[name] = String(value); }
  toJSON() { return { tag: this.tag, cls: this.className, said: this.said, style: this.style.set, title: this.title, inside: this.inside }; }
}
const places = {};
for (const id of ["when", "all", "figures", "runs", "nodes", "rounds", "tasks"]) places[id] = new Node("section");
const document = { createElement: (tag) => new Node(tag), createElementNS: (space, tag) => new Node(tag), getElementById: (id) => places[id] };
const location = { search: "?token=abc", origin: "http://grid:8787" };
class URLSearchParams { constructor(text) { this.text = text; } get(name) { return this.text.split(name + "=")[1] || null; } }
const asked = [], later = [];
const setTimeout = (again, wait) => later.push([again, wait]);
const fetch = (path, how) => { asked.push([path, how.headers.Authorization]); return Promise.resolve(answers[path]); };
let answers = {};
const answer = (told) => { answers = {}; for (const [path, [status, body]] of Object.entries(told)) answers[path] = { ok: status < 400, status, json: () => Promise.resolve(body) }; };
