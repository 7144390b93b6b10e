// The pictures of an experiment's report. Their room is there from the beginning; they are drawn by the server, which takes some seconds
// of a core: at once when the experiment is over, and when it is asked for while trials are being timed.

import {save} from "/static/chart_save.js";
import {drawing, pointing} from "/static/drawing.js";

const NARROW = "(max-width: 720px)";

export function reportPictures(told, {el, clear, api, trouble, Trouble, format}, made) {
  const {summary, pictures} = told;
  if (!pictures.length) return null;
  if (told.not_drawn) return el("section", {class: "panel"}, el("h2", {}, "Pictures of the report"), el("p", {}, told.not_drawn.message, ". fix: ", el("code", {}, told.not_drawn.hint)));
  const narrow = matchMedia(NARROW).matches, state = {ended: false};
  made.push(() => { state.ended = true; });
  const said = el("div", {class: "mute", role: "status"});
  const boxes = new Map(pictures.map(one => [one.name, figure(one, narrow)]));
  const over = summary.done >= summary.planned;
  const button = over ? null : el("button", {type: "button", onclick: () => draw()}, `Draw ${format.many(pictures.length, "picture")} now`);

  function figure(one, narrow) {
    const [across, high] = narrow ? one.narrow : one.wide;
    const stage = el("div", {class: "sheet", style: {"aspect-ratio": `${across} / ${high}`}});
    const tools = el("span", {class: "tools"});
    return {stage, tools, node: el("figure", {class: "chart picture", data: {picture: one.name}}, el("div", {class: "row spread"}, el("h3", {}, one.title), tools), stage, el("figcaption", {}, one.caption))};
  }

  async function draw() {
    if (button) button.disabled = true;
    said.textContent = "drawing …";
    for (const {stage, node} of boxes.values()) { stage.classList.add("waits"); if (!node.isConnected) section.append(node); }
    try {
      const found = await api("/api/experiments/pictures", {name: summary.name, narrow: narrow ? 1 : null});
      if (state.ended) return;
      said.textContent = "";
      for (const one of found.pictures) one.kind === "timeline" ? line(one) : fill(one);
      for (const {stage} of boxes.values()) stage.classList.remove("waits");
    } catch (error) {
      if (state.ended) return;
      if (!(error instanceof Trouble)) throw error;
      clear(said).append(trouble(error));
      if (button) button.disabled = false;
      for (const {stage} of boxes.values()) stage.classList.remove("waits");
    }
  }

  function fill(one) {
    const box = boxes.get(one.name);
    if (!box) return;  // a trial has come between the two questions
    const svg = drawing(one.svg, `${one.title}. ${one.caption} Arrow keys read it.`);
    clear(box.stage).append(svg);
    pointing(svg, one.hints, box.stage);
    clear(box.tools).append(...["svg", "png"].map(kind => el("button", {type: "button", class: "quiet small", "aria-label": `${one.title}: save as ${kind.toUpperCase()}`, onclick: () => save(kind, {svg, title: one.title, name: `${summary.name}-${one.name}`})}, kind)));
  }

  function line(one) {
    if (section.querySelector(`[data-picture="${CSS.escape(one.name)}"]`)) return;
    section.append(el("figure", {class: "chart picture", data: {picture: one.name}}, el("h3", {}, one.title), el("img", {alt: `Stages over time: ${one.title}`, src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(one.svg)}`}), el("figcaption", {}, one.caption)));
  }

  const section = el("section", {class: "pictures"}, el("div", {class: "row spread"}, el("h2", {}, "Pictures of the report"), button), over ? null : el("p", {class: "mute"}, "They are drawn by themselves when the last trial is over: drawing now takes time of a core, which the trials that are being timed would miss."), said, over ? [...boxes.values()].map(box => box.node) : null);
  if (over) draw();
  return section;
}
