"""A timeline as SVG: who does what in a step, one row for every resource. For light and dark pages alike. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from laminar.plan.tasks import Kind, Ran

WIDTH, ROW, GAP, TOP, RIGHT = 1200, 30, 8, 58, 24
THIN: Final = 0.2  # pixels: neighbours below it are drawn as one …
SEEN: Final = 5  # … up to so many times that
LETTER, SMALL = 6.6, 5.7  # pixels of one, about: of a name, and inside a bar
CLIPPED: Final = 8  # letters of a text that is worth showing in part
LONGEST: Final = 36  # letters of a row's name
TICKS: Final = 8
COLOURS: Final[dict[Kind, tuple[str, str]]] = {  # on a light page, on a dark one
    "forward": ("#3b76b0", "#6aa5df"),
    "backward": ("#c8453f", "#f0807a"),
    "inputs": ("#d9730d", "#f5a454"),
    "weights": ("#b8930a", "#ecd05a"),
    "exchange": ("#7a4fb5", "#b593ea"),
    "pack": ("#a8447e", "#e58fc0"),
    "transfer": ("#2c8a86", "#63c7c2"),
    "optimizer": ("#3f8a3a", "#84cc7e"),
    "server": ("#8a5a3b", "#cf9f7f"),
    "load": ("#6b7480", "#a3adb9"),
    "wait": ("#c3c8ce", "#4d555f"),
}
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#1c2330}.t{font-size:14px;font-weight:600}.s,.n{fill:#5a6472}.n{font-size:11px}"
    ".p{fill:#fff}.r{fill:#eef0f3}.g{stroke:#d3d8de}.b{font-size:10.5px;fill:#fff;pointer-events:none}"
)
_DARK: Final = "text{fill:#e6e9ee}.s,.n{fill:#9aa4b1}.p{fill:#14181f}.r{fill:#232932}.g{stroke:#39414c}.b{fill:#10141a}"


@dataclass(frozen=True)
class Bar:
    kind: Kind
    name: str
    begin: float
    end: float
    tasks: int = 1


def timeline_svg(ran: Sequence[Ran], rows: Mapping[int, str], seconds: float, title: str) -> str:
    """`rows`: names of resources, which are drawn in this order, those without work too. `seconds`: how long all of it takes."""
    seconds = max(seconds, max((one.end for one in ran), default=0.0)) or 1.0
    names = _names(rows, ran)
    left = min(280, 20 + LETTER * max((len(name) for name in names.values()), default=0))
    scale = (WIDTH - left - RIGHT) / seconds
    bottom = TOP + (ROW + GAP) * len(names)
    height = bottom + 54
    bars = {resource: list(merged(_bars(ran, resource), THIN / scale)) for resource in names}
    kinds = [kind for kind in COLOURS if any(one.task.kind == kind for one in ran)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_style(kinds)}</style>",
        f'<rect class="p" width="{WIDTH}" height="{height}"/>',
        f'<text class="t" x="12" y="26">{escape(title)}</text>',
        *_grid(seconds, left, scale, bottom),
    ]
    for place, (resource, name) in enumerate(names.items()):
        y = TOP + (ROW + GAP) * place
        busy = sum(bar.end - bar.begin for bar in bars[resource]) / seconds
        parts.append(
            f'<text x="{left - 10:.0f}" y="{y + ROW / 2 + 4:.0f}" text-anchor="end">{escape(name)}<title>busy {busy:.0%}</title></text>'
        )
        parts.append(f'<rect class="r" x="{left:.0f}" y="{y}" width="{seconds * scale:.1f}" height="{ROW}" rx="3"/>')
        parts += [_drawn(bar, left, y, scale) for bar in bars[resource]]
    parts += _legend(kinds, left, bottom + 36)
    return "\n".join([*parts, "</svg>", ""])


def rows_of(ran: Sequence[Ran], rows: Mapping[int, str], thin: float) -> Iterator[tuple[str, list[Bar]]]:
    """The name of every resource and what it does; pieces shorter than `thin` seconds as one."""
    for resource, name in _names(rows, ran).items():
        yield name, list(merged(_bars(ran, resource), thin))


def merged(bars: Iterable[Bar], thin: float) -> Iterator[Bar]:
    """Neighbours that are too thin to be seen, and no further apart than that, as one bar of the kind that has most of the time.

    It ends when it can be seen well: so a long row of thin ones keeps its changes of colour.
    """
    group: list[Bar] = []
    for bar in bars:
        joins = group and all(one.end - one.begin < thin for one in (bar, group[-1])) and bar.begin - group[-1].end < thin
        if group and not (joins and bar.end - group[0].begin <= SEEN * thin):
            yield _one(group)
            group = []
        group.append(bar)
    if group:
        yield _one(group)


def _one(group: Sequence[Bar]) -> Bar:
    if len(group) == 1:
        return group[0]
    time: dict[Kind, float] = {}
    for bar in group:
        time[bar.kind] = time.get(bar.kind, 0.0) + bar.end - bar.begin
    kind = max(time, key=lambda kind: time[kind])
    return Bar(kind, "", group[0].begin, group[-1].end, len(group))


def _bars(ran: Sequence[Ran], resource: int) -> list[Bar]:
    found = [Bar(one.task.kind, one.task.name, one.begin, one.end) for one in ran if resource in one.task.resources and one.end > one.begin]
    return sorted(found, key=lambda bar: (bar.begin, bar.end))


def _names(rows: Mapping[int, str], ran: Sequence[Ran]) -> dict[int, str]:
    more = sorted({resource for one in ran for resource in one.task.resources} - set(rows))
    found = {**rows, **{resource: f"resource {resource}" for resource in more}}
    return {resource: name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for resource, name in found.items()}


def _drawn(bar: Bar, left: float, y: float, scale: float) -> str:
    x, width = left + bar.begin * scale, max(THIN, (bar.end - bar.begin) * scale)
    what = bar.name or bar.kind if bar.tasks == 1 else f"{bar.tasks} tasks, most of them {bar.kind}"
    told = f"{what}: {duration(bar.end - bar.begin)}, from {duration(bar.begin)} on"
    shown = width - 0.6 if width > 3 else width  # so that neighbours of one colour can be told apart
    found = f'<rect class="{bar.kind}" x="{x:.2f}" y="{y}" width="{shown:.2f}" height="{ROW}"><title>{escape(told)}</title></rect>'
    text, room = bar.name or bar.kind, int((width - 6) / SMALL)
    if bar.tasks == 1 and room >= min(len(text), CLIPPED):
        text = text if len(text) <= room else text[: room - 1] + "…"
        found += f'<text class="b" x="{x + width / 2:.1f}" y="{y + ROW / 2 + 4:.0f}" text-anchor="middle">{escape(text)}</text>'
    return found


def _grid(seconds: float, left: float, scale: float, bottom: float) -> Iterator[str]:
    step = _round(seconds / TICKS)
    count = int(seconds / step * (1 + 1e-9))
    for number in range(count + 1):
        x = left + number * step * scale
        yield f'<path class="g" d="M{x:.1f} {TOP - 6}V{bottom}"/>'
        if number and x > WIDTH - RIGHT - 70:
            continue  # the end has its own
        yield f'<text class="n" x="{x:.1f}" y="{TOP - 10}" text-anchor="middle">{duration(number * step)}</text>'
    yield f'<text class="n" x="{WIDTH - RIGHT}" y="{TOP - 10}" text-anchor="end">{duration(seconds)}</text>'


def _round(value: float) -> float:
    """1, 2 or 5 times a power of ten, and no less than it."""
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return next(power * times for times in (1, 2, 5, 10) if power * times >= value * (1 - 1e-9))


def _legend(kinds: Sequence[Kind], left: float, y: float) -> Iterator[str]:
    x = left
    for kind in kinds:
        yield f'<rect class="{kind}" x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12" rx="2"/>'
        yield f'<text class="s" x="{x + 17:.0f}" y="{y:.0f}">{kind}</text>'
        x += 34 + LETTER * len(kind)


def _style(kinds: Sequence[Kind]) -> str:
    light = "".join(f"rect.{kind}{{fill:{COLOURS[kind][0]}}}" for kind in kinds)
    dark = "".join(f"rect.{kind}{{fill:{COLOURS[kind][1]}}}" for kind in kinds)
    return f"{_STYLE}{light}@media(prefers-color-scheme:dark){{{_DARK}{dark}}}"


def duration(seconds: float) -> str:
    """`1.25 s`, `12.5 ms`, `80 µs`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs" if seconds else "0"
