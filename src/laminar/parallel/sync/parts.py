"""Parts: what each member of a team updates of the row of parameters, in the steps that they share.

Between numbers for rules that treat every number by itself: then a part is one range and one call. Between tensors for those that need a
tensor's norm. And by tensor as well as by member once a step has left one out, since tensors then have counts of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from laminar.parallel.segment import LINE
from laminar.parallel.sync.layout import Layout, Piece
from laminar.train.optimizers import Update

SMALL: Final = 1 << 20  # bytes of parameters that stay in a core's own cache from step to step


@dataclass(frozen=True)
class Range:
    """Numbers `start` to `stop` of the row, taken as a tensor of this shape."""

    start: int
    stop: int
    shape: tuple[int, ...]
    piece: int | None  # which parameter it lies in; None: several

    def of(self, row: Tensor) -> Tensor:
        return row[self.start : self.stop].view(self.shape)


@dataclass
class Part:
    """The tensors behind the ranges of one member: views of the memory that all share, but for the counts, which are its own."""

    ranges: list[Range]
    params: list[Tensor]
    grads: list[list[Tensor]]  # by rank
    state: list[list[Tensor]]  # by slot
    counts: list[Tensor]
    total: list[Tensor]  # room for a sum of gradients: the member's own memory, which no other core has in its cache
    apart: list[Tensor]  # room for the new parameters, of a small part

    @classmethod
    def of(cls, ranges: list[Range], row: Tensor, grads: Sequence[Tensor], slots: Sequence[Tensor | None], counts: Sequence[float]) -> Part:
        """A slot of None is the count."""
        own = [torch.tensor(float(count)) for count in counts]
        state = [own if slot is None else [r.of(slot) for r in ranges] for slot in slots]
        params = [r.of(row) for r in ranges]
        small = len(grads) > 1 and 4 * sum(p.numel() for p in params) <= SMALL
        return cls(
            ranges,
            params,
            [[r.of(grad) for r in ranges] for grad in grads],
            state,
            own,
            [torch.empty_like(p) for p in params],
            [torch.empty_like(p) for p in params] if small else [],
        )

    def added_up(self) -> list[Tensor]:
        """The gradients of all, in the order of the ranks."""
        first, *more = self.grads
        if not more:
            return first
        for i, total in enumerate(self.total):
            torch.add(first[i], more[0][i], out=total)
            for other in more[1:]:
                total.add_(other[i])
        return self.total

    def update(self, rule: Update, lr: float, total: list[Tensor]) -> None:
        """A step of the part. All members have its parameters in their caches, so that to write there number by number takes several times
        as long as elsewhere; a small part is therefore computed in the member's own memory and then copied in one go."""
        if not self.apart:
            rule(self.params, total, self.state, lr)
            return
        torch._foreach_copy_(self.apart, self.params)
        rule(self.apart, total, self.state, lr)
        for shared, made in zip(self.params, self.apart, strict=True):
            np.copyto(shared.numpy(), made.numpy())  # by memcpy, which takes whole lines from the others

    def without(self, absent: frozenset[int]) -> Part:
        """Less the parameters that nobody has a gradient of."""
        if not absent:
            return self
        keep = [i for i, r in enumerate(self.ranges) if r.piece not in absent]

        def some(tensors: list[Tensor]) -> list[Tensor]:
            return [tensors[i] for i in keep]

        return Part(
            [self.ranges[i] for i in keep],
            some(self.params),
            [some(g) for g in self.grads],
            [some(s) for s in self.state],
            some(self.counts),
            some(self.total),
            some(self.apart) if self.apart else [],
        )


def ranges_of(layout: Layout, rank: int, *, by_tensor: bool) -> list[Range]:
    if by_tensor:
        found: list[list[Range]] = [[] for _ in range(layout.size)]
        load = [0] * layout.size
        for i, piece in sorted(enumerate(layout.params), key=lambda p: (-p[1].count, p[1].start)):
            least = load.index(min(load))
            load[least] += piece.count
            found[least].append(Range(piece.start, piece.stop, piece.shape, i))
        return found[rank]
    # Numbers in the gaps between tensors are zero and stay so: one range is one call.
    line = LINE // 4
    lines = layout.numbers // line
    bounds = [line * (lines * r // layout.size) for r in range(layout.size + 1)]
    start, stop = list(itertools.pairwise(bounds))[rank]
    return [Range(start, stop, (stop - start,), None)] if stop > start else []


def cut_by_piece(ranges: Sequence[Range], pieces: Sequence[Piece]) -> list[Range]:
    """The same numbers, gaps left out, with no range that lies in two parameters."""
    found = [r for r in ranges if r.piece is not None]
    for r in ranges:
        if r.piece is None:
            for i, piece in enumerate(pieces):
                start, stop = max(r.start, piece.start), min(r.stop, piece.stop)
                if start < stop:
                    found.append(Range(start, stop, (stop - start,), i))
    return found
