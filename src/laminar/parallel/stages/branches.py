"""Branches: parts of a model between the same two values that do not need each other, and the lanes they are dealt to. No torch here.

A value through which everything goes is a waist. Operators between one waist and the next fall into groups that have nothing to do with
each other: where there are several, those are branches. All the rest is the trunk, which the first lane has; it collates what the
branches give (the master of DistBelief's and GoogLeNet's column-wise splits; Szegedy et al., arXiv 1409.4842).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from laminar.parallel.stages.flow import Flow, writes

TRY_ALL: Final = 50_000  # ways to deal the branches of a block, up to which each is tried


@dataclass(frozen=True)
class Block:
    """Branches side by side."""

    branches: tuple[tuple[int, ...], ...]  # operators of each


def find_blocks(flow: Flow) -> list[Block]:
    """In order; without those that are a single branch."""
    used = {node for op in flow.operations for node in op.operands}
    taken = max((i for i in range(len(flow.operations)) if flow.inputs([i])), default=-1)  # the last that takes an input of the model
    found, body = [], list[int]()
    for i, op in enumerate(flow.operations):
        if i in flow.anywhere or (writes(op) and op.call.name not in used):
            continue
        if i >= taken and _is_waist(flow, i):
            if len(branches := _components(flow, body)) > 1:
                found.append(Block(tuple(branches)))
            body = []
        else:
            body.append(i)
    return found


def _is_waist(flow: Flow, i: int) -> bool:
    """Is its value all that is needed behind it?"""
    if i + 1 == len(flow.operations):
        return True
    return flow.crossing[i + 1] == [flow.operations[i].call.name]


def _components(flow: Flow, body: Sequence[int]) -> list[tuple[int, ...]]:
    """Groups of operators that are connected by what they make."""
    group = {i: i for i in body}

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for i in body:
        for node in flow.operations[i].operands:
            if (maker := flow.maker.get(node)) in group:
                group[root(i)] = root(maker)
    found: dict[int, list[int]] = {}
    for i in body:
        found.setdefault(root(i), []).append(i)
    return [tuple(some) for some in sorted(found.values())]


def deal(costs: Sequence[Sequence[float]], tolls: Sequence[Sequence[float]], lanes: int) -> list[int]:
    """The lane of each branch, so that the whole is as fast as can be. `costs`: of each branch, there and back: all wait for the slowest on
    the way there, and again on the way back. `tolls`: what it costs more to have one elsewhere than with the trunk."""
    if lanes ** len(costs) <= TRY_ALL:
        ways = product(range(lanes), repeat=len(costs))
        return list(min(ways, key=lambda dealt: _time(tuple(dealt), costs, tolls, lanes)))
    load, found = [0.0] * lanes, [0] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: -sum(costs[i])):  # the longest first, where it is done first (Graham, 1969)
        spent = [sum(costs[i]) + (sum(tolls[i]) if lane else 0.0) for lane in range(lanes)]
        lane = min(range(lanes), key=lambda lane: load[lane] + spent[lane])
        load[lane] += spent[lane]
        found[i] = lane
    return found


def _time(dealt: Sequence[int], costs: Sequence[Sequence[float]], tolls: Sequence[Sequence[float]], lanes: int) -> tuple[float, float]:
    """Of the slowest lane in each direction; and of all work together."""
    slowest = total = 0.0
    for way in range(len(costs[0])):
        load = [0.0] * lanes
        for lane, cost, toll in zip(dealt, costs, tolls, strict=True):
            load[lane] += cost[way] + (toll[way] if lane else 0.0)
        slowest, total = slowest + max(load), total + sum(load)
    return slowest, total


def stages_of(flow: Flow, lane_of: Mapping[int, int]) -> tuple[list[int | None], list[int]]:
    """From the lane of each operator (the first, if none is said) to stages: the stage of each operator, and the lane of each stage.

    A stage ends where a value is made that another lane needs, and begins where one comes in: nobody waits for more than it needs, on the
    way there and back.
    """
    lanes: dict[int, int] = {}
    for i, op in enumerate(flow.operations):
        if i not in flow.anywhere:  # one of a row of tensors is taken out of it where that was made: only tensors are sent
            lanes[i] = lanes[flow.maker[op.operands[0]]] if op.run == "item" else lane_of.get(i, 0)
    sent = {
        node
        for i, lane in lanes.items()
        for node in flow.operations[i].operands
        if (maker := flow.maker.get(node)) in lanes and lanes[maker] != lane
    }
    depth: dict[int, int] = {}
    for i in lanes:
        makers = [(node, flow.maker[node]) for node in flow.operations[i].operands if flow.maker.get(node) in lanes]
        depth[i] = max((depth[maker] + (node in sent) for node, maker in makers), default=0)
    numbers = {key: number for number, key in enumerate(sorted({(depth[i], lanes[i]) for i in lanes}))}
    stage_of = [numbers[depth[i], lanes[i]] if i in lanes else None for i in range(len(flow.operations))]
    return stage_of, [lane for _, lane in numbers]
