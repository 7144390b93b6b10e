"""A circuit as a picture: functions as boxes with their lines and costs, conditions as rounded ones, what they wait for as arrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from laminar.kernels.circuit.build import Circuit
from laminar.kernels.circuit.edges import Edge
from laminar.kernels.circuit.function import Function
from laminar.kernels.language.tree import Object, Variable

_WIDE, _HIGH, _ACROSS, _DOWN = 220, 64, 40, 56
_COLOURS: Final = {"piece": "#dbe9f6", "condition": "#fdebc8", "loop": "#dcefdc"}
_LINES: Final = {"value": "#33608c", "guard": "#b06a00", "array": "#8c3352", "barrier": "#444444"}


def picture(circuit: Circuit, edges: Sequence[Edge], name: str) -> str:
    """SVG."""
    placed = rows(circuit, [one for one in edges if not one.next_round])
    places = {
        one.number: (_ACROSS + column * (_WIDE + _ACROSS), 60 + row * (_HIGH + _DOWN))
        for row, each in enumerate(placed)
        for column, one in enumerate(each)
    }
    wide = _ACROSS + max((len(each) for each in placed), default=1) * (_WIDE + _ACROSS)
    high = 60 + len(placed) * (_HIGH + _DOWN) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" font-family="sans-serif">',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
        f'<text x="{_ACROSS}" y="30" font-size="16">{escape(name)}: {len(circuit.functions)} functions</text>',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555555"/></marker></defs>',
    ]
    parts += [_arrow(one, places) for one in edges]
    parts += [_box(one, places[one.number]) for one in circuit.functions]
    parts.append(f'<text x="{_ACROSS}" y="{high - 10}" font-size="11" fill="#555555">{_legend()}</text></svg>')
    return "\n".join(parts) + "\n"


def _legend() -> str:
    words = {"value": "a value", "guard": "runs or is ignored", "array": "uses the same array", "barrier": "all instances arrive"}
    return " · ".join(f'<tspan fill="{_LINES[kind]}">{text}</tspan>' for kind, text in words.items()) + " · dashed: for the next round"


def rows(circuit: Circuit, edges: Sequence[Edge]) -> list[list[Function]]:
    """Each below all that it waits for."""
    depth: dict[int, int] = {}
    for one in circuit.functions:
        above = [depth[edge.source] for edge in edges if edge.target == one.number and edge.source in depth]
        depth[one.number] = 1 + max(above, default=-1)
    found: list[list[Function]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for one in circuit.functions:
        found[depth[one.number]].append(one)
    return found


def _box(one: Function, place: tuple[int, int]) -> str:
    left, top = place
    lines = f"line {one.lines[0]}" if one.lines[0] == one.lines[1] else f"lines {one.lines[0]} to {one.lines[1]}"
    corner = 24 if one.kind == "condition" else 4
    takes = names(one.takes.values(), one.reads)
    gives = names(one.gives.values(), one.writes) or ("true or false" if one.kind == "condition" else "")
    detail = f"{takes or '-'} → {gives or '-'}"
    return (
        f'<g><title>{escape(one.name)}: {lines}</title><rect x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="{corner}" '
        f'fill="{_COLOURS[one.kind]}" stroke="#555555"/>'
        f'<text x="{left + 12}" y="{top + 20}" font-size="13">{escape(one.name)}</text>'
        f'<text x="{left + 12}" y="{top + 37}" font-size="11" fill="#333333">{lines} · {cost_text(one.cost)} an instance</text>'
        f'<text x="{left + 12}" y="{top + 54}" font-size="11" fill="#333333">{escape(detail[:34])}</text></g>'
    )


def names(variables: Iterable[Variable], arrays: Iterable[Object]) -> str:
    return ", ".join(sorted({*(one.name for one in variables), *(one.name for one in arrays)}))


def cost_text(nanoseconds: float) -> str:
    if nanoseconds < 1e3:
        return f"{nanoseconds:.0f} ns"
    return f"{nanoseconds / 1e3:.1f} µs" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.1f} ms"


def _arrow(one: Edge, places: dict[int, tuple[int, int]]) -> str:
    (from_left, from_top), (to_left, to_top) = places[one.source], places[one.target]
    dash = ' stroke-dasharray="5,4"' if one.next_round else ""
    begin_x, begin_y = from_left + _WIDE // 2, from_top + _HIGH
    end_x, end_y = to_left + _WIDE // 2, to_top
    if one.next_round:  # round the side, upwards
        begin_x, begin_y, end_x, end_y = from_left + _WIDE, from_top + _HIGH // 2, to_left + _WIDE, to_top + _HIGH // 2
        path = f"M{begin_x},{begin_y} C{begin_x + 40},{begin_y} {end_x + 40},{end_y} {end_x},{end_y}"
    else:
        middle = (begin_y + end_y) // 2
        path = f"M{begin_x},{begin_y} C{begin_x},{middle} {end_x},{middle} {end_x},{end_y}"
    return f'<path d="{path}" fill="none" stroke="{_LINES[one.kind]}"{dash} marker-end="url(#end)"><title>{escape(one.what)}</title></path>'
