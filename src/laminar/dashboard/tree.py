"""The tree of layers as rows: each layer above the one it stands on, branches to the right. Pure.

The deepest child of a layer goes on in its lane; the others stand between the two, one lane to the right, and join the lane at their row.
So a lane is the number of branchings below a layer, and rows of one branch are together.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    lane: int
    joins: int | None  # the lane of what it stands on, where that is another one; None: the same, or it stands on nothing
    below: bool  # something it stands on is in the tree
    above: bool  # something stands on it in the same lane
    through: tuple[int, ...]  # lanes of others that pass by


def rows(parents: Mapping[str, str | None]) -> list[Row]:
    """Of every layer and its parent (None, or a name that is not among them: it stands on nothing here). Top first."""
    children: dict[str | None, list[str]] = {None: []}
    for name, parent in parents.items():
        known = parent if parent in parents and parent != name else None
        children.setdefault(known, []).append(name)
    height = _heights(children)
    lanes: dict[str, int] = {}
    order: list[str] = []
    main: dict[str, str] = {}
    waiting = [(name, 0) for name in reversed(children[None])]
    while waiting:
        name, lane = waiting.pop()
        lanes[name] = lane
        order.append(name)
        above = children.get(name, [])
        if above:
            main[name] = max(above, key=lambda child: height[child])  # the first of equals
            waiting.append((main[name], lane))
            waiting += [(child, lane + 1) for child in reversed(above) if child != main[name]]
    order += [name for name in parents if name not in lanes]  # layers that stand on themselves: a damaged store
    place = {name: at for at, name in enumerate(order)}
    found: list[Row] = []
    passing: dict[int, int] = {}  # lane -> the place up to which somebody's line goes
    for at, name in enumerate(order):
        passing = {lane: until for lane, until in passing.items() if until > at}
        lane = lanes.get(name, 0)
        parent = parents[name]
        below = parent is not None and parent in lanes and parent != name
        found.append(
            Row(
                name=name,
                lane=lane,
                joins=lanes[parent] if below and parent is not None and lanes[parent] != lane else None,
                below=below,
                above=name in main,
                through=tuple(sorted(other for other in passing if other != lane)),
            )
        )
        if name in main:
            passing[lane] = place[main[name]]
    return found[::-1]


def _heights(children: Mapping[str | None, list[str]]) -> dict[str, int]:
    """How many layers stand above each other on a layer; without recursion, for stacks may be thousands high."""
    order: list[str] = []
    waiting = list(children[None])
    while waiting:
        name = waiting.pop()
        order.append(name)
        waiting += children.get(name, [])
    found: dict[str, int] = {}
    for name in reversed(order):
        found[name] = 1 + max((found[child] for child in children.get(name, [])), default=0)
    return found
