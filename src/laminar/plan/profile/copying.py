"""Copying: what a worker itself does for exchanges, beside what lies between workers: values brought into other layouts, gradients
put into buckets and taken out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from laminar.parallel.split.collectives import gather, take
from laminar.parallel.split.dims import shape_of
from laminar.parallel.split.moves import Move, moves, part
from laminar.parallel.split.place import Operation
from laminar.parallel.split.program import deferred
from laminar.plan.profile.dry_line import DryLine
from laminar.plan.profile.meter import Meter, Wanted
from laminar.plan.profile.one_operator import Site, engine_time
from laminar.plan.profile.timing import timed


class Moved(NamedTuple):
    move: Move
    dtype: torch.dtype
    learns: bool


def copying(site: Site, meter: Meter, threads: int) -> list[tuple[float, float]]:
    """Seconds there and back for each operator, and for the loss; with the first who needs a value in some layout, as it is done."""
    placed = site.placed
    late, ready = deferred(placed), set[Any]()
    every = [_of_operator(site, op, late, ready) for op in placed.operations]
    output = placed.traced.output
    kind = placed.traced.dtypes[output][0], output in site.learns
    every.append([Moved(move, *kind) for move in moves(placed.values[output][0], placed.output)])
    owned = [(i, _wanted(site, one, meter)) for i, some in enumerate(every) for one in some if placed.mesh[one.move.axis] > 1]
    found = [(0.0, 0.0)] * len(every)
    for (i, _), (forward, backward) in zip(owned, meter.many("layouts", [one for _, one in owned], threads=threads), strict=True):
        found[i] = found[i][0] + forward, found[i][1] + backward
    return found


def _of_operator(site: Site, op: Operation, late: dict[str, tuple[str, ...]], ready: set[Any]) -> list[Moved]:
    found, placed = list[Moved](), site.placed
    for i, node in enumerate(op.operands):
        name = placed.traced.tensors.get(node)
        if op.run == "item" or (name is not None and name in late):
            continue
        have = placed.layouts[name] if name is not None else placed.values[node][0]
        key = (node, tuple(shape_of(dim) for dim in op.needs[i]))
        if key not in ready:
            ready.add(key)
            found += [Moved(move, placed.traced.dtypes[node][0], node in site.learns) for move in moves(have, op.needs[i])]
    return found


def _wanted(site: Site, one: Moved, meter: Meter) -> Wanted:
    where = part(one.move, site.at, site.placed.mesh, site.rows)
    line, effort = DryLine(site.at[one.move.axis], site.placed.mesh[one.move.axis]), meter.effort
    gathers = one.move.kind == "gather"
    key = {
        "what": "layout",
        "kind": one.move.kind,
        "part": [where.before, where.size, where.behind],
        "line": [line.rank, line.size],
        "dtype": str(one.dtype).removeprefix("torch."),
        "learns": one.learns,
    }

    def measure() -> list[float]:
        size = where.sizes(line)[line.rank] if gathers else where.size
        x = torch.zeros(where.before, size, where.behind, dtype=one.dtype).requires_grad_(one.learns and one.dtype.is_floating_point)
        flat, exchange = replace(where, dim=1, outer=1, inner=1), gather if gathers else take
        forward = timed(lambda: exchange(x, flat, line), effort).low
        if not x.requires_grad:
            return [forward, 0.0]
        root = exchange(x, flat, line)
        grad = torch.ones_like(root)
        back = timed(lambda: torch.autograd.grad(root, x, grad, retain_graph=True), effort)
        return [forward, back.less(engine_time(effort)).low]

    return Wanted(key, measure)


def bucketing(sizes: Sequence[tuple[int, int]], meter: Meter, threads: int) -> float:
    """Seconds to put gradients into buckets and to take the sums out of them. `sizes`: bytes and tensors of each."""
    effort = meter.effort

    def wanted(size: int, count: int) -> Wanted:
        def measure() -> float:
            tensors = [torch.zeros(max(1, size // 4 // count)) for _ in range(count)]

            def once() -> None:
                flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
                for tensor, added in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
                    tensor.copy_(added)

            return timed(once, effort).low

        return Wanted({"what": "bucket", "bytes": size, "tensors": count}, measure)

    return float(sum(meter.many("buckets", [wanted(*one) for one in sizes], threads=threads)))
