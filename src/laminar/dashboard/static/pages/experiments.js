// Experiments: what the trials say, as a table, as pictures, and in the words of its statements.

import {reportPictures} from "/static/pages/report_pictures.js";
import {ranges} from "/static/ranges.js";

const MOST = 8, EVERY = 5000;

export async function show(main, params, tools) {
  const {el, put, api, command, clear, format} = tools;
  const {experiments} = await api("/api/experiments");
  put(main, el("h1", {}, "Experiments"));
  if (!experiments.length) {
    put(main, el("div", {class: "panel"}, el("h2", {}, "No experiment was run here yet"), el("p", {}, "An experiment trains variants of a layer several times, and says which differ by more than noise. What varies is written in a file, say sweep.toml:"), el("pre", {class: "code plain"}, "name = \"lr\"\nquestion = \"Which learning rate is best?\"\nrepeats = 5\n\n[axes]\nlr = [0.001, 0.003, 0.01]\n"), command("laminar experiment run sweep.toml")));
    return () => {};
  }
  const chosen = experiments.find(e => e.name === params.path[0]) ?? experiments[0];
  put(main, el("div", {class: "choices list", role: "group", "aria-label": "Experiments"}, experiments.map(e => el("a", {href: `#/experiments/${encodeURIComponent(e.name)}`, class: "tab", tabindex: 0, "aria-current": e === chosen ? "true" : null}, el("b", {}, e.name), el("span", {class: "mute"}, e.error ? "damaged" : e.done < e.planned ? `${e.done} of ${e.planned} trials` : format.many(e.done, "trial"))))));
  const body = el("div");
  put(main, body);
  const state = {ended: false, newest: undefined, destroy: () => {}, way: "percent", along: "epochs"};
  let timer = null;
  async function look() {
    const told = await api("/api/experiments/one", {name: chosen.name});
    if (state.ended) return;
    if (told.newest !== state.newest) { // nothing is drawn anew unless a trial has ended: a reader may be pointing at it
      state.newest = told.newest;
      state.destroy();
      const made = [];
      clear(body).append(...drawn(told, state, tools, made));
      state.destroy = () => made.forEach(f => f());
    }
    if (told.summary.done < told.summary.planned) timer = setTimeout(() => look().catch(() => {}), EVERY);
  }
  try { await look(); } catch (error) {
    if (!(error instanceof tools.Trouble)) throw error;
    put(body, tools.trouble(error));
  }
  return () => { state.ended = true; clearTimeout(timer); state.destroy(); };
}

const BADGES = {confirmed: "good", refuted: "bad", "not shown": "plain"};
const VERDICTS = {benchmark: "the benchmark", more: "more", less: "less", "inside the noise": "inside the noise", "too few repeats": "too few repeats"};

function drawn(told, state, tools, made) {
  const {el, badge, format, table, command} = tools;
  const {summary, description, measures} = told;
  const title = name => measures[name]?.words ?? name.replaceAll("_", " ");
  const found = [el("section", {class: "panel"}, el("h2", {}, summary.title || summary.name), summary.question ? el("p", {}, summary.question) : null,
    el("p", {class: "row"}, badge(`${summary.done} of ${summary.planned} trials`, summary.done < summary.planned ? "live" : "good"), summary.failures.length ? badge(`${summary.failures.length} failed`, "bad") : null, summary.quick ? badge("quick", "warn", "smaller than the experiment as it is described") : null, el("span", {class: "mute"}, `${summary.stack}/${summary.layer}, ${format.many(summary.rows.length, "variant")}, ${format.seconds(summary.seconds)} in all${description.created ? `, ${format.ago(description.created)}` : ""}`)),
    summary.done < summary.planned ? el("progress", {max: summary.planned, value: summary.done, "aria-label": "trials done"}) : null,
    summary.statements.length ? el("ul", {class: "plain statements"}, summary.statements.map(s => el("li", {}, badge(s.verdict, BADGES[s.verdict] ?? "plain"), " ", el("b", {}, s.text), s.claim ? el("span", {class: "mute"}, ` [${s.claim}]`) : null, el("div", {class: "mute"}, s.words)))) : null)];
  if (!summary.measures.length) {
    found.push(el("section", {class: "panel"}, el("p", {class: "mute"}, "No trial is done yet.")));
    return [...found, failures(summary, tools)].filter(Boolean);
  }
  found.push(figures(told, title, state, tools), intervals(told, title, tools, made), lines(told, state, tools, made), reportPictures(told, tools, made), failures(summary, tools));
  found.push(el("section", {class: "panel"}, el("h2", {}, "How it was done"), el("p", {}, summary.method), summary.notes.map(note => el("p", {class: "mute"}, note)), machine(description.machine, el),
    el("p", {}, "As a page of its own, with everything in it:"), command(`laminar experiment report ${summary.name} --html ${summary.name}.html`)));
  return found.flat().filter(Boolean);
}

function machine(facts, el) {
  const rows = Object.entries(facts ?? {});
  return rows.length ? el("p", {class: "mute"}, rows.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ")) : null;
}

const better = (figure, measure, measures) => (figure.verdict !== "more" && figure.verdict !== "less" ? null : measures[measure] ? figure.verdict === measures[measure].better : null);

const percent = v => (v === null || v === undefined || !Number.isFinite(v) ? "–" : `${v.toFixed(Math.abs(v) >= 1000 ? 0 : Math.abs(v) >= 10 ? 1 : 2)} %`);

function amount(value, unit, format) {
  return unit === "B" ? format.bytes(value) : unit === "s" ? (value < 0.1 ? `${(1e3 * value).toFixed(1)} ms` : format.seconds(value)) : `${format.number(value)}${unit === "/s" ? "/s" : ""}`;
}

// A row a variant, a column a measure; in per cent of the benchmark, or as it was measured.
function figures(told, title, state, {el, badge, format}) {
  const {summary, measures} = told;
  const cell = (row, measure) => {
    const f = row.figures[measure], unit = summary.units[measure];
    if (!f) return el("td", {class: "n mute"}, "–");
    const relative = state.way === "percent" && f.percent !== null;
    const span = relative ? f.percent_interval : f.interval;
    const say = v => (relative ? percent(v) : amount(v, unit, format));
    const good = better(f, measure, measures);
    return el("td", {class: `n figure ${good === null ? "" : good ? "best" : "worst"}`, title: `${VERDICTS[f.verdict] ?? f.verdict}; ${f.n} trials; median ${amount(f.median, unit, format)}, from ${amount(f.least, unit, format)} to ${amount(f.most, unit, format)}`},
      el("b", {}, say(relative ? f.percent : f.median)), span ? el("div", {class: "mute little"}, `${say(span.low)} to ${say(span.high)}`) : null,
      f.verdict === "inside the noise" || f.verdict === "too few repeats" ? el("div", {class: "mute little"}, f.verdict) : null,
      f.published !== null && f.published !== undefined ? el("div", {class: "mute little", title: f.source}, `published ${f.published_percent ? percent(f.published) : amount(f.published, unit, format)}`) : null);
  };
  const body = el("tbody");
  const fill = () => body.replaceChildren(...summary.rows.map(row => el("tr", {class: row.benchmark ? "bench" : null}, el("th", {scope: "row"}, row.label, row.benchmark ? [" ", badge("benchmark", "plain")] : null, row.failed ? [" ", badge(`${row.failed} failed`, "bad")] : null, row.busy ? [" ", badge("busy", "warn", "others were at work meanwhile")] : null), el("td", {class: "n"}, row.counted), summary.measures.map(m => cell(row, m)))));
  fill();
  const choice = (way, text) => el("button", {type: "button", "aria-pressed": String(state.way === way), onclick: e => { state.way = way; e.target.parentNode.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b === e.target)); fill(); }}, text);
  return el("section", {class: "panel"}, el("div", {class: "row spread"}, el("h2", {}, "Figures"), el("div", {class: "switch", role: "group", "aria-label": "Figures"}, choice("percent", "% of the benchmark"), choice("plain", "as measured"))),
    el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "figures"}, el("table", {class: "sides figures-table"}, el("caption", {class: "unseen"}, "Figures of each variant"), el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "variant"), el("th", {scope: "col", class: "n"}, "trials"), summary.measures.map(m => el("th", {scope: "col", class: "n", title: title(m)}, m.replaceAll("_", " "))))), body)),
    el("p", {class: "mute"}, "Green and red differ from the benchmark by more than noise; below each figure is its interval."));
}

// Each measure with its intervals.
function intervals(told, title, {el, format}, made) {
  const {summary, measures} = told;
  const plots = summary.measures.map(m => {
    const unit = summary.units[m], all = summary.rows.filter(r => r.figures[m]), relative = all.every(r => r.figures[m].percent !== null);
    const rows = all.map(r => {
      const f = r.figures[m];
      return {label: r.label, benchmark: r.benchmark, middle: relative ? f.percent : f.median, span: relative ? f.percent_interval : f.interval, published: f.published_percent && relative ? f.published : null, good: better(f, m, measures), words: `${amount(f.median, unit, format)}; ${VERDICTS[f.verdict]}`};
    });
    const picture = ranges(rows, {title: title(m), format: relative ? percent : v => amount(v, unit, format), base: relative ? 100 : null});
    made.push(picture.destroy);
    return picture.node;
  });
  return el("div", {class: "plots"}, plots);
}

function lines(told, state, {el, chart, format}, made) {
  const {curves, description} = told;
  if (!curves.length) return null;
  const bench = curves.findIndex(c => c.variant === description.benchmark);
  const order = bench > 0 ? [curves[bench], ...curves.filter((_, i) => i !== bench)] : curves;
  const some = order.length <= MOST ? order : [order[0], ...Array.from({length: MOST - 1}, (_, i) => order[1 + Math.round((i * (order.length - 2)) / (MOST - 2))])];
  const names = {test_accuracy: "test accuracy", test_loss: "test loss", accuracy: "accuracy in training", loss: "loss in training"};
  const kinds = Object.keys(names).filter(k => curves.some(c => c.figures[k])).slice(0, 4);
  const series = kind => some.filter(c => c.figures[kind]).map((c, i) => ({name: c.label, colour: i, kind: c.epochs.length < 30 ? "both" : "line", x: state.along === "epochs" ? c.epochs : c.seconds, y: c.figures[kind].map(v => v ?? NaN)}));
  const x = () => (state.along === "epochs" ? {label: "epoch", format: v => (Number.isInteger(v) ? String(v) : "")} : {label: "seconds of training", format: format.number});
  const charts = kinds.map(kind => [kind, chart({title: names[kind], name: kind, height: 230, x: x(), series: series(kind)})]);
  made.push(...charts.map(([, c]) => c.destroy));
  const choice = (way, text) => el("button", {type: "button", "aria-pressed": String(state.along === way), onclick: e => { state.along = way; e.target.parentNode.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b === e.target)); charts.forEach(([kind, c]) => c.update({x: x(), series: series(kind)})); }}, text);
  return el("section", {}, el("div", {class: "row spread"}, el("h2", {}, "Curves"), el("div", {class: "switch", role: "group", "aria-label": "Curves against"}, choice("epochs", "by epoch"), choice("seconds", "by time"))), el("p", {class: "mute"}, `The middle of the counted trials of each variant${some.length < curves.length ? `; ${some.length} of ${curves.length} variants` : ""}.`), el("div", {class: "plots"}, charts.map(([, c]) => c.node)));
}

function failures(summary, {el, table}) {
  if (!summary.failures.length) return null;
  return el("section", {class: "panel"}, el("h2", {}, "Failed trials"), table([{head: "variant", cell: f => f.label}, {head: "repeat", cell: f => f.repeat, right: true}, {head: "", cell: f => el("code", {}, f.code)}, {head: "what happened", cell: f => f.message}, {head: "fix", cell: f => (f.hint ? el("code", {}, f.hint) : "")}], summary.failures, {caption: "Failed trials"}));
}
