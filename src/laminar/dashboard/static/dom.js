// Elements. Text is always a text node: nothing that comes from a store, a file name or a user is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "tspan", "title", "desc", "polyline", "polygon", "defs",
  "clipPath", "ellipse", "marker", "pattern", "use", "linearGradient", "stop", "foreignObject"]);

// el("button", {class: "quiet", onclick: f, style: {width: "3px"}, data: {id: 1}}, "text", otherElement, [more], null)
export function el(tag, attrs = {}, ...children) {
  const made = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("aria-")) { made.setAttribute(name, String(value)); continue; }
    if (value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) made.style.setProperty(key, text);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "value" || name === "checked" || name === "indeterminate") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  return put(made, ...children);
}

export function put(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

export function clear(parent) {
  parent.replaceChildren();
  return parent;
}

// A table. columns: [{head, cell: row => text or element, right: true, class}]; with `open`, a row can be clicked and entered.
export function table(columns, rows, {caption, open, label, className = "", empty = "nothing yet"} = {}) {
  const head = el("tr", {}, columns.map(c => el("th", {scope: "col", class: c.right ? "n" : null}, c.head)));
  const body = rows.map(row => el("tr",
    open ? {tabindex: 0, class: "opens", onclick: event => open(row, event), onkeydown: event => { if (event.key === "Enter" && event.target === event.currentTarget) open(row, event); },
      "aria-label": label ? label(row) : null} : {},
    columns.map(c => el("td", {class: [c.right ? "n" : "", c.class ?? ""].join(" ").trim() || null}, c.cell(row)))));
  if (!rows.length) body.push(el("tr", {}, el("td", {colspan: columns.length, class: "mute"}, empty)));
  return el("div", {class: "scroll", tabindex: rows.length > 12 && !open ? 0 : null, role: "region", "aria-label": caption ?? "table"},
    el("table", {class: className || null}, caption ? el("caption", {class: "unseen"}, caption) : null, el("thead", {}, head), el("tbody", {class: open ? "list" : null}, body)));
}

// A small word with a colour: kind is good, warn, bad, live or plain.
export const badge = (text, kind = "plain", title = null) => el("span", {class: `badge ${kind}`, title}, text);

// What went wrong, with the command that helps.
export function trouble(error) {
  return el("div", {class: "panel trouble", role: "alert"},
    el("h2", {}, error.code ? `${error.code}: ` : "", error.message),
    error.hint ? el("p", {}, "fix: ", el("code", {}, error.hint)) : null);
}

// A command that can be copied.
export function command(text) {
  const said = el("span", {class: "mute", role: "status"});
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); said.textContent = "copied"; } catch { said.textContent = "select and copy it"; }
  };
  return el("div", {class: "command"}, el("code", {}, text), el("button", {class: "quiet", type: "button", onclick: copy, "aria-label": `Copy: ${text}`}, "copy"), said);
}

// A question before something is changed. Resolves to true or false; a form's values where `fields` are given.
export function ask(title, text, {yes = "Yes", fields = []} = {}) {
  return new Promise(resolve => {
    const inputs = fields.map(f => el("input", {name: f.name, id: `ask-${f.name}`, value: f.value ?? "", placeholder: f.placeholder, type: f.type ?? "text", required: f.required, autocomplete: "off"}));
    const box = el("dialog", {class: "ask", "aria-labelledby": "ask-title"},
      el("form", {method: "dialog"},
        el("h2", {id: "ask-title"}, title), el("p", {}, text),
        fields.map((f, i) => el("label", {for: `ask-${f.name}`, class: f.type === "checkbox" ? "check" : null}, f.type === "checkbox" ? [inputs[i], " ", f.label] : [f.label, inputs[i]])),
        el("div", {class: "row end"}, el("button", {value: "no", type: "button", onclick: () => box.close("no")}, "Cancel"), el("button", {value: "yes", class: "main"}, yes))));
    box.addEventListener("close", () => {
      const agreed = box.returnValue === "yes";
      const given = Object.fromEntries(inputs.map(i => [i.name, i.type === "checkbox" ? i.checked : i.value.trim()]));
      box.remove();
      resolve(agreed ? (fields.length ? given : true) : false);
    });
    document.body.append(box);
    box.showModal();
  });
}
