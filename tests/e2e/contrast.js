// Every visible text and the contrast of its colour to what is behind it (WCAG 2.1, 1.4.3): those below what is asked for.

const parse = text => {
  const n = (text.match(/[\d.]+(e-?\d+)?/g) ?? []).map(Number);
  const [r, g, b, a = 1] = text.startsWith("color(srgb") ? [...n.slice(0, 3).map(v => v * 255), ...n.slice(3)] : n;
  return [r, g, b, a];
};

const over = (top, below) => {
  const a = top[3] + below[3] * (1 - top[3]);
  return a ? [0, 1, 2].map(i => (top[i] * top[3] + below[i] * below[3] * (1 - top[3])) / a).concat(a) : [0, 0, 0, 0];
};

const light = colour => {
  const [r, g, b] = colour.slice(0, 3).map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const behind = element => {
  let colour = [0, 0, 0, 0];
  for (let e = element; e && colour[3] < 0.999; e = e.parentElement) colour = over(colour, parse(getComputedStyle(e).backgroundColor));
  return over(colour, [255, 255, 255, 1]);
};

const passed = ".unseen, noscript, [disabled], [aria-pressed=false].key";  // what cannot be used, or is switched off, may be pale
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement, text = node.textContent.trim();
  if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true}) || element.closest(passed)) continue;
  const style = getComputedStyle(element), drawn = element instanceof SVGElement;
  const ground = behind(drawn ? element.closest("svg").parentElement : element);
  const ink = parse(drawn ? style.fill : style.color);
  for (let e = element; e; e = e.parentElement) ink[3] *= Number(getComputedStyle(e).opacity);
  const a = light(over(ink, ground)), b = light(ground), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const named = element.className?.baseVal ?? element.className;
  if (ratio < (large ? 3 : 4.5)) found.push([text.slice(0, 40), element.tagName, named, Number(ratio.toFixed(2))]);
}
return found;
