// Scales and ticks. Pure: numbers in, numbers out.

// From values to pixels and back. On a log scale, what is not above 0 has no place (NaN).
export function scale([low, high], [from, to], log = false) {
  const f = log ? v => (v > 0 ? Math.log10(v) : NaN) : v => v;
  const a = f(low), b = f(high), k = b === a ? 0 : (to - from) / (b - a);
  const at = value => (k === 0 ? (from + to) / 2 : from + (f(value) - a) * k);
  at.back = pixel => { const v = k === 0 ? a : a + (pixel - from) / k; return log ? 10 ** v : v; };
  return at;
}

// 1, 2 or 5 times a power of ten: about `n` of them between low and high.
export function ticks(low, high, n = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find(m => m * power >= rough * 0.75) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Seconds fall on whole minutes and hours.
export function timeTicks(low, high, n = 5) {
  const rough = (high - low) / n;
  const step = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].find(s => s >= rough);
  if (rough < 30 || step === undefined) return ticks(low, high, n);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
  return found;
}

// Powers of ten; between them 2 and 5 where there is room; like a linear scale where all is within one power.
export function logTicks(low, high, n = 5) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  if (Math.log10(high / low) < 1) return ticks(low, high, n).filter(v => v > 0);
  const every = Math.max(1, Math.ceil((to - from) / (n + 1)));
  const found = [];
  for (let p = from; p <= to; p += every) for (const m of to - from <= 2 ? [1, 2, 5] : [1]) {
    const v = m * 10 ** p;
    if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
  }
  return found;
}

// The least and greatest of what is drawn, with a little room; never empty.
export function extent(values, {log = false, room = 0.04, zero = false} = {}) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v) && (!log || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (log) { const k = low === high ? 2 : (high / low) ** room; return [low / k, high * k]; }
  if (zero && low > 0) low = 0;
  if (low === high) { const d = Math.abs(low) * 0.1 || 1; return [low - d, high + d]; }
  const d = (high - low) * room;
  return [zero && low === 0 ? 0 : low - d, high + d];
}

// The place in sorted numbers that is nearest to a value.
export function nearest(sorted, value) {
  let a = 0, b = sorted.length - 1;
  if (b < 0) return -1;
  while (b - a > 1) { const m = (a + b) >> 1; if (sorted[m] < value) a = m; else b = m; }
  return Math.abs(sorted[a] - value) <= Math.abs(sorted[b] - value) ? a : b;
}

// A short word for a tick: 0.05, 12k, 1e-5.
export function tickText(v) {
  const size = Math.abs(v);
  if (v === 0) return "0";
  if (size >= 1e15 || size < 1e-4) return v.toExponential(0).replace("e+", "e");
  for (const [unit, k] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e4]]) if (size >= k) { const base = unit === "k" ? 1e3 : k; return `${Number((v / base).toPrecision(4))}${unit}`; }
  return String(Number(v.toPrecision(6)));
}
