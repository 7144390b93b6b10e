// What a picture says where it is pointed at, enlarging one, sorting a table, and paper that has everything. The page reads without it.
"use strict";
(() => {
  const told = document.createElement("div");
  told.id = "told";
  told.hidden = true;
  document.body.append(told);

  function inside(svg, event) {
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  }

  function ringOf(svg) {
    let ring = svg.querySelector(".ring");
    if (!ring) {
      ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      ring.setAttribute("class", "ring");
      svg.append(ring);
    }
    return ring;
  }

  function point(svg, hints, event) {
    const at = inside(svg, event), scale = svg.getScreenCTM().a;
    let best = null, near = 32 / scale;
    for (const hint of hints) {
      const away = Math.hypot(hint[0] - at.x, hint[1] - at.y);
      if (away < near) { near = away; best = hint; }
    }
    const ring = ringOf(svg);
    if (!best) { told.hidden = true; ring.setAttribute("r", 0); return; }
    ring.setAttribute("cx", best[0]);
    ring.setAttribute("cy", best[1]);
    ring.setAttribute("r", 7 / scale + 1);
    (svg.closest("dialog") || document.body).append(told);
    told.textContent = best[2];
    told.hidden = false;
    const home = (svg.closest("dialog") || document.documentElement).getBoundingClientRect();
    const wide = told.offsetWidth, x = event.clientX - home.left, y = event.clientY - home.top;
    const most = document.documentElement.clientWidth - home.left - wide - 8;
    told.style.left = Math.max(8 - home.left, Math.min(x + 14, most)) + "px";
    told.style.top = (event.clientY + told.offsetHeight + 24 > innerHeight ? y - told.offsetHeight - 12 : y + 16) + "px";
  }

  for (const svg of document.querySelectorAll("svg[data-hints]")) {
    const hints = JSON.parse(svg.dataset.hints);
    svg.addEventListener("pointermove", event => point(svg, hints, event));
    svg.addEventListener("pointerdown", event => point(svg, hints, event));
    svg.addEventListener("pointerleave", () => { told.hidden = true; ringOf(svg).setAttribute("r", 0); });
  }

  function enlarge(figure) {
    const svg = figure.querySelector(getComputedStyle(figure.querySelector("svg.wide")).display === "none" ? "svg.narrow" : "svg.wide");
    const dialog = document.createElement("dialog"), close = document.createElement("button"), how = document.createElement("p");
    const place = document.createComment(""), whole = svg.getAttribute("viewBox");
    close.textContent = "close";
    how.textContent = "wheel or two fingers: closer · drag: move · double click: all";
    svg.replaceWith(place);
    dialog.append(how, close, svg);
    document.body.append(dialog);
    let [x, y, w, h] = whole.split(" ").map(Number);
    const show = () => svg.setAttribute("viewBox", [x, y, w, h].join(" "));
    const zoom = (factor, at) => { x = at.x - (at.x - x) * factor; y = at.y - (at.y - y) * factor; w *= factor; h *= factor; show(); };
    const held = new Map(), ended = new AbortController(), on = (name, act) => svg.addEventListener(name, act, { signal: ended.signal, passive: false });
    on("wheel", event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, inside(svg, event)); });
    on("dblclick", () => { [x, y, w, h] = whole.split(" ").map(Number); show(); });
    on("pointerdown", event => { held.set(event.pointerId, event); svg.setPointerCapture(event.pointerId); });
    on("pointermove", event => {
      const before = held.get(event.pointerId);
      if (!before) return;
      if (held.size === 1) {
        const a = inside(svg, before), b = inside(svg, event);
        x -= b.x - a.x; y -= b.y - a.y; show();
      } else {
        const other = [...held.values()].find(one => one.pointerId !== event.pointerId);
        const apart = one => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
        zoom(apart(before) / apart(event), inside(svg, other));
      }
      held.set(event.pointerId, event);
    });
    for (const name of ["pointerup", "pointercancel"]) on(name, event => held.delete(event.pointerId));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      ended.abort();
      svg.setAttribute("viewBox", whole);
      document.body.append(told);
      told.hidden = true;
      place.replaceWith(svg);
      dialog.remove();
    });
    dialog.showModal();
  }

  for (const figure of document.querySelectorAll("figure.picture")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "⤢";
    button.title = "enlarge";
    button.setAttribute("aria-label", "enlarge this picture");
    button.addEventListener("click", () => enlarge(figure));
    figure.append(button);
  }

  const value = (row, place) => {
    const text = row.cells[place].querySelector("b").textContent;
    const number = parseFloat(text.replaceAll(",", "").replace("−", "-"));
    return Number.isNaN(number) ? text : number;
  };
  for (const head of document.querySelectorAll("table.stack thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "sort by this";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const table = head.closest("table"), place = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const x = value(a, place), y = value(b, place);
        if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
        const order = typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    });
  }

  let opened = [];
  addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details:not([open])")]; for (const one of opened) one.open = true; });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
