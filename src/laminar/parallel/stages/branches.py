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

import numpy as np

from laminar.parallel.stages.flow import Flow, writes

TRY_ALL: Final = 50_000  # ways to deal the branches of a block, up to which each is tried
SOME: Final = 1_000  # of which so many are tried with those of the blocks before
KEPT: Final = 200  # ways to deal some blocks that are tried with the next


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


@dataclass(frozen=True)
class Spent:
    """Seconds that a branch takes."""

    forward: float
    inputs: float  # gradients that others wait for
    weights: float = 0.0  # and those that nobody does
    toll: float = 0.0  # more to have it elsewhere than with the trunk, there and again back

    def on(self, lane: int) -> float:
        return self.forward + self.inputs + self.weights + (2 * self.toll if lane else 0.0)


def deal(blocks: Sequence[Sequence[Spent]], left: Sequence[float]) -> list[list[int]]:
    """The lane of each branch of each block, so that the whole is as fast as can be. In a block all wait for the slowest lane on the way
    there, and again on the way back; gradients of weights are computed when the way back is done, so there only their sums over all blocks
    count. `left`: seconds of those that are not in branches, for each lane."""
    lanes = len(left)
    found, so_far = [list[list[int]]()], _Ways(np.zeros(1), np.array([left], float), np.zeros(1))
    for block in blocks:
        tried = list(product(range(lanes), repeat=len(block))) if lanes ** len(block) <= TRY_ALL else [_longest_first(block, left)]
        of_block = _ways(np.array(tried), block, lanes)
        some = of_block.worth_trying()
        several = so_far.and_then(of_block.only(some))
        best = np.lexsort((several.work, several.rank))[:KEPT]
        found = [[*found[i // len(some)], list(tried[some[i % len(some)]])] for i in best]
        so_far = several.only(best)
    return found[0]


@dataclass(frozen=True)
class _Ways:
    """Ways to deal a block or several, one in each row."""

    time: np.ndarray  # there and back, of the slowest lane in each direction
    behind: np.ndarray  # of gradients of weights, by lane
    work: np.ndarray  # of all lanes together

    @property
    def rank(self) -> np.ndarray:
        return np.asarray(self.time + self.behind.max(1))

    def only(self, some: np.ndarray) -> _Ways:
        return _Ways(self.time[some], self.behind[some], self.work[some])

    def and_then(self, other: _Ways) -> _Ways:
        """Each of these with each of those."""
        behind = self.behind[:, None] + other.behind
        return _Ways(
            np.add.outer(self.time, other.time).ravel(), behind.reshape(-1, behind.shape[-1]), np.add.outer(self.work, other.work).ravel()
        )

    def worth_trying(self) -> np.ndarray:
        """Of those that take as long in every respect, one. Where they are many: those that are fastest by themselves, and those that are
        where other blocks even out what is left behind."""
        order = np.argsort(self.work, kind="stable")
        alike = np.column_stack((self.time, self.behind))[order]
        some = np.sort(order[np.unique(alike, axis=0, return_index=True)[1]])
        if len(some) <= SOME:
            return some
        fast = [some[np.lexsort((self.work[some], by[some]))[: SOME // 2]] for by in (self.rank, self.time)]
        return np.union1d(*fast)


def _longest_first(block: Sequence[Spent], left: Sequence[float]) -> list[int]:
    """Each where it is done first (Graham, 1969)."""
    load, found = list(left), [0] * len(block)
    for i in sorted(range(len(block)), key=lambda i: -block[i].on(0)):
        spent = [block[i].on(lane) for lane in range(len(left))]
        lane = min(range(len(left)), key=lambda lane: load[lane] + spent[lane])
        load[lane] += spent[lane]
        found[i] = lane
    return found


def _ways(tried: np.ndarray, block: Sequence[Spent], lanes: int) -> _Ways:
    """`tried`: lanes of the branches of a block, one way in each row."""
    there, back, behind = (np.zeros((len(tried), lanes)) for _ in range(3))
    for lane in range(lanes):
        here = tried == lane
        there[:, lane] = here @ np.array([one.forward + (one.toll if lane else 0.0) for one in block])
        back[:, lane] = here @ np.array([one.inputs + (one.toll if lane else 0.0) for one in block])
        behind[:, lane] = here @ np.array([one.weights for one in block])
    return _Ways(there.max(1) + back.max(1), behind, there.sum(1) + back.sum(1))


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
