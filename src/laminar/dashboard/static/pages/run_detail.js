// Below the curves: how each run stands, what its workers did, and what was worth a word.

export function details(chosen, told, runs, tools) {
  const {el} = tools;
  return el("div", {class: "details"}, chosen.filter(run => told[run]).map(run => one(run, told[run], runs.find(r => r.run === run), tools)));
}

function one(run, found, known, {el, format, badge, table, label, colour, now}) {
  const words = found.events.filter(e => ["note", "failed", "waiting", "resume", "end"].includes(e.event)).slice(-30).reverse();
  return el("section", {class: "panel"},
    el("h2", {class: `k${colour(run)}`}, el("span", {class: "dot"}), " ", label(run), " ", known ? badge(known.state, {live: "live", finished: "good", interrupted: "warn"}[known.state] ?? "bad") : null),
    known?.state === "ended" ? el("p", {class: "notice bad"}, known.why, known.last ? `; last seen ${format.ago(known.last, now)} (${format.when(known.last)})` : "", ". The next build goes on from its checkpoint, if it has one.") : null,
    known?.state === "failed" || known?.state === "interrupted" ? el("p", {class: "notice warn"}, known.why) : null,
    found.damaged ? el("p", {class: "notice warn"}, `${format.many(found.damaged, "line")} of its events could not be read and were passed over`) : null,
    el("dl", {class: "pairs"}, Object.entries({run, steps: known?.steps ? `${format.count(Math.min(known.step ?? 0, known.steps))} of ${format.count(known.steps)}` : format.count(found.steps), epochs: known?.epochs, began: format.when(known?.started), "heard of last": format.when(found.last), training: format.seconds(known?.seconds), strategy: known?.strategy, events: format.bytes(known?.bytes)}).filter(([, value]) => value !== null && value !== undefined && value !== "-").map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    known?.id ? el("p", {}, el("a", {href: `#/stack/${encodeURIComponent(`${known.stack}/${known.layer}`)}/${known.id}`}, `the layer ${known.layer} ${format.short(known.id)}`)) : null,
    found.workers.length ? workers(found.workers, {el, format, table}) : null,
    words.length ? [el("h3", {}, "Worth a word"), table([{head: "when", cell: e => el("span", {class: "nowrap", title: format.when(e.t)}, format.ago(e.t, now))}, {head: "", cell: e => badge(e.event, e.event === "failed" ? "bad" : e.event === "waiting" ? "warn" : "plain")}, {head: "", cell: e => e.why ?? ""}], words, {caption: "Events"})] : null);
}

function workers(rows, {el, format, table}) {
  const bar = (value, whole, words) => (value === undefined ? "-" : el("span", {class: "meter", style: {"--part": String(Math.min(1, value / whole))}}, el("span", {}, words ?? format.percent(value))));
  const has = name => rows.some(w => w[name] !== undefined), most = name => Math.max(...rows.map(w => w[name] ?? 0), 1e-9);
  return [el("h3", {}, "Workers"), table([
    {head: "worker", cell: w => [el("b", {}, w.rank), w.host ? el("div", {class: "mute little", title: w.host}, w.pid ? `process ${w.pid}` : w.host) : null]},
    ...(has("busy") ? [{head: "busy", cell: w => bar(w.busy, 1)}] : []),
    ...(has("gradients") ? [{head: "gradients used", cell: w => bar(w.part, most("part"), `${format.count(w.gradients)}, ${format.percent(w.part)}`)}] : []),
    ...(has("share") ? [{head: "share of a batch", cell: w => bar(w.share, most("share"))}] : []),
    ...(has("took_part") ? [{head: "rounds it was in", cell: w => bar(w.took_part, 1)}] : []),
  ], rows, {caption: "Workers"}), has("busy") ? el("p", {class: "mute little"}, "Busy: the part of the time in which it computed, rather than waited for others or for what they send.") : null];
}
