// The shell: navigation, theme, keys, and what every page is given (`tools`).

import {api, live, onLine, post, setCsrf, Trouble} from "/static/api.js";
import {chart} from "/static/chart.js";
import {ask, badge, clear, command, el, put, table, trouble} from "/static/dom.js";
import * as format from "/static/format.js";
import {keys} from "/static/keys.js";
import {PAGES} from "/static/pages.js";

if (location.search) history.replaceState(null, "", location.pathname + location.hash);  // the token has done its work

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const say = text => { document.getElementById("said").textContent = text; };
const go = hash => { location.hash = hash; };
const tools = {el, put, clear, table, badge, command, ask, trouble, api, post, live, chart, go, say, format, Trouble, session: null};

nav.append(...PAGES.map(page => el("a", {href: `#/${page.name}`, data: {page: page.name}, "aria-keyshortcuts": `g ${page.key}`}, page.title)));

let cleanUp = null;
let showing = 0;
let shown = null;

// #/runs/part/part?run=a&run=b  ->  {page, path: [part, part], query}
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return {name: parts[0] || PAGES[0].name, path: parts.slice(1), query: new URLSearchParams(query)};
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

async function show() {
  if (location.hash === "#main") { main.focus(); return; }
  const {name, path, query} = place();
  const turn = ++showing;
  const page = PAGES.find(each => each.name === name);
  if (shown === name && cleanUp?.change) {  // the same page with other parameters, which it can show by itself
    await cleanUp.change({path, query});
    return;
  }
  for (const link of nav.children) link.dataset.page === name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;  // where not all of them fit
  document.title = `${page?.title ?? "Not found"} · Laminar`;
  try { cleanUp?.(); } catch (error) { console.warn(error); }
  cleanUp = null;
  shown = name;
  const fresh = el("div", {class: `page page-${page ? name : "none"}`});
  try {
    if (!page) throw new Trouble({message: `there is no page "${name}"`, hint: "choose one above"});
    const module = await page.load();
    if (turn !== showing) return;
    clear(main).append(fresh);
    scrollTo(0, 0);
    const done = await module.show(fresh, {path, query}, tools);
    if (turn === showing) cleanUp = done; else done?.();
  } catch (error) {
    if (turn !== showing) return;
    if (!(error instanceof Trouble)) console.error(error);
    clear(main).append(trouble(error));
  }
}

const line = document.getElementById("line");
onLine(state => {
  line.textContent = state === "lost" ? "no answer; trying again" : "";
  line.classList.toggle("bad", state === "lost");
});

function theme() {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "☀" : "☾"; button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours"); };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("laminar-theme", root.dataset.theme); } catch { /* for this time only */ }
    label();
    window.dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
}

async function start() {
  theme();
  keys(PAGES, go);
  try {
    tools.session = await api("/api/session");
    setCsrf(tools.session.csrf);
    put(clear(document.getElementById("where")), el("bdi", {}, tools.session.folder));
    document.getElementById("where").title = tools.session.folder;
  } catch (error) {
    clear(main).append(trouble(error));
    return;
  }
  window.addEventListener("hashchange", show);
  await show();
}

start();
