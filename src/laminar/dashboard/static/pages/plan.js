// Plan: the planner's kept answer for a layer: strategies, the timeline of one, memory, and predicted against measured.

import {timeline} from "/static/timeline.js";

export async function show(main, params, tools) {
  const {el, put, api, badge, command, format, go} = tools;
  const {stack, layers} = await api("/api/plan");
  put(main, el("h1", {}, "Plan"), el("p", {class: "mute"}, "How a layer can be trained on the machines at hand: every strategy priced before it is run, and held against what was measured since."));
  if (!layers.length) {
    put(main, el("div", {class: "panel"}, el("h2", {}, stack ? "The stack has no layer yet" : "There is no stack here"),
      el("p", {}, "A plan is made for a layer of laminar.toml. Start with:"), command("laminar init my-stack")));
    return () => {};
  }
  const wanted = params.path[0] ?? (layers.find(l => l.when !== null) ?? layers[0]).layer;
  const chosen = layers.find(l => l.layer === wanted) ?? layers[0];
  put(main, el("div", {class: "choices list", role: "group", "aria-label": "Layers"}, layers.map(l => el("a", {
    href: `#/plan/${encodeURIComponent(l.layer)}`, class: "tab", tabindex: 0, "aria-current": l === chosen ? "true" : null},
    el("b", {}, l.layer), el("span", {class: "mute"}, l.error ? "damaged" : l.when === null ? "no plan kept" : l.best)))));
  const cleanUps = [];
  const told = await answerOf(chosen, tools);
  if (told instanceof Error) put(main, tools.trouble(told));
  else if (told.answer === null) {
    put(main, el("div", {class: "panel"}, el("h2", {}, `Nothing is planned for ${chosen.layer} yet`),
      el("p", {}, "Planning measures operators and links on a quiet machine, so it is done by a command and not from a page. Its answer is kept, and shown here:"),
      command(`laminar plan ${chosen.layer}`),
      el("p", {class: "mute"}, "A build can also choose by itself, and keeps what it chose from:"), command("laminar build --strategy auto")));
  } else put(main, answer(told.answer, params.query, tools, cleanUps));
  if (!(told instanceof Error) && told.auto.length) put(main, el("section", {class: "panel"}, el("h2", {}, "Chosen by builds"),
    tools.table([{head: "when", cell: r => format.ago(r.when)}, {head: "layer", cell: r => el("code", {}, format.short(r.id))}, {head: "what was said", cell: r => r.why}], told.auto, {caption: "Chosen by builds"})));
  put(main, await past(chosen.layer, tools, cleanUps));
  return () => cleanUps.forEach(f => f());
}

async function answerOf(chosen, {api, Trouble}) {
  try { return await api("/api/plan/answer", {layer: chosen.layer}); } catch (error) {
    if (error instanceof Trouble) return error;
    throw error;
  }
}

const ms = s => (s === null || s === undefined ? "-" : s === 0 ? "0" : s < 1e-4 ? `${(1e6 * s).toFixed(0)} µs` : s < 1 ? `${(1e3 * s).toFixed(s < 0.01 ? 2 : 1)} ms` : `${s.toFixed(2)} s`);

function answer(told, query, tools, cleanUps) {
  const {el, put, clear, badge, format, chart} = tools;
  const asked = Number(query.get("plan")) - 1;
  let number = asked >= 0 && asked < told.plans.length ? asked : told.chosen;
  const longest = Math.max(...told.plans.map(p => Math.max(p.seconds_to_target)));
  const below = el("div");
  let drop = () => {};
  const rows = told.plans.map((plan, i) => row(plan, i));
  const anyMeasured = told.plans.some(p => p.measured_seconds !== null);

  function row(plan, i) {
    const choose = () => { number = i; details(); };
    return el("tr", {tabindex: 0, class: "opens", onclick: choose, onkeydown: e => { if (e.key === "Enter") choose(); }, "aria-label": `plan ${i + 1}: ${plan.name}`},
      el("td", {class: "n"}, i + 1),
      el("td", {class: "strategy"}, el("div", {class: "named"}, el("code", {class: "clamp", title: plan.name}, plan.name), i === told.chosen ? badge("chosen", "good") : null, plan.same_result ? null : badge("other result", "warn", "learns something else than one process does"))),
      el("td", {class: "n wide-only"}, format.count(plan.batch)),
      el("td", {class: "n"}, ms(plan.step_seconds), plan.measured_seconds !== null ? el("div", {class: "mute little measured"}, `measured ${ms(plan.measured_seconds)} `, wrong(plan.step_seconds, plan.measured_seconds, badge)) : null),
      el("td", {}, el("div", {class: "to-target"}, el("div", {class: "bar-line"}, el("span", {class: "bar-fill", style: {width: `${Math.max(0.5, (100 * plan.seconds_to_target) / longest)}%`}}, parts(plan.spent, el))), el("span", {class: "n"}, format.seconds(plan.seconds_to_target)))),
      el("td", {class: "n wide-only"}, format.bytes(plan.memory_bytes)),
      el("td", {class: "n wide-only"}, plan.bytes_per_step ? format.bytes(plan.bytes_per_step) : "-"),
      el("td", {class: "n wide-only"}, format.percent(plan.idle)));
  }

  function details() {
    drop();
    const plan = told.plans[number];
    rows.forEach((r, i) => { r.classList.toggle("now", i === number); r.setAttribute("aria-selected", i === number); });
    const made = [];
    clear(below).append(el("h2", {class: "of-plan"}, `Plan ${number + 1}: `, el("code", {}, plan.name)), el("p", {class: "mute"}, facts(plan, format)));
    if (plan.timeline.length) {
      const line = timeline(plan.timeline.filter(r => r.bars.length || r.name.startsWith("worker")), {title: `A step of ${plan.name}`, format: ms});
      below.append(line.node);
      made.push(line.destroy);
    } else below.append(el("p", {class: "panel mute"}, "Workers of this strategy make no steps at once, so there is no timeline of one. What a batch waits for: ", plan.why, "."));
    if (plan.memory.length) {
      const memory = chart({title: "memory", name: "memory", y: {label: "MB of each worker in a step", format: v => v.toFixed(1), zero: true}, x: {label: "milliseconds", format: v => v.toFixed(2)}, height: 200, series: plan.memory.map(m => stepped(m, plan))});
      below.append(el("div", {class: "gap"}, memory.node));
      made.push(memory.destroy);
    }
    drop = () => made.forEach(f => f());
  }
  cleanUps.push(() => drop());

  const head = ["", "strategy", "batch", "step", "to target", "memory", "sent a step", "idle"];
  const box = el("section", {class: "panel"},
    el("div", {class: "row spread"}, el("h2", {}, told.conclusion), el("span", {class: "mute"}, `${told.by === "auto" ? "by a build with --strategy auto" : "by laminar plan"}, ${format.ago(told.when)}, on ${told.machine}`)),
    el("div", {class: "scroll"}, el("table", {class: "plans"}, el("caption", {class: "unseen"}, "Strategies with their predicted times"),
      el("thead", {}, el("tr", {}, head.map((h, i) => el("th", {scope: "col", class: [0, 2, 3, 5, 6, 7].includes(i) ? `n${[2, 5, 6, 7].includes(i) ? " wide-only" : ""}` : null}, h)))), el("tbody", {class: "list"}, rows))),
    legend(told.plans, el),
    el("p", {class: "mute"}, `To target: as good as one process with the recipe, by ${told.to_target}.`, told.left_out ? ` ${told.left_out} plans were left out: there was no more time.` : "", anyMeasured ? "" : " None of these was run here: laminar plan --try 3 does."),
    told.turns.map(turn => el("p", {class: "mute"}, `${turn[0].toUpperCase()}${turn.slice(1)}.`)),
    told.notes.length ? el("details", {}, el("summary", {}, `${told.notes.length === 1 ? "One remark" : `${told.notes.length} remarks`}`), told.notes.map(note => el("p", {class: "mute"}, note))) : null);
  details();
  return [box, el("section", {class: "panel"}, below)];
}

const WORDS = {load: "gathering samples", forward: "forward", backward: "backward", inputs: "backward (inputs)", weights: "backward (weights)", exchange: "exchanging tensors", pack: "packing gradients", transfer: "sending on", optimizer: "optimizer and loop", server: "servers", wait: "waiting", computing: "computing", waiting: "waiting"};

function parts(spent, el) {
  const all = Object.values(spent).reduce((a, b) => a + b, 0) || 1;
  const order = Object.keys(WORDS), place = kind => (order.includes(kind) ? order.indexOf(kind) : order.length);
  return Object.entries(spent).filter(([, s]) => s > 0).sort((a, b) => place(a[0]) - place(b[0])).map(([kind, s]) => el("i", {class: `kind-${kind}`, style: {width: `${(100 * s) / all}%`}, title: `${WORDS[kind] ?? kind} ${Math.round((100 * s) / all)} %`}));
}

function legend(plans, el) {
  const kinds = [...new Set(plans.flatMap(p => Object.keys(p.spent).filter(k => p.spent[k] > 0)))];
  return el("p", {class: "kinds"}, el("span", {class: "mute"}, "time goes to "), kinds.map(k => el("span", {class: "kind"}, el("i", {class: `kind-${k}`}), WORDS[k] ?? k)));
}

function facts(plan, format) {
  const said = [`${format.many(plan.workers, "worker")}, batch ${format.count(plan.batch)}`, `${ms(plan.step_seconds)} a step`, `${format.count(Math.round(plan.steps))} steps to the target: ${format.seconds(plan.seconds_to_target)}${plan.start_seconds ? `, ${format.seconds(plan.start_seconds)} of it until workers have begun` : ""}`, `${format.bytes(plan.memory_bytes)} of memory in the fullest worker`];
  if (plan.staleness > 0) said.push(`gradients ${plan.staleness.toFixed(1)} steps old`);
  if (plan.measured_seconds !== null) said.push(`measured ${ms(plan.measured_seconds)} a step`);
  return said.join(" · ");
}

// Bytes from a time on, as a line with corners.
function stepped(memory, plan) {
  const x = [], y = [];
  for (const [seconds, size] of memory.points) {
    if (y.length) { x.push(1e3 * seconds); y.push(y[y.length - 1]); }
    x.push(1e3 * seconds);
    y.push(size / 1e6);
  }
  const end = 1e3 * Math.max(...plan.timeline.flatMap(r => r.bars.map(b => b[3])), 0);
  if (y.length) { x.push(end); y.push(y[y.length - 1]); }
  return {name: `worker ${memory.worker}`, x, y};
}

async function past(layer, tools, cleanUps) {
  const {el, api, badge, format, chart, table, Trouble} = tools;
  let told;
  try { told = await api("/api/plan/ledger"); } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    return tools.trouble(error);
  }
  const {check, entries} = told;
  if (!entries.length) return el("section", {class: "panel"}, el("h2", {}, "Predicted against measured"), el("p", {}, "Nothing was predicted and then measured on this machine yet. Either of these does both:"), tools.command(`laminar plan ${layer} --try 3`), tools.command("laminar build --strategy auto"));
  const kinds = [...new Set(entries.map(e => e.kind))];
  const ends = entries.flatMap(e => [e.predicted_seconds, e.measured_seconds]).map(s => 1e3 * s);
  const low = Math.min(...ends), high = Math.max(...ends);
  const dots = kinds.map((kind, i) => {
    const some = entries.filter(e => e.kind === kind).sort((a, b) => a.predicted_seconds - b.predicted_seconds);
    return {name: kind, kind: "points", colour: i, x: some.map(e => 1e3 * e.predicted_seconds), y: some.map(e => 1e3 * e.measured_seconds)};
  });
  const made = chart({title: "measured", name: "predicted-measured", height: 280, y: {label: "ms a step", log: true}, x: {label: "predicted ms", log: true}, series: [...dots, {name: "as predicted", x: [low, high], y: [low, high], colour: 7, dash: "4 4"}]});
  cleanUps.push(made.destroy);
  const own = entries.filter(e => e.layer === layer).reverse();
  const shown = (own.length ? own : entries.slice().reverse()).slice(0, 30);
  const sum = !check.count ? "Only what a calibration ran was measured yet" : `${format.many(check.count, "prediction")}, wrong by ${Math.round(100 * check.median)} % in the middle and ${Math.round(100 * check.maximum)} % at most` + (check.tau === null ? "" : `; order of plans: Kendall's tau ${check.tau.toFixed(2)} over ${format.many(check.jobs, "job")} (1 is the right order)`);
  return el("section", {class: "panel"}, el("h2", {}, "Predicted against measured"), el("p", {class: "mute"}, `${sum}. From the ledger ${told.path}.`),
    check.warning ? el("p", {}, badge("careful", "warn"), " ", check.warning) : null,
    el("div", {class: "two"}, made.node, table([
      {head: "when", cell: e => format.ago(e.when)}, {head: "layer", cell: e => e.layer}, {head: "strategy", cell: e => el("code", {}, strategy(e))},
      {head: "predicted", cell: e => ms(e.predicted_seconds), right: true}, {head: "measured", cell: e => ms(e.measured_seconds), right: true}, {head: "wrong by", cell: e => wrong(e.predicted_seconds, e.measured_seconds, badge), right: true},
      {head: "", cell: e => (e.quiet ? "" : badge("busy", "plain", "others were at work meanwhile: it corrects nothing"))}], shown, {caption: "Predicted against measured"})),
    own.length ? null : el("p", {class: "mute"}, `None of these is of ${layer}.`));
}

// How far a prediction is off: + is too long.
function wrong(predicted, measured, badge) {
  const part = predicted / measured - 1;
  return badge(`${part > 0 ? "+" : "−"}${Math.round(100 * Math.abs(part))} %`, Math.abs(part) < 0.15 ? "good" : Math.abs(part) < 0.4 ? "warn" : "bad", "what was predicted, against what was measured");
}

function strategy(entry) {
  try {
    const {kind, ...rest} = JSON.parse(entry.strategy);
    const words = Object.entries(rest).map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`);
    return `${kind}${words.length ? `:${words.join(",")}` : ""}`;
  } catch { return entry.strategy; }
}
