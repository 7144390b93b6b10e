// Figures as people read them. The same rules as laminar.core.figures and the command line.

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (size >= 1e7 || (size > 0 && size < 5e-5)) return value.toExponential(1);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return size < 10 ? value.toFixed(4) : size < 1000 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

export const count = value => (value === null || value === undefined ? "-" : value.toLocaleString("en"));

export function percent(value) {
  return value === null || value === undefined ? "-" : `${(100 * value).toFixed(value > 0.9995 || value < 0.0995 ? 2 : 1)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "-";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (Math.abs(value) >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${value} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "-";
  const s = Math.abs(value);
  if (s < 1) return `${Math.round(value * 1000)} ms`;
  if (s < 60) return `${value.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (s < 86400) return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
  return `${(value / 86400).toFixed(1)} days`;
}

// Seconds since 1970, in the reader's own time zone.
export function when(value) {
  if (value === null || value === undefined) return "-";
  const d = new Date(value * 1000), pad = n => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

export function ago(value, now = Date.now() / 1000) {
  if (value === null || value === undefined) return "-";
  const s = Math.max(0, now - value);
  if (s < 2) return "now";
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} days ago`;
}

export const short = id => (id ? id.slice(0, 12) : "-");

export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
