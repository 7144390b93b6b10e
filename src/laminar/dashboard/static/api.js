// Asking the server: data (api), changes (post), news (live).

export class Trouble extends Error {
  constructor({code = "", message, hint = ""}, status = 0) {
    super(message);
    Object.assign(this, {code, hint, status});
  }
}

let csrf = "";
export const setCsrf = token => { csrf = token; };

async function answered(response) {
  let body = null;
  try { body = await response.json(); } catch { /* not JSON: said below */ }
  if (response.ok && body !== null) return body;
  throw new Trouble(body?.error ?? {message: `the dashboard answered ${response.status} without data`}, response.status);
}

async function asked(path, options) {
  let response;
  try { response = await fetch(path, {credentials: "same-origin", ...options}); } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble({message: "the dashboard does not answer: it has ended, or the line is down", hint: "laminar ui"});
  }
  return answered(response);
}

// api("/api/runs", {run: ["a", "b"], x: "step"}, {signal})
export function api(path, query = {}, {signal} = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const each of [value].flat()) if (each !== null && each !== undefined) words.append(name, each);
  return asked(words.size ? `${path}?${words}` : path, {signal});
}

export const post = (path, content) => asked(path, {
  method: "POST", headers: {"content-type": "application/json", "x-laminar-csrf": csrf}, body: JSON.stringify(content)});

const lines = new Set();
export const onLine = f => { lines.add(f); return () => lines.delete(f); };
const tell = state => lines.forEach(f => f(state));

// News of runs, by one connection. live(["run"], {news: told => …, store: () => …}) returns a function that ends it.
// Nothing is fetched while the page is hidden: on coming back, `back` is called, for there may be much that is new.
export function live(runs, {news, store, back} = {}) {
  let source = null, ended = false, lost = false;
  const open = () => {
    if (ended || source || document.hidden) return;
    const words = new URLSearchParams([runs].flat().map(run => ["run", run]));
    source = new EventSource(`/api/live?${words}`);
    source.addEventListener("open", () => { tell("open"); if (lost) { lost = false; back?.(); } });
    source.addEventListener("error", () => {
      lost = true;
      tell("lost");
      if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(open, 2000); }
    });
    source.addEventListener("news", event => news?.(JSON.parse(event.data)));
    source.addEventListener("store", () => store?.());
  };
  const close = () => { source?.close(); source = null; };
  const seen = () => { if (document.hidden) { close(); lost = true; } else open(); };
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", close);
  open();
  return () => { ended = true; close(); document.removeEventListener("visibilitychange", seen); window.removeEventListener("pagehide", close); };
}
