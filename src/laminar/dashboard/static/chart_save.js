// A chart as a file: SVG and PNG as they are seen, CSV as they are known.

const STYLES = ["stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "fill", "fill-opacity", "opacity", "font-family", "font-size", "font-weight"];

// The picture with its colours written into it: outside of the page there is no stylesheet.
function standalone(svg, title) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i].style.setProperty(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  copy.querySelectorAll("[data-cursor]").forEach(each => each.remove());
  const box = svg.viewBox.baseVal, ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({width: box.width, height: box.height, fill: getComputedStyle(svg.closest(".chart")).backgroundColor})) ground.setAttribute(name, value);
  copy.prepend(ground);
  const name = document.createElementNS("http://www.w3.org/2000/svg", "title");
  name.textContent = title;
  copy.prepend(name);
  for (const [key, value] of Object.entries({xmlns: "http://www.w3.org/2000/svg", width: box.width, height: box.height})) copy.setAttribute(key, value);
  return new XMLSerializer().serializeToString(copy);
}

export function save(kind, {svg, title, name, series, xLabel}) {
  if (kind === "csv") return give(new Blob([csv(series, xLabel)], {type: "text/csv"}), `${name}.csv`);
  const text = standalone(svg, title);
  if (kind === "svg") return give(new Blob([text], {type: "image/svg+xml"}), `${name}.svg`);
  const image = new Image(), box = svg.viewBox.baseVal;
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * box.width;
    canvas.height = 2 * box.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => give(blob, `${name}.png`));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

export function csv(series, xLabel = "x") {
  const plain = text => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : String(text));  // a name is no formula of a spreadsheet
  const quote = text => (/[",\n]/.test(text) ? `"${plain(text).replaceAll('"', '""')}"` : plain(text));
  const lines = [["series", xLabel, "value"].map(quote).join(",")];
  for (const s of series) for (let i = 0; i < s.x.length; i++) lines.push([quote(s.name), s.x[i], s.y[i]].join(","));
  return lines.join("\n") + "\n";
}

function give(blob, name) {
  const address = URL.createObjectURL(blob), link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^A-Za-z0-9._-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
