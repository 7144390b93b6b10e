// Compare: two or more layers side by side: recipe, figures, curves, tensors, and what they answer on the same samples.

const MOST = 6;

export async function show(main, params, tools) {
  const {el, put, api, command} = tools;
  const offered = await api("/api/compare/choices");
  put(main, el("h1", {}, "Compare"));
  if (offered.choices.length < 2) {
    put(main, el("div", {class: "panel"}, el("h2", {}, offered.choices.length ? "There is one layer, and it takes two" : "There is no layer yet"), el("p", {}, "Layers that are built, rolled back from or pulled can be compared here. Build one, change its recipe, and build again:"), command("laminar build")));
    return () => {};
  }
  const asked = params.query.getAll("layer").filter(Boolean).slice(0, MOST);
  put(main, chooser(asked, offered, tools));
  const cleanUps = [];
  if (new Set(asked).size < 2) {
    put(main, proposals(offered, tools));
    return () => {};
  }
  const told = await api("/api/compare", {layer: asked});
  const state = {ended: false};
  cleanUps.push(() => { state.ended = true; });
  const names = named(told.items, tools.format);
  put(main, heads(told, names, tools), rows("Figures", told.metrics, names, tools, figure(tools.format)), curves(told, names, tools, cleanUps), rows("Recipe", told.recipe, names, tools, setting(tools.el)));
  const tensors = el("section", {class: "panel", style: {"min-height": `${8.5 + 2.1 * told.modules}rem`}}, el("h2", {}, "Tensors"), el("p", {class: "mute"}, "comparing …"));
  const judged = el("section", {class: "panel"});
  put(main, tensors, judged);
  showTensors(tensors, told.items, names, tools, state);
  showJudged(judged, told.items, names, offered.data, tools, state);
  return () => cleanUps.forEach(f => f());
}

// Names that can be told apart: the layer's, with its id where two have the same.
function named(items, format) {
  const same = name => items.filter(i => i.name === name).length > 1;
  return items.map(i => (same(i.name) ? `${i.name} ${i.id.slice(0, 6)}` : i.name));
}

const link = layers => `#/compare?${new URLSearchParams(layers.map(layer => ["layer", layer]))}`;

function chooser(asked, offered, {el, go, format}) {
  const list = el("datalist", {id: "layers"}, offered.choices.map(c => el("option", {value: c.ref}, `${c.what === "before" ? `before, ${format.ago(c.when)}` : c.what}`)));
  const slots = [...asked, ...Array(Math.max(1, 2 - asked.length)).fill("")].slice(0, MOST);
  const boxes = slots.map((value, i) => el("span", {class: `slot k${i % 8}`}, el("span", {class: "dot"}), el("input", {type: "text", list: "layers", name: "layer", value, "aria-label": `layer ${i + 1}`, placeholder: i < 2 ? "a layer" : "one more", autocomplete: "off", spellcheck: "false"}),
    i < asked.length && asked.length > 2 ? el("button", {type: "button", class: "quiet small", "aria-label": `leave out ${value}`, onclick: () => go(link(asked.filter((_, k) => k !== i)))}, "×") : null));
  return el("form", {class: "panel chooser", onsubmit: event => {
    event.preventDefault();
    go(link(new FormData(event.target).getAll("layer").map(s => s.trim()).filter(Boolean)));
  }}, list, el("div", {class: "row"}, boxes, el("button", {class: "main"}, "Compare")));
}

// What a person most likely wants: a layer and the one before it, and layers of one stack.
function proposals(offered, {el, format}) {
  const found = [];
  const now = offered.choices.filter(c => c.what === "now");
  for (const c of now) {
    const before = offered.choices.find(o => o.what === "before" && o.ref.startsWith(`${c.ref}@`));
    if (before) found.push([`${c.ref} and what it was before`, [c.ref, before.ref], `built ${format.ago(c.when)}`]);
  }
  if (now.length > 1) found.push([`the newest ${Math.min(now.length, 3)} layers`, now.slice(0, 3).map(c => c.ref), now.slice(0, 3).map(c => c.ref).join(", ")]);
  return el("div", {class: "panel"}, el("h2", {}, "Choose two layers or more"), el("p", {class: "mute"}, "By name (head), history (head~1), tag, the beginning of an id, or a run. Or take one of these:"), el("ul", {class: "plain list"}, found.slice(0, 8).map(([text, layers, more]) => el("li", {}, el("a", {href: link(layers), tabindex: 0}, text), " ", el("span", {class: "mute"}, more)))));
}

function heads(told, names, {el, badge, format}) {
  return el("div", {class: "columns"}, told.items.map((item, i) => el("article", {class: `panel head k${i % 8}`},
    el("h2", {}, el("span", {class: "dot"}), " ", item.stack, "/", item.name), el("p", {}, el("code", {title: item.id}, format.short(item.id)), " ", el("span", {class: "mute"}, item.asked === item.id ? "" : item.asked)),
    el("dl", {class: "about"}, fact(el, "made", format.ago(item.created)), fact(el, "trained for", format.seconds(item.seconds)), fact(el, "data", item.data ?? "not known"), fact(el, "parameters", format.count(item.parameters)), fact(el, "frozen", item.frozen.length ? item.frozen.join(", ") : "nothing"), fact(el, "stands on", item.parent ? el("code", {}, format.short(item.parent)) : "nothing")),
    item.notes.map(note => el("p", {class: "mute little"}, note)))));
}

const fact = (el, name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

const figure = format => (value, row, values) => {
  const known = values.filter(v => typeof v === "number");
  const best = /loss|mae/.test(row.field) ? Math.min(...known) : Math.max(...known);
  const text = format.number(value);
  return known.length > 1 && value === best && !row.same ? ["best", text] : ["", text];
};

const setting = el => value => ["", value === null || value === undefined ? "–" : el("code", {}, typeof value === "string" ? value : JSON.stringify(value))];

// A table with a column a layer: what differs first, what is equal folded away.
function rows(title, all, names, {el, badge}, shown) {
  const line = row => el("tr", {class: row.same ? "same" : null}, el("th", {scope: "row"}, row.field), row.values.map(value => { const [cls, inside] = shown(value, row, row.values); return el("td", {class: cls || null}, inside); }));
  const made = (some, caption) => el("div", {class: "scroll"}, el("table", {class: "sides"}, el("caption", {class: "unseen"}, caption), el("thead", {}, el("tr", {}, el("th", {scope: "col"}, ""), names.map((name, i) => el("th", {scope: "col", class: `k${i % 8}`}, el("span", {class: "dot"}), " ", name)))), el("tbody", {}, some.map(line))));
  const differ = all.filter(row => !row.same), same = all.filter(row => row.same);
  return el("section", {class: "panel"}, el("h2", {}, title), differ.length ? made(differ, `${title}: what differs`) : el("p", {class: "mute"}, all.length ? "All is the same." : "Nothing is known: a layer that was pulled or imported may come without it."),
    same.length ? el("details", {open: !differ.length && same.length < 8}, el("summary", {}, `${same.length} ${same.length === 1 ? "is" : "are"} the same`), made(same, `${title}: what is the same`)) : null);
}

function curves(told, names, {el, chart}, cleanUps) {
  const figures = [...new Set(told.curves.flatMap(c => Object.keys(c.figures)))].filter(f => ["accuracy", "loss", "mae", "r2"].includes(f));
  const made = figures.slice(0, 3).map(name => chart({title: `test ${name}`, name, height: 210, x: {label: "epoch", format: v => (Number.isInteger(v) ? String(v) : "")}, series: told.curves.map((c, i) => ({name: names[i], colour: i, kind: "both", x: c.epochs, y: (c.figures[name] ?? []).map(v => v ?? NaN)})).filter(s => s.x.length && s.y.length)}));
  cleanUps.push(...made.map(m => m.destroy));
  return made.length ? el("div", {class: "plots"}, made.map(m => m.node)) : null;
}

async function showTensors(box, items, names, {el, put, api, clear, table, badge, format, trouble, Trouble}, state) {
  let second = 1;
  async function fill() {
    clear(box).append(el("div", {class: "row spread"}, el("h2", {}, "Tensors"), items.length > 2 ? el("label", {class: "row"}, `${names[0]} against `, el("select", {onchange: e => { second = Number(e.target.value); fill(); }}, items.slice(1).map((_, i) => el("option", {value: i + 1, selected: i + 1 === second}, names[i + 1])))) : el("span", {class: "mute"}, `${names[0]} against ${names[1]}`)));
    const body = el("div", {class: "tensors"}, el("p", {class: "mute"}, "comparing …"));
    box.append(body);
    try {
      const told = await api("/api/compare/tensors", {layer: [items[0].id, items[second].id]});
      if (state.ended) return;
      const most = Math.max(1e-9, ...told.modules.map(m => m.moved ?? 0));
      const kinds = {changed: "plain", added: "good", removed: "bad", reshaped: "warn"};
      const of = told.modules.filter(m => m.state === "equal").length;
      clear(body).append(el("p", {class: "mute"}, `${format.many(told.equal, "tensor")} equal, ${format.many(told.tensors.length, "tensor")} not; ${of} of ${format.many(told.modules.length, "module")} equal. Moved: norm of the difference over the norm of the first, of the numbers that differ.`),
        table([
          {head: "module", cell: m => el("code", {}, m.name)}, {head: "", cell: m => (m.state === "equal" ? el("span", {class: "mute"}, "equal") : badge(m.state, kinds[m.state] ?? "plain"))},
          {head: "moved", cell: m => el("div", {class: "moved"}, el("div", {class: "bar-line"}, el("span", {class: "bar-fill plain", style: {width: `${(100 * (m.moved ?? 0)) / most}%`}})), el("span", {}, m.moved === null ? "–" : format.percent(m.moved)))},
          {head: "cosine", cell: m => (m.cosine === null ? "–" : m.cosine.toFixed(4)), right: true},
          {head: "norms", cell: m => (m.norms === null ? "–" : `${format.number(m.norms[0])} → ${format.number(m.norms[1])}`), right: true, class: "wide-only"},
          {head: "elements", cell: m => format.count(m.elements), right: true, class: "wide-only"}], told.modules, {caption: "Modules"}),
        told.tensors.length ? el("details", {}, el("summary", {}, `the ${format.many(told.tensors.length, "tensor")} that ${told.tensors.length === 1 ? "differs" : "differ"}`), table([{head: "tensor", cell: t => el("code", {}, t.name)}, {head: "", cell: t => t.state}, {head: "moved", cell: t => (t.moved === null ? "–" : format.percent(t.moved)), right: true}, {head: "cosine", cell: t => (t.cosine === null ? "–" : t.cosine.toFixed(4)), right: true}], told.tensors, {caption: "Tensors that differ"})) : null);
    } catch (error) {
      if (state.ended) return;
      if (!(error instanceof Trouble)) throw error;
      clear(body).append(trouble(error));
    }
  }
  await fill();
}

// Layers are asked about samples in a process of their own, which takes seconds: so it is done when it is asked for.
function showJudged(box, items, names, data, tools, state) {
  const {el, api, clear, command, trouble, Trouble, say} = tools;
  const own = [...new Set(items.map(i => i.data).filter(Boolean))];
  const all = [...new Set([...own.filter(d => data.includes(d)), ...data])];
  if (!all.length) {
    clear(box).append(el("h2", {}, "Answers"), el("p", {}, "There is no data in laminar.toml to ask these layers about."), command("laminar evaluate LAYER SOURCE"));
    return;
  }
  const select = el("select", {"aria-label": "data"}, all.map(d => el("option", {value: d}, own.includes(d) ? `${d} (trained on)` : d)));
  const button = el("button", {type: "button", class: "main", onclick: () => ask(false)}, "Ask the layers");
  const body = el("div", {class: "judged"}, el("p", {class: "mute"}, "Confusion matrices, and the samples on which they disagree: the layers are loaded and asked about the test samples, which takes some seconds."));
  clear(box).append(el("div", {class: "row spread"}, el("h2", {}, "Answers"), el("span", {class: "row"}, "on ", select, button)), body);
  let turn = 0;
  async function ask(again) {
    const own = ++turn;
    button.disabled = true;
    try {
      for (let first = true; ; first = false) {
        const told = await api("/api/compare/judged", {layer: items.map(i => i.id), data: select.value, again: again && first ? 1 : null});
        if (state.ended || own !== turn) return;
        if (told.state === "done") { clear(body).append(...judgement(told.judgement, names, tools)); say("the layers have answered"); return; }
        if (told.state === "failed") { clear(body).append(trouble(told.error)); return; }
        clear(body).append(el("p", {}, el("span", {class: "badge live"}, "working"), ` ${told.progress.what} …`), el("progress", {max: told.progress.of, value: told.progress.done, "aria-label": told.progress.what}));
        await new Promise(done => setTimeout(done, 300));
      }
    } catch (error) {
      if (state.ended) return;
      if (!(error instanceof Trouble)) throw error;
      clear(body).append(trouble(error));
    } finally { button.disabled = false; }
  }
}

function judgement(told, names, {el, badge, format, table}) {
  const good = told.layers.map((layer, i) => ({...layer, name: names[i], colour: i})).filter(l => !l.error);
  const found = [el("p", {class: "mute"}, `${format.count(told.used)} of ${format.many(told.all, "test sample")} of ${told.data}.`)];
  told.layers.forEach((layer, i) => { if (layer.error) found.push(el("p", {}, badge(names[i], "warn"), " could not be asked: ", layer.error.message, layer.error.hint ? [" ", el("code", {}, layer.error.hint)] : null)); });
  if (told.task === "regression") found.push(el("div", {class: "columns"}, good.map(l => scatter(l, {el, format}))));
  else found.push(el("div", {class: "columns"}, good.map(l => matrix(l, {el, format}))));
  for (const group of told.groups) {
    if (!group.count) continue;
    found.push(el("h3", {}, `${group.name[0].toUpperCase()}${group.name.slice(1)}: ${format.count(group.count)}`, group.count > group.samples.length ? el("span", {class: "mute"}, `, ${group.samples.length} shown`) : ""),
      el("div", {class: "samples"}, group.samples.map(s => sample(s, good, {el, format}))));
  }
  return found;
}

function matrix(layer, {el, format}) {
  const sums = layer.matrix.map(row => row.reduce((a, b) => a + b, 0));
  const cell = (n, r, c) => el("td", {class: r === c ? "right" : n ? "wrong" : null, style: {"--part": (sums[r] ? n / sums[r] : 0).toFixed(3)}, title: `${layer.classes[r]} taken for ${layer.classes[c]}: ${n} of ${sums[r]}`}, n || "");
  const short = text => (text.length > 9 ? `${text.slice(0, 8)}…` : text);
  return el("figure", {class: `confusion k${layer.colour % 8}`}, el("figcaption", {}, el("span", {class: "dot"}), " ", el("b", {}, layer.name), el("span", {class: "mute"}, ` ${Object.entries(layer.metrics).map(([k, v]) => `${k} ${format.number(v)}`).join(", ")}`)),
    el("div", {class: "scroll"}, el("table", {class: layer.classes.length > 20 ? "tiny" : null}, el("caption", {class: "unseen"}, `Confusion matrix of ${layer.name}`), el("thead", {}, el("tr", {}, el("th", {scope: "col", class: "corner"}, "is ↓ said →"), layer.classes.map(name => el("th", {scope: "col", title: name}, short(name))))),
      el("tbody", {}, layer.matrix.map((row, r) => el("tr", {}, el("th", {scope: "row", title: layer.classes[r]}, short(layer.classes[r])), row.map((n, c) => cell(n, r, c))))))));
}

function scatter(layer, {el, format}) {
  const all = layer.pairs.flat(), low = Math.min(...all), high = Math.max(...all), room = high - low || 1;
  const at = v => 10 + (280 * (v - low)) / room;
  return el("figure", {class: `confusion k${layer.colour % 8}`}, el("figcaption", {}, el("span", {class: "dot"}), " ", el("b", {}, layer.name), el("span", {class: "mute"}, ` ${Object.entries(layer.metrics).map(([k, v]) => `${k} ${format.number(v)}`).join(", ")}`)),
    el("svg", {class: "scatter", viewBox: "0 0 300 300", role: "img", "aria-label": `what ${layer.name} says against what is, for ${layer.pairs.length} samples`}, el("line", {x1: 10, y1: 290, x2: 290, y2: 10, class: "equal"}), layer.pairs.map(([truth, said]) => el("circle", {class: `spot k${layer.colour % 8}`, cx: at(truth).toFixed(1), cy: (300 - at(said)).toFixed(1), r: 3}, el("title", {}, `is ${format.number(truth)}, said ${format.number(said)}`)))));
}

function sample(s, layers, {el, format}) {
  return el("figure", {class: "sample"}, s.picture ? el("img", {src: s.picture, alt: `sample ${s.number}, ${s.truth}`, width: 72, height: 72, loading: "lazy"}) : el("code", {class: "values"}, s.values.map(v => Number(v.toPrecision(3))).join(" ")),
    el("figcaption", {}, el("b", {title: `sample ${s.number}`}, s.truth), s.said.map((one, i) => el("span", {class: `said k${layers[i].colour % 8} ${one.right ? "right" : "wrong"}`, title: `${layers[i].name}: ${one.answer}, ${format.percent(one.probability)}`}, el("span", {class: "dot"}), ` ${one.answer} `, el("span", {class: "mute"}, `${Math.round(100 * one.probability)} %`)))));
}
