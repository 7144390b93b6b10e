// Kernels: the source with what each line does to memory, the circuit, verdicts and findings.

import {circuit} from "/static/circuit.js";

export async function show(main, params, tools) {
  const {el, put, api, command} = tools;
  const told = await api("/api/kernels");
  put(main, el("h1", {}, "Kernels"));
  if (!told.kernels.length) {
    put(main, el("div", {class: "panel"}, el("h2", {}, "There is no kernel in this project"),
      el("p", {}, "A kernel is a C file with a function ", el("code", {}, "kernel(int i, int n, …)"), " that every instance i of n runs. Put one beside laminar.toml, say leaky.c, and use it in a model by ", el("code", {}, "laminar.kernel(\"leaky.c\")"), "."),
      el("pre", {class: "code plain"}, "void kernel(int i, int n, float slope, const float x[n], float y[n]) {\n    float v = x[i];\n    if (v < 0.0f) v = slope * v;\n    y[i] = v;\n}\n"),
      command("laminar kernel check leaky.c"), el("p", {class: "mute"}, `Looked for in ${told.root}.`)));
    return () => {};
  }
  const name = params.path.join("/");
  const chosen = told.kernels.find(k => k.path === name) ?? told.kernels[0];
  put(main, el("div", {class: "choices list", role: "group", "aria-label": "Kernels"}, told.kernels.map(k => el("a", {
    href: `#/kernels/${k.path.split("/").map(encodeURIComponent).join("/")}`, class: "tab", tabindex: 0, "aria-current": k === chosen ? "true" : null},
    el("b", {}, k.path), el("span", {class: "mute"}, k.used_by.length ? `used by ${k.used_by.join(", ")}` : `${k.lines} lines`)))));
  const body = el("div", {"aria-live": "polite"}, waiting(el, "Reading, checking and emulating it …"));
  put(main, body);
  const state = {file: chosen.path, entry: params.query.get("entry") ?? "kernel", values: {}, instances: null, ended: false, asked: 0};
  for (const [key, value] of params.query) if (key.startsWith("v.")) state.values[key] = value;
  look(body, state, tools);
  return () => { state.ended = true; };
}

const waiting = (el, text) => el("div", {class: "panel waiting"}, el("span", {class: "badge live"}, "working"), " ", text);

async function look(body, state, tools) {
  const {el, api, clear, trouble, Trouble} = tools;
  const turn = ++state.asked;
  body.classList.add("again");
  try {
    const told = await api("/api/kernels/one", {file: state.file, entry: state.entry, instances: state.instances, ...state.values});
    if (state.ended || turn !== state.asked) return;
    clear(body).append(...drawn(told, state, tools, () => look(body, state, tools)));
  } catch (error) {
    if (state.ended || turn !== state.asked) return;
    if (!(error instanceof Trouble)) throw error;
    clear(body).append(trouble(error), el("button", {type: "button", onclick: () => { state.values = {}; state.instances = null; look(body, state, tools); }}, "with its own sizes"));
  } finally { if (turn === state.asked) body.classList.remove("again"); }
}

function drawn(told, state, tools, again) {
  const {el, badge, trouble} = tools;
  const found = [];
  if (told.error) found.push(trouble({code: told.error.code, message: told.error.message.split("\n")[0], hint: told.error.hint}));
  const run = told.run ?? null, verdicts = Array.isArray(told.verdicts) ? told.verdicts : [];
  const findings = run && !run.error ? run.findings : [];
  const marks = new Map();
  const mark = (line, kind, text) => marks.set(line, [...(marks.get(line) ?? []), {kind, text}]);
  if (told.error?.line) mark(told.error.line, "bad", told.error.message.split("\n")[0]);
  findings.forEach(f => mark(f.line, "bad", `${f.what}${f.times > 1 ? ` (${f.times.toLocaleString("en")} times)` : ""}`));
  verdicts.filter(v => v.verdict === "witness").forEach(v => mark(v.line, "bad", v.text));
  verdicts.filter(v => v.verdict === "run-time").forEach(v => mark(v.line, "warn", v.text));
  const code = source(told, run, marks, tools);
  found.push(el("div", {class: "kernel-head"}, verdict(told, verdicts, findings, tools), told.entries.length > 1 ? entries(told, state, tools, again) : null));
  if (told.parameters.length) found.push(form(told, run, state, tools, again));
  if (run?.error) found.push(trouble({code: run.error.code, message: run.error.message.split("\n")[0], hint: run.error.hint}));
  found.push(code.node);
  if (run && !run.error) found.push(memory(run, tools));
  if (told.circuit && !told.circuit.error) found.push(circuitPanel(told.circuit, code, tools));
  else if (told.circuit?.error) found.push(trouble({...told.circuit.error, message: told.circuit.error.message.split("\n")[0]}));
  if (told.verdicts?.error) found.push(trouble({...told.verdicts.error, message: told.verdicts.error.message.split("\n")[0]}));
  else if (verdicts.length) found.push(verdictTable(verdicts, code, tools));
  return found;
}

function verdict(told, verdicts, findings, {el, badge, format}) {
  if (told.error) return el("p", {}, badge("breaks a rule", "bad"));
  const of = word => verdicts.filter(v => v.verdict === word).length;
  return el("p", {class: "row"}, findings.length ? badge(format.many(findings.length, "finding"), "bad") : badge("nothing wrong as it ran", "good"), badge(`${of("proved")} proved`, "good"), of("run-time") ? badge(`${of("run-time")} checked as it runs`, "warn") : null, of("witness") ? badge(`${of("witness")} with a witness`, "bad") : null);
}

function entries(told, state, {el}, again) {
  return el("label", {class: "row"}, "function ", el("select", {onchange: e => { state.entry = e.target.value; state.values = {}; state.instances = null; again(); }}, told.entries.map(name => el("option", {value: name, selected: name === told.entry}, name))));
}

// Values and the number of instances: what it is emulated with.
function form(told, run, state, {el, format}, again) {
  const values = run && !run.error ? run.values : {};
  const box = (name, label, value, kind) => el("label", {class: "field"}, el("span", {}, label), el("input", {type: "number", step: kind === "float" || kind === "double" ? "any" : 1, name, value: value ?? "", inputmode: "decimal", autocomplete: "off"}));
  const inputs = told.parameters.filter(p => p.role === "value").map(p => box(`v.${p.name}`, p.name, typeof values[p.name] === "boolean" ? Number(values[p.name]) : state.values[`v.${p.name}`] ?? values[p.name], p.type));
  const count = box("instances", "instances", state.instances ?? (run && !run.error ? run.instances : ""), "int");
  const shapes = run && !run.error ? Object.entries(run.shapes).map(([name, shape]) => `${name} ${shape.join("×")}`).join(", ") : "";
  return el("form", {class: "panel sizes", onsubmit: event => {
    event.preventDefault();
    const given = new FormData(event.target);
    state.values = {};
    for (const [name, text] of given) if (name !== "instances" && text !== "") state.values[name] = text;
    const changed = event.submitter?.value === "own" ? null : given.get("instances");
    state.instances = changed && Number(changed) !== run?.instances ? changed : state.instances && changed ? changed : null;
    again();
  }}, el("div", {class: "row"}, inputs, count, el("button", {class: "main"}, "Emulate")), el("p", {class: "mute"}, `Arrays are made up: ${shapes || "of the sizes above"}.`, run && !run.error ? ` It took ${format.seconds(run.seconds)}.` : "", state.instances ? "" : " The number of instances follows from the sizes."));
}

const bytesOf = row => ["global", "shared", "local", "register"].reduce((sum, m) => sum + row[m].bytes, 0);

// The text, line by line; the warmer a line, the more bytes it moves.
function source(told, run, marks, {el, format}) {
  const lines = told.text.replace(/\n$/, "").split("\n");
  const rows = new Map((run && !run.error ? run.lines : []).map(row => [row.line, row]));
  let which = "memory";
  const heat = row => (which === "all" ? bytesOf(row) : bytesOf(row) - row.register.bytes);
  const body = el("tbody");
  const trs = lines.map((text, i) => el("tr", {id: `line-${i + 1}`, class: marks.has(i + 1) ? `marked ${marks.get(i + 1)[0].kind}` : null}));
  const cells = ["global", "shared", "local", "register"];
  const used = cells.filter(m => [...rows.values()].some(r => r[m].bytes));
  function fill() {
    const most = Math.max(1, ...[...rows.values()].map(heat));
    trs.forEach((tr, i) => {
      const row = rows.get(i + 1), told = row ? heat(row) : 0, share = Math.sqrt(told / most);  // so that what is small can be seen, too
      const notes = marks.get(i + 1) ?? [];
      tr.replaceChildren(
        el("td", {class: "n no"}, i + 1),
        el("td", {class: "heat", style: {"--heat": share.toFixed(3)}, title: row ? used.map(m => `${m}: ${format.count(row[m].reads)} read, ${format.count(row[m].writes)} written, ${format.bytes(row[m].bytes)}`).join("\n") : null}, row && told ? format.bytes(told) : ""),
        ...used.map(m => el("td", {class: "n rw wide-only"}, row && (row[m].reads || row[m].writes) ? `${format.count(row[m].reads)} · ${format.count(row[m].writes)}` : "")),
        el("td", {class: "code", style: {"--heat": share.toFixed(3)}}, el("code", {}, lines[i] || " "), notes.map(n => el("div", {class: `note ${n.kind}`}, n.text))));
    });
  }
  fill();
  body.append(...trs);
  const choice = (word, label) => el("button", {type: "button", "aria-pressed": String(which === word), onclick: e => { which = word; e.target.parentNode.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b === e.target)); fill(); }}, label);
  const node = el("section", {class: "panel"}, el("div", {class: "row spread"}, el("h2", {}, "Source"), rows.size ? el("div", {class: "switch", role: "group", "aria-label": "What is counted"}, choice("memory", "arrays"), choice("all", "and registers")) : null),
    el("div", {class: "scroll", role: "region", "aria-label": "source", tabindex: 0}, el("table", {class: "source"}, el("caption", {class: "unseen"}, "Source with what each line moves"),
      el("thead", {}, el("tr", {}, el("th", {class: "n", scope: "col"}, ""), el("th", {class: "n", scope: "col"}, "moved"), used.map(m => el("th", {class: "n wide-only", scope: "col", title: "times read · times written"}, m)), el("th", {scope: "col"}, ""))), body)));
  const light = (from, to) => { trs.forEach((tr, i) => tr.classList.toggle("lit", from !== null && i + 1 >= from && i + 1 <= to)); };
  return {node, light, go: line => { const tr = trs[line - 1]; if (tr) { tr.scrollIntoView({block: "center"}); light(line, line); } }};
}

function memory(run, {el, table, format, badge}) {
  const kinds = ["global", "shared", "local", "register"].filter(m => run.counts[m].bytes);
  const apart = run.strides.filter(s => s.pattern && s.pattern !== "alone");
  const good = {contiguous: "good", broadcast: "good", gather: "warn", strided: "warn"};
  return el("div", {class: "two"}, el("section", {class: "panel"}, el("h2", {}, "Memory"), table([
    {head: "", cell: r => el("b", {}, r.name)}, {head: "read", cell: r => format.count(r.reads), right: true}, {head: "written", cell: r => format.count(r.writes), right: true}, {head: "moved", cell: r => format.bytes(r.bytes), right: true}],
    kinds.map(m => ({name: m, ...run.counts[m]})), {caption: "By memory"}),
  table([{head: "array", cell: r => el("code", {}, `${r.type} ${r.name}[${r.shape.join("][")}]`)}, {head: "in", cell: r => r.memory}, {head: "read", cell: r => format.count(r.reads), right: true}, {head: "written", cell: r => format.count(r.writes), right: true}, {head: "moved", cell: r => format.bytes(r.bytes), right: true}], run.objects, {caption: "By array", className: "gap"})),
  el("section", {class: "panel"}, el("h2", {}, "Neighbouring instances"), el("p", {class: "mute"}, "How far apart the elements are that instances i and i + 1 look at, place by place."),
    table([{head: "line", cell: r => `${r.line}:${r.column}`, right: true}, {head: "array", cell: r => el("code", {}, r.object)}, {head: "", cell: r => r.access}, {head: "they are", cell: r => badge(r.pattern, good[r.pattern] ?? "plain")}, {head: "apart", cell: r => (r.stride === null || r.stride === undefined ? "" : format.count(r.stride)), right: true}], apart, {caption: "Strides", empty: "no place that several instances look from"})));
}

function circuitPanel(told, code, {el, badge, format}) {
  const picture = circuit(told, {onpick: f => (f ? code.light(f.lines[0], f.lines[1]) : code.light(null))});
  const at = told.span_nanoseconds ? (told.work_nanoseconds / told.span_nanoseconds).toFixed(1) : null;
  const free = told.pairs.filter(p => p.verdict === "independent").length;
  return el("section", {class: "panel"}, el("h2", {}, "Circuit"), el("p", {class: "row"}, badge(format.many(told.functions.length, "function"), "plain"), told.instances === "independent" ? badge("instances leave each other alone", "good") : badge("instances run in order", "warn"), at ? badge(`at most ${at} at once in an instance`, "plain") : null, free ? badge(`${format.many(free, "pair")} of functions proved independent`, "good") : null),
    el("p", {class: "mute"}, "What the kernel is split into. Point at a function, or go to it by Tab, to see its lines."), picture);
}

function verdictTable(verdicts, code, {el, table, badge}) {
  const kinds = {proved: "good", witness: "bad", "run-time": "warn"};
  const order = {witness: 0, "run-time": 1};
  const [open, proved] = [verdicts.filter(v => v.verdict !== "proved"), verdicts.filter(v => v.verdict === "proved")];
  open.sort((a, b) => order[a.verdict] - order[b.verdict]);
  const made = some => table([{head: "", cell: v => badge(v.verdict === "run-time" ? "checked as it runs" : v.verdict, kinds[v.verdict])}, {head: "line", cell: v => `${v.line}:${v.column}`, right: true}, {head: "of", cell: v => `${v.kind} of ${v.what}`}, {head: "why", cell: v => v.why}], some, {caption: "Verdicts", open: v => code.go(v.line), label: v => v.text});
  return el("section", {class: "panel"}, el("h2", {}, "Verdicts"), open.length ? made(open) : el("p", {class: "mute"}, "All that can go wrong is proved not to."), proved.length ? el("details", {}, el("summary", {}, `${proved.length} proved`), made(proved)) : null);
}
