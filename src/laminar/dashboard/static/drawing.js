// A drawing that another program made: SVG as text, built anew element by element from what is known to be harmless, so that nothing in
// it is ever read as HTML; its styles are set one by one, as the content security policy wants it.

import {el} from "/static/dom.js";

const TAGS = new Set(["svg", "g", "path", "defs", "clipPath", "rect", "use", "text", "tspan", "line", "circle", "ellipse", "polygon", "polyline"]);
const NAMES = new Set(["viewBox", "id", "d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "cx", "cy", "r", "rx", "ry", "width", "height", "points", "transform", "clip-path", "clip-rule", "fill", "fill-rule", "stroke", "stroke-width", "opacity", "text-anchor", "font-size", "font-weight"]);
const STYLES = /^(fill|stroke|opacity|font|text-anchor|clip|dominant-baseline)/;

export function drawing(text, label) {
  // read without its namespace, the text is a tree of names that mean nothing to the browser: no style of it applies, no handler is heard
  const read = new DOMParser().parseFromString(text.trim().replace(/ xmlns="[^"]*"/g, ""), "application/xml").documentElement;
  if (read.localName !== "svg") throw new Error("this is no picture");
  const made = built(read);
  for (const [name, value] of Object.entries({role: "img", "aria-label": label, tabindex: "0", class: "drawn"})) made.setAttribute(name, value);
  return made;
}

const within = value => !/url\s*\(/i.test(value) || /^url\(#[\w.-]+\)$/.test(value);  // of the drawing itself

function built(node) {
  const attrs = {};
  for (const {localName, value} of node.attributes) {
    if (NAMES.has(localName)) { if (within(value)) attrs[localName] = value; }
    else if (localName === "href" && value.startsWith("#")) attrs.href = value;
    else if (localName === "style") attrs.style = Object.fromEntries(value.split(";").map(one => one.split(/:(.*)/s).map(part => part.trim())).filter(([name, given]) => given && STYLES.test(name) && within(given)));
  }
  return el(node.localName, attrs, [...node.childNodes].map(child => (child.nodeType === Node.TEXT_NODE ? child.data : TAGS.has(child.localName) ? built(child) : null)));
}

// What a drawing says where it is pointed at, or read by arrow keys. hints: [x, y, text] in its own units.
export function pointing(svg, hints, box) {
  const said = el("div", {class: "readout hint", hidden: true}), aloud = el("div", {class: "unseen", "aria-live": "polite"});
  const ring = el("circle", {class: "ring", r: 0});
  const order = hints.map((_, i) => i).sort((a, b) => hints[a][0] - hints[b][0] || hints[a][1] - hints[b][1]);
  let at = -1;
  svg.append(ring);
  box.append(said, aloud);

  function show(number) {
    at = number;
    said.hidden = number < 0;
    if (number < 0) { ring.setAttribute("r", 0); return; }
    const [x, y, text] = hints[number], matrix = svg.getScreenCTM(), spot = new DOMPoint(x, y).matrixTransform(matrix), home = box.getBoundingClientRect();
    for (const [name, value] of [["cx", x], ["cy", y], ["r", 7 / matrix.a + 1]]) ring.setAttribute(name, value);
    said.textContent = text;
    const left = spot.x - home.left;
    said.style.setProperty("top", `${Math.max(0, spot.y - home.top - said.offsetHeight - 14)}px`);
    said.style.setProperty("left", `${Math.min(Math.max(0, left - said.offsetWidth / 2), Math.max(0, home.width - said.offsetWidth - 26))}px`);
  }

  function near(event) {
    const matrix = svg.getScreenCTM(), here = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = -1, least = 32 / matrix.a;
    hints.forEach(([x, y], i) => { const away = Math.hypot(x - here.x, y - here.y); if (away < least) { least = away; best = i; } });
    show(best);
  }

  svg.addEventListener("pointermove", near);
  svg.addEventListener("pointerdown", near);
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", event => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by || !hints.length) return;
    event.preventDefault();
    event.stopPropagation();
    const place = at < 0 ? (by > 0 ? 0 : order.length - 1) : Math.min(Math.max(order.indexOf(at) + by, 0), order.length - 1);
    show(order[place]);
    aloud.textContent = hints[order[place]][2];
  });
}
