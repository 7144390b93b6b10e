"""Collectives that gradients go back through.

A tensor that every member of a line has whole has its whole gradient with every member; of one that is split each has the gradient of its
part. So each exchange has an opposite, which happens on the way back:

    spread   nothing happens - gradients are added up          a whole tensor goes where each member does another part of the work
    add_up   parts are added up - nothing happens
    gather   parts become the whole - each takes its part      never multiplied by the number of members: they all compute the same loss
    take     each takes its part - parts become the whole
    fetch    rows of neighbours - their gradients go back to them and are added

The first two are the f and g of Megatron-LM (Shoeybi et al., arXiv 1909.08053).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from laminar.parallel.split.dims import part_of
from laminar.parallel.split.line import Line


def spread(x: Tensor, line: Line) -> Tensor:
    return _applied(_Spread, x, line) if line.size > 1 and x.requires_grad else x


def add_up(x: Tensor, line: Line) -> Tensor:
    return _applied(_AddUp, x, line) if line.size > 1 else x


def _applied(function: type[Function], *given: Any) -> Tensor:
    return cast(Tensor, function.apply(*given))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Part:
    """Where in a contiguous tensor one of its atoms lies: [before, size, behind]."""

    before: int
    size: int  # of the whole atom
    behind: int
    dim: int  # of the tensor, in which the atom is
    outer: int  # numbers of atoms before and behind it in that dimension
    inner: int

    def sizes(self, line: Line) -> list[int]:
        return [len(part_of(self.size, rank, line.size)) for rank in range(line.size)]


def gather(x: Tensor, part: Part, line: Line) -> Tensor:
    return _applied(_Gather, x, part, line) if line.size > 1 else x


def take(x: Tensor, part: Part, line: Line) -> Tensor:
    return _applied(_Take, x, part, line) if line.size > 1 else x


def _gathered(x: Tensor, part: Part, line: Line) -> Tensor:
    sizes = part.sizes(line)
    found = line.gather(x, [part.before * size * part.behind for size in sizes])
    shape = list(x.shape)
    shape[part.dim] = part.outer * part.size * part.inner
    if part.before == 1:
        return torch.cat(found).view(shape)
    return torch.cat([one.view(part.before, size, part.behind) for one, size in zip(found, sizes, strict=True)], 1).view(shape)


def _taken(x: Tensor, part: Part, line: Line) -> Tensor:
    own = part_of(part.size, line.rank, line.size)
    shape = list(x.shape)
    shape[part.dim] = part.outer * len(own) * part.inner
    split = x.reshape(part.before, part.size, part.behind)[:, own.start : own.stop]
    return split.contiguous().view(shape)


class _Spread(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, line: Line) -> Tensor:
        ctx.line = line
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.line.sum(grad), None


class _AddUp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, line: Line) -> Tensor:  # noqa: ARG004
        return line.sum(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # noqa: ARG004
        return grad, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part, line: Line) -> Tensor:
        ctx.part, ctx.line = part, line
        return _gathered(x, part, line)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _taken(grad, ctx.part, ctx.line), None, None


class _Take(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part, line: Line) -> Tensor:
        ctx.part, ctx.line = part, line
        return _taken(x, part, line)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _gathered(grad, ctx.part, ctx.line), None, None


# Rows of neighbours


@dataclass(frozen=True)
class Ranges:
    """Rows of one dimension that each member of a line has, and those that it needs, by rank. What is had is had by one only."""

    has: tuple[range, ...]
    needs: tuple[range, ...]

    def between(self, giver: int, taker: int) -> range:
        return _common(self.has[giver], self.needs[taker])

    @property
    def most(self) -> int:
        ranks = range(len(self.has))
        return max((len(self.between(a, b)) for a in ranks for b in ranks if a != b), default=0)

    @property
    def quiet(self) -> bool:
        """Nobody needs anything from another."""
        return self.most == 0


def fetch(x: Tensor, dim: int, ranges: Ranges, line: Line) -> Tensor:
    """The rows that are needed, of those that all have."""
    if ranges.quiet and ranges.has[line.rank] == ranges.needs[line.rank]:
        return x
    return _applied(_Fetch, x, dim, ranges, line)


class _Fetch(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, ranges: Ranges, line: Line) -> Tensor:
        ctx.dim, ctx.ranges, ctx.line = dim, ranges, line
        has = ranges.has[line.rank]
        each = prod(_with(x.shape, dim, 1))
        others = [rank for rank in range(line.size) if rank != line.rank]
        out = {rank: _rows(x, dim, has, ranges.between(line.rank, rank)) for rank in others if len(ranges.between(line.rank, rank))}
        into = {rank: each * len(ranges.between(rank, line.rank)) for rank in others if len(ranges.between(rank, line.rank))}
        found = line.swap(out, into, each * ranges.most, x.dtype)
        pieces = []
        for rank in range(line.size):
            rows = ranges.between(rank, line.rank)
            if len(rows):
                piece = _rows(x, dim, has, rows) if rank == line.rank else found[rank].view(_with(x.shape, dim, len(rows)))
                pieces.append(piece)
        return torch.cat(pieces, dim) if pieces else x.narrow(dim, 0, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        dim, ranges, line = ctx.dim, ctx.ranges, ctx.line
        has, needs = ranges.has[line.rank], ranges.needs[line.rank]
        each = prod(_with(grad.shape, dim, 1))
        others = [rank for rank in range(line.size) if rank != line.rank]
        out = {rank: _rows(grad, dim, needs, ranges.between(rank, line.rank)) for rank in others if len(ranges.between(rank, line.rank))}
        into = {rank: each * len(ranges.between(line.rank, rank)) for rank in others if len(ranges.between(line.rank, rank))}
        found = line.swap(out, into, each * ranges.most, grad.dtype)
        own = grad.new_zeros(_with(grad.shape, dim, len(has)))
        for rank in range(line.size):  # always in this order, so that sums are the same each time
            rows = ranges.between(line.rank, rank)
            if len(rows):
                piece = _rows(grad, dim, needs, rows) if rank == line.rank else found[rank].view(_with(grad.shape, dim, len(rows)))
                _rows(own, dim, has, rows).add_(piece)
        return own, None, None, None


def _common(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))


def _rows(x: Tensor, dim: int, of: range, rows: range) -> Tensor:
    return x.narrow(dim, rows.start - of.start, len(rows))


def _with(shape: Sequence[int], dim: int, size: int) -> list[int]:
    return [size if i == dim else s for i, s in enumerate(shape)]
