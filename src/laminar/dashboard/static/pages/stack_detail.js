// One layer in full: what it is, its model, its tensors, the inputs of its key, and what its ref has been.

import {modelGraph} from "/static/pages/model_graph.js";

let tab = "about";

export async function detail(side, ref, id, tools) {
  const {el, clear, api, trouble, close, alive} = tools;
  let told;
  try { told = await api("/api/stack/layer", {ref, id}); } catch (error) {
    if (alive()) clear(side).append(el("div", {class: "panel"}, closing(el, close), trouble(error)));
    return;
  }
  if (!alive()) return;
  const body = el("div", {class: "body"});
  const tabs = {about, model, tensors, inputs, history};
  const buttons = Object.keys(tabs).map(name => el("button", {type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tab-body", onclick: () => pick(name), onkeydown: event => step(event, name)}, name[0].toUpperCase() + name.slice(1)));
  body.id = "tab-body";
  body.setAttribute("role", "tabpanel");

  function pick(name) {
    tab = name;
    for (const button of buttons) { const own = button.id === `tab-${name}`; button.setAttribute("aria-selected", own); button.tabIndex = own ? 0 : -1; }
    body.setAttribute("aria-labelledby", `tab-${name}`);
    tabs[name](clear(body), told, tools);
  }

  function step(event, name) {
    const names = Object.keys(tabs), by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    event.preventDefault();
    const next = names[(names.indexOf(name) + by + names.length) % names.length];
    pick(next);
    buttons[names.indexOf(next)].focus();
  }

  clear(side).append(el("div", {class: "panel"}, closing(el, close), head(told, id, tools), el("div", {class: "tabs", role: "tablist"}, buttons), body));
  pick(tab);
}

const closing = (el, close) => el("button", {type: "button", class: "quiet close", "aria-label": "Close", data: {close: 1}, onclick: close}, "✕");

function head(told, id, {el, format, badge}) {
  const layer = told.layer, plan = told.explained;
  return el("header", {}, el("h2", {}, told.name, " ", plan ? badge(plan.action === "cached" ? "up to date" : "to train", plan.action === "cached" ? "good" : "warn") : null, id ? badge("earlier version", "plain") : null),
    layer ? el("p", {class: "mute"}, el("code", {title: layer.id}, format.short(layer.id)), ` built ${format.ago(layer.created)} in ${format.seconds(layer.seconds)}`, layer.tags.map(tag => [" ", el("span", {class: "tag"}, tag)])) : el("p", {class: "mute"}, "not built yet"));
}

function about(body, told, tools) {
  const {el, put, format, table, trouble, command} = tools, layer = told.layer, plan = told.explained;
  if (told.trouble) body.append(trouble(told.trouble));
  if (plan && plan.action !== "cached") {
    body.append(el("div", {class: "notice warn"}, el("b", {}, "A build would train it: "), plan.why));
    if (plan.changes.length) body.append(changes(plan.changes, tools));
    if (plan.files.length) body.append(el("p", {class: "mute"}, `files changed: ${plan.files.slice(0, 8).join(", ")}`));
    body.append(command(`laminar build ${told.name}`));
  }
  if (layer) {
    body.append(el("div", {class: "figures"}, Object.entries(layer.metrics).map(([name, value]) => el("div", {}, el("b", {}, name === "accuracy" ? format.percent(value) : format.number(value)), el("span", {}, name.replaceAll("_", " "))))));
    if (layer.notes.length) body.append(el("ul", {class: "notes"}, layer.notes.map(note => el("li", {}, note))));
    body.append(el("div", {class: "row"},
      el("button", {type: "button", onclick: () => tagIt(told, tools)}, "Tag…"),
      told.versions?.length > 1 && told.written ? el("button", {type: "button", onclick: () => goBack(told, null, tools)}, "Roll back…") : null,
      el("a", {class: "button", href: `#/runs?run=${encodeURIComponent(layer.run)}`}, "Curves"),
      layer.parent ? el("a", {class: "button", href: `#/compare?layer=${layer.parent}&layer=${layer.id}`}, "Compare with parent") : null));
    body.append(el("h3", {}, "Stands on"), layer.ancestors.length ? el("ol", {class: "chain"}, layer.ancestors.map(a => el("li", {}, el("a", {href: `#/stack/${encodeURIComponent(`${a.stack}/${a.name}`)}`}, `${a.stack}/${a.name}`), " ", el("code", {class: "mute"}, format.short(a.id))))) : el("p", {class: "mute"}, layer.parent ? "a layer that is not in this store" : "nothing: it was trained from the start"));
  }
  const recipe = told.recipe ?? layer?.spec;
  if (recipe) body.append(el("h3", {}, "Recipe"), pairs(recipe, tools));
  if (layer?.data) body.append(el("h3", {}, "Data"), pairs(layer.data, tools));
  if (layer) body.append(el("h3", {}, "Where it was trained"), pairs({...layer.provenance, task: layer.task, input: layer.input, classes: layer.classes, frozen: layer.frozen}, tools));
  put(body, layer ? el("p", {class: "mute small"}, "key ", el("code", {}, layer.key), " id ", el("code", {}, layer.id)) : null);
}

// Nested settings as one dotted line each.
function pairs(value, {el}) {
  const rows = [];
  const walk = (prefix, each) => {
    if (each !== null && typeof each === "object" && !Array.isArray(each)) for (const [name, inner] of Object.entries(each)) walk(prefix ? `${prefix}.${name}` : name, inner);
    else if (each !== null && !(Array.isArray(each) && !each.length)) rows.push([prefix, Array.isArray(each) ? each.map(e => (typeof e === "object" ? JSON.stringify(e) : e)).join(", ") : String(each)]);
  };
  walk("", value);
  return el("dl", {class: "pairs"}, rows.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

const plain = value => (value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : /^[0-9a-f]{64}$/.test(value) ? value.slice(0, 12) : String(value));

function changes(found, {el, table}) {
  return table([{head: "input", cell: c => el("code", {}, c.input)}, {head: "was", cell: c => el("code", {class: "was"}, plain(c.from))}, {head: "is", cell: c => el("code", {class: "is"}, plain(c.to))}], found, {caption: "What changed"});
}

async function model(body, told, tools) {
  const {el, api, trouble, clear, alive} = tools;
  if (!told.layer) { body.append(el("p", {class: "mute"}, "The graph of a model is kept when it is built.")); return; }
  body.append(el("p", {class: "mute"}, "reading the graph…"));
  try {
    const found = await api("/api/stack/model", {id: told.layer.id});
    if (alive() && tab === "model") clear(body).append(modelGraph(found, tools));
  } catch (error) { if (alive() && tab === "model") clear(body).append(trouble(error)); }
}

function tensors(body, told, tools) {
  const {el, table, format} = tools, layer = told.layer;
  if (!layer) { body.append(el("p", {class: "mute"}, "not built yet")); return; }
  const own = layer.tensors.filter(t => t.own), rest = layer.tensors.filter(t => !t.own), size = of => of.reduce((all, t) => all + t.bytes, 0);
  const columns = [{head: "tensor", cell: t => el("code", {}, t.name)}, {head: "shape", cell: t => t.shape.join(" × ") || "1"}, {head: "", cell: t => t.dtype}, {head: "size", cell: t => format.bytes(t.bytes), right: true}];
  body.append(el("h3", {}, layer.parent ? `Changed here: ${own.length}, ${format.bytes(size(own))}` : `Its own: ${own.length}, ${format.bytes(size(own))}`), table(columns, own, {caption: "Tensors changed", empty: "none"}));
  if (layer.parent) body.append(el("h3", {}, `Shared with the layers below: ${rest.length}, ${format.bytes(size(rest))}`), table(columns, rest, {caption: "Tensors shared", empty: "none"}));
}

function inputs(body, told, tools) {
  const {el, table} = tools, plan = told.explained;
  const rows = plan ? Object.entries(plan.inputs) : flat(told.layer?.inputs ?? {}), changed = new Map((plan?.changes ?? []).map(c => [c.input, c]));
  if (!rows.length) { body.append(el("p", {class: "mute"}, "The store does not know how this layer was written: it was pulled or imported.")); return; }
  body.append(el("p", {class: "mute"}, "The key is the sha256 of these. A layer is reused as long as they are the same."),
    table([{head: "input", cell: ([name]) => el("code", {}, name)}, {head: "value", cell: ([name, value]) => (changed.has(name) ? [el("code", {class: "was"}, plain(changed.get(name).from)), " ", el("code", {class: "is"}, plain(value))] : el("code", {title: String(value)}, plain(value)))}], rows, {caption: "Key inputs"}));
}

function flat(value, prefix = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[prefix, value]];
  return Object.entries(value).flatMap(([name, inner]) => flat(inner, prefix ? `${prefix}.${name}` : name));
}

function history(body, told, tools) {
  const {el, table, format, badge, go} = tools;
  body.append(table([
    {head: "when", cell: e => el("span", {title: format.when(e.time), class: "nowrap"}, format.ago(e.time))},
    {head: "what", cell: e => badge(e.op, {rollback: "warn", redo: "warn"}[e.op] ?? "plain", e.why)},
    {head: "layer", cell: e => [e.here ? el("a", {href: `#/stack/${encodeURIComponent(told.ref)}/${e.id}`}, el("code", {}, format.short(e.id))) : el("code", {class: "mute"}, format.short(e.id)), e.current ? [" ", badge("shown", "good")] : null]},
    {head: "accuracy", cell: e => (e.metrics.accuracy === undefined ? "-" : format.percent(e.metrics.accuracy)), right: true},
    {head: "", cell: e => (!e.current && e.here && told.written ? el("button", {type: "button", class: "small", onclick: () => goBack(told, e.id, tools)}, "Go to…") : null)},
  ], told.log, {caption: "What this ref has been", empty: "not built yet"}));
  const pair = [...new Set(told.log.filter(e => e.here).map(e => e.id))].slice(0, 2);
  if (pair.length === 2) body.append(el("p", {}, el("a", {class: "button", href: `#/compare?layer=${pair[1]}&layer=${pair[0]}`, onclick: () => go(`#/compare?layer=${pair[1]}&layer=${pair[0]}`)}, "Compare the last two")));
}

async function goBack(told, id, {ask, post, say, changed, trouble, format}) {
  const to = id ? `to ${format.short(id)}` : "to the one before";
  const agreed = await ask(`Roll ${told.ref} back?`, `The ref goes ${to}. Nothing is deleted; its history shows the way back.`, {yes: "Roll back", fields: [{name: "write", type: "checkbox", label: "also set laminar.toml back to what that layer was built with"}]});
  if (!agreed) return;
  try {
    const moved = await post("/api/stack/rollback", {target: id ? `${told.ref}@${id}` : told.ref, write: agreed.write});
    say([`${moved.ref} is now ${format.short(moved.to)}`, ...moved.notes].join("; "));
    changed();
  } catch (error) { document.querySelector(".side .body")?.prepend(trouble(error)); }
}

async function tagIt(told, {ask, post, say, changed, trouble, format}) {
  const given = await ask(`Tag ${told.name} ${format.short(told.layer.id)}`, "A name that stays with this very layer, whatever the ref does.", {yes: "Tag", fields: [{name: "name", label: "Name", placeholder: `${told.name}:v1`, required: true}, {name: "force", type: "checkbox", label: "move the tag if it names another layer"}]});
  if (!given || !given.name) return;
  try {
    await post("/api/stack/tag", {id: told.layer.id, name: given.name, force: given.force});
    say(`${given.name} names ${format.short(told.layer.id)}`);
    changed();
  } catch (error) { document.querySelector(".side .body")?.prepend(trouble(error)); }
}
