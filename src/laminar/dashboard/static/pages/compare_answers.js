// What layers answer on the same samples: confusion matrices, and the samples that tell them apart.

// Layers are asked about samples in a process of their own, which takes seconds: so it is done when it is asked for.
export function showJudged(box, items, data, tools, state) {
  const {el, api, clear, command, trouble, Trouble, say} = tools;
  const own = [...new Set(items.map(i => i.data).filter(Boolean))];
  const all = [...new Set([...own.filter(d => data.includes(d)), ...data])];
  if (!all.length) {
    clear(box).append(el("h2", {}, "Answers"), el("p", {}, "There is no data in laminar.toml to ask these layers about."), command("laminar evaluate LAYER SOURCE"));
    return;
  }
  const select = el("select", {"aria-label": "data"}, all.map(d => el("option", {value: d}, own.includes(d) ? `${d} (trained on)` : d)));
  const button = el("button", {type: "button", class: "main", onclick: () => ask(false)}, "Ask the layers");
  const body = el("div", {class: "judged"}, el("p", {class: "mute"}, "Confusion matrices, and the samples on which they disagree: the layers are loaded and asked about the test samples, which takes some seconds."));
  clear(box).append(el("div", {class: "row spread"}, el("h2", {}, "Answers"), el("span", {class: "row"}, "on ", select, button)), body);
  let turn = 0;
  async function ask(again) {
    const own = ++turn;
    button.disabled = true;
    try {
      for (let first = true; ; first = false) {
        const told = await api("/api/compare/judged", {layer: items.map(i => i.id), data: select.value, again: again && first ? 1 : null});
        if (state.ended || own !== turn) return;
        if (told.state === "done") { clear(body).append(...judgement(told.judgement, items, tools)); say("the layers have answered"); return; }
        if (told.state === "failed") { clear(body).append(trouble(told.error)); return; }
        clear(body).append(el("p", {}, el("span", {class: "badge live"}, "working"), ` ${told.progress.what} …`), el("progress", {max: told.progress.of, value: told.progress.done, "aria-label": told.progress.what}));
        await new Promise(done => setTimeout(done, 300));
      }
    } catch (error) {
      if (state.ended) return;
      if (!(error instanceof Trouble)) throw error;
      clear(body).append(trouble(error));
    } finally { button.disabled = false; }
  }
}

function judgement(told, items, {el, badge, format}) {
  const good = told.layers.map((layer, i) => ({...layer, name: items[i].name, colour: items[i].colour})).filter(l => !l.error);
  const found = [el("p", {class: "mute"}, `${format.count(told.used)} of ${format.many(told.all, "test sample")} of ${told.data}.`)];
  told.layers.forEach((layer, i) => { if (layer.error) found.push(el("p", {}, badge(items[i].name, "warn"), " could not be asked: ", layer.error.message, layer.error.hint ? [" ", el("code", {}, layer.error.hint)] : null)); });
  if (told.task === "regression") found.push(el("div", {class: "columns"}, good.map(l => scatter(l, {el, format}))));
  else found.push(el("div", {class: "columns"}, good.map(l => matrix(l, {el, format}))));
  for (const group of told.groups) {
    if (!group.count) continue;
    found.push(el("h3", {}, `${group.name[0].toUpperCase()}${group.name.slice(1)}: ${format.count(group.count)}`, group.count > group.samples.length ? el("span", {class: "mute"}, `, ${group.samples.length} shown`) : ""),
      el("div", {class: "samples"}, group.samples.map(s => sample(s, good, {el, format}))));
  }
  return found;
}

function matrix(layer, {el, format}) {
  const sums = layer.matrix.map(row => row.reduce((a, b) => a + b, 0));
  const cell = (n, r, c) => el("td", {class: r === c ? "right" : n ? "wrong" : null, style: {"--part": (sums[r] ? n / sums[r] : 0).toFixed(3)}, title: `${layer.classes[r]} taken for ${layer.classes[c]}: ${n} of ${sums[r]}`}, n || "");
  const short = text => (text.length > 9 ? `${text.slice(0, 8)}…` : text);
  return el("figure", {class: `confusion k${layer.colour % 8}`}, el("figcaption", {}, el("span", {class: "dot"}), " ", el("b", {}, layer.name), el("span", {class: "mute"}, ` ${Object.entries(layer.metrics).map(([k, v]) => `${k} ${format.number(v)}`).join(", ")}`)),
    el("div", {class: "scroll"}, el("table", {class: layer.classes.length > 20 ? "tiny" : null}, el("caption", {class: "unseen"}, `Confusion matrix of ${layer.name}`), el("thead", {}, el("tr", {}, el("th", {scope: "col", class: "corner"}, "is ↓ said →"), layer.classes.map(name => el("th", {scope: "col", title: name}, short(name))))),
      el("tbody", {}, layer.matrix.map((row, r) => el("tr", {}, el("th", {scope: "row", title: layer.classes[r]}, short(layer.classes[r])), row.map((n, c) => cell(n, r, c))))))));
}

function scatter(layer, {el, format}) {
  const all = layer.pairs.flat(), low = Math.min(...all), high = Math.max(...all), room = high - low || 1;
  const at = v => 10 + (280 * (v - low)) / room;
  return el("figure", {class: `confusion k${layer.colour % 8}`}, el("figcaption", {}, el("span", {class: "dot"}), " ", el("b", {}, layer.name), el("span", {class: "mute"}, ` ${Object.entries(layer.metrics).map(([k, v]) => `${k} ${format.number(v)}`).join(", ")}`)),
    el("svg", {class: "scatter", viewBox: "0 0 300 300", role: "img", "aria-label": `what ${layer.name} says against what is, for ${layer.pairs.length} samples`}, el("line", {x1: 10, y1: 290, x2: 290, y2: 10, class: "equal"}), layer.pairs.map(([truth, said]) => el("circle", {class: `spot k${layer.colour % 8}`, cx: at(truth).toFixed(1), cy: (300 - at(said)).toFixed(1), r: 3}, el("title", {}, `is ${format.number(truth)}, said ${format.number(said)}`)))));
}

function sample(s, layers, {el, format}) {
  return el("figure", {class: "sample"}, s.picture ? el("img", {src: s.picture, alt: `sample ${s.number}, ${s.truth}`, width: 72, height: 72, loading: "lazy"}) : el("code", {class: "values"}, s.values.map(v => Number(v.toPrecision(3))).join(" ")),
    el("figcaption", {}, el("b", {title: `sample ${s.number}`}, s.truth), s.said.map((one, i) => el("span", {class: `said k${layers[i].colour % 8} ${one.right ? "right" : "wrong"}`, title: `${layers[i].name}: ${one.answer}, ${format.percent(one.probability)}`}, el("span", {class: "dot"}), ` ${one.answer} `, el("span", {class: "mute"}, `${Math.round(100 * one.probability)} %`)))));
}
