// Keys: g and a letter goes to a page, j k and arrows move in lists, ? shows this.

import {el} from "/static/dom.js";

const typing = target => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function keys(pages, go) {
  let before = "", since = 0;
  document.getElementById("help").addEventListener("click", () => help(pages));
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    const first = before === "g" && event.timeStamp - since < 1500;
    before = event.key;
    since = event.timeStamp;
    if (first) {
      const page = pages.find(each => each.key === event.key);
      if (page) { event.preventDefault(); go(`#/${page.name}`); }
      return;
    }
    if (event.key === "?") help(pages);
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "j" || event.key === "k") move(event, event.key === "j" ? 1 : -1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") { if (inList(event.target)) move(event, event.key === "ArrowDown" ? 1 : -1); }
    else if ((event.key === "Home" || event.key === "End") && inList(event.target)) move(event, event.key === "Home" ? -Infinity : Infinity);
    else if (event.key === "Escape") document.querySelector(".page [data-close]")?.click();
    else if (event.key === "/") { const box = document.querySelector(".page input[type=search]"); if (box) { event.preventDefault(); box.focus(); } }
  });
}

const inList = target => target instanceof Element && target.closest(".list") !== null;
const rowsOf = list => [...list.querySelectorAll(":scope > [tabindex], :scope > * > [tabindex]")].filter(row => row.getClientRects().length);

function move(event, by) {
  const list = (event.target instanceof Element && event.target.closest(".list")) || document.querySelector(".page .list");
  if (!list) return;
  const rows = rowsOf(list);
  if (!rows.length) return;
  const at = rows.findIndex(row => row === document.activeElement || row.contains(document.activeElement));
  const next = Math.min(Math.max(at < 0 ? 0 : at + by, 0), rows.length - 1);
  event.preventDefault();
  rows[next].focus();
  rows[next].scrollIntoView({block: "nearest"});
}

function help(pages) {
  if (document.querySelector("dialog[open]")) return;
  const rows = [["j, k or ↓ ↑", "next and previous in a list"], ["Enter", "open what has the focus"], ["Space", "choose a run"], ["Esc", "close what is open; in a chart, undo the zoom"],
    ["← → in a chart", "read it point by point"], ["/", "search"], ["t", "light or dark"], ...pages.map(p => [`g ${p.key}`, p.title]), ["?", "this list"]];
  const box = el("dialog", {class: "ask", "aria-label": "Keys"},
    el("h2", {}, "Keys"), el("dl", {class: "keys"}, rows.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
    el("div", {class: "row end"}, el("button", {type: "button", class: "main", onclick: () => box.close()}, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
