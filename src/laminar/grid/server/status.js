// Asks for the grid's figures every two seconds, and shows them (view.js).
import { figures, nodes, rounds, runs, tasks } from "./view.js";
const EVERY = 2000;
const token = new URLSearchParams(location.search).get("token") || "";
const ask = (path) => fetch(path, { headers: { Authorization: "Bearer " + token } }).then((r) => (r.ok ? r.json() : Promise.reject(r.status)));
const byId = (id) => document.getElementById(id);

function say(text, cls) { byId("when").textContent = text; byId("when").className = cls; byId("all").className = cls ? "grid-view stale" : "grid-view"; }

async function look() {
  try {
    const [status, known, past, newest] = await Promise.all(["v1/status", "v1/nodes", "v1/rounds", "v1/tasks"].map(ask));
    byId("figures").replaceChildren(...figures(status));
    byId("runs").replaceChildren(...runs(status.runs));
    byId("nodes").replaceChildren(...nodes(known, status.now, location.origin));
    byId("rounds").replaceChildren(...rounds(past));
    byId("tasks").replaceChildren(...tasks(newest, status.now));
    say("at " + new Date(status.now * 1000).toLocaleTimeString(), "");
  } catch (error) {
    say(error === 401 ? "The address lacks its token: take the one that laminar grid serve prints." : "The server does not answer (" + error + "); it is asked again.", "bad");
  }
  setTimeout(look, EVERY);
}
look();
