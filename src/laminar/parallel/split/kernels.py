"""Kernels: how a worker runs its part of an operator, where that is more than the operator itself on its parts of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F

from laminar.parallel.split import weight_grads
from laminar.parallel.split.calls import Value, for_rows, mapped
from laminar.parallel.split.collectives import Ranges, add_up, fetch, spread
from laminar.parallel.split.dims import At, Mesh, axes_of, local_sizes, part_of, sizes_of, with_rows
from laminar.parallel.split.line import Line
from laminar.parallel.split.place import Operation
from laminar.parallel.split.weight_grads import WeightGradients, takes


@dataclass
class Here:
    """A worker's place, and the batch under way."""

    mesh: Mesh
    at: At
    lines: dict[str, Line]
    rows: int = 0  # of the whole batch
    draw: int = 0  # the same for all workers, another at every step
    weights: WeightGradients | None = None  # where those of weights go, if not the way of all


Kernel = Callable[[Operation, Here, Sequence[Any], dict[Value, Tensor]], Any]


def plain(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Any:
    """The operator on what this worker has of its operands."""
    found = op.call.function(*args, **_kwargs(op, given))
    return added_up(found, op, here) if op.sums else found


def whole(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Any:
    """The operator on all of its operands, with sizes that are those of the whole batch."""
    return op.call.function(*mapped(tuple(args), lambda one: for_rows(one, here.rows)), **_kwargs(op, given, here))


def _kwargs(op: Operation, given: dict[Value, Tensor], here: Here | None = None) -> dict[str, Any]:
    def one(value: Any) -> Any:
        return given[value] if isinstance(value, Value) else value if here is None else for_rows(value, here.rows)

    return {name: mapped(value, one) for name, value in op.call.kwargs.items()}


def same(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    found: Tensor = args[0]
    return found


def item(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    found: Tensor = args[0][args[1]]
    return found


def view(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    found: Tensor = args[0].reshape(local_sizes(op.gives[0], here.at, here.mesh, here.rows))
    return found


def expand(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    found: Tensor = args[0].expand(local_sizes(op.gives[0], here.at, here.mesh, here.rows))
    return found


def split(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> list[Tensor]:  # noqa: ARG001
    x, dim, pieces = args[0], op.facts["dim"], op.facts["pieces"]
    return list(x.chunk(pieces, dim) if isinstance(pieces, int) else x.split([with_rows(p, here.rows) for p in pieces], dim))


def linear(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    x, weight, *rest = args
    bias = rest[0] if rest else None
    late = bias if op.sums else None  # comes in after the sum
    inside = None if op.sums else bias
    if takes(here.weights, weight, inside) and here.weights is not None:
        found = weight_grads.linear(x, weight, inside, here.weights)
    else:
        found = F.linear(x, weight, inside)
    found = added_up(found, op, here)
    return found if late is None else found + late


def added_up(x: Tensor, op: Operation, here: Here) -> Tensor:
    for axis in op.sums:
        x = add_up(x, here.lines[axis])
    return x


def added(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    x, facts = args[0], op.facts
    found = x.sum(facts["dims"], keepdim=facts["keep"], dtype=facts["dtype"])
    if facts["count"]:
        found = found / with_rows(facts["count"], here.rows)
    return added_up(found, op, here)


def lookup(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    weight, index = args[:2]
    padding = op.facts["padding"]
    if not op.sums:
        return F.embedding(index, weight, padding if padding >= 0 else None)
    (axis,) = op.sums
    own = part_of(sizes_of((op.facts["vocab"],))[0], here.at[axis], here.mesh[axis])
    mine = (index >= own.start) & (index < own.stop)
    near = torch.where(mine, index - own.start, 0)
    if padding in own:  # its row gets no gradient
        mine_too = mine & (index != padding)
        rows = torch.where(mine_too.unsqueeze(-1), F.embedding(near, weight), F.embedding(near, weight.detach()))
    else:
        rows = F.embedding(near, weight)
    return added_up(torch.where(mine.unsqueeze(-1), rows, torch.zeros((), dtype=rows.dtype)), op, here)


def dropout(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    x, p = args[0], op.facts["p"]
    drawn = torch.empty_like(x).bernoulli_(1 - p, generator=_generator(op, here))
    found: Tensor = x * drawn.div_(1 - p) if p < 1 else x * 0
    return found


def _generator(op: Operation, here: Here) -> torch.Generator:
    """The same for all who have the same numbers."""
    seed = here.draw
    for axis in axes_of(op.gives[0]):
        seed = seed * 1_000_003 + here.at[axis] + 1
    seed = seed * 1_000_003 + sum(map(ord, op.call.name))
    return torch.Generator().manual_seed(seed % (1 << 63))


def attention(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_generator(op, here).initial_seed())
        found: Tensor = plain(op, here, args, given)
        return found


def batch_norm(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    """With the statistics of the whole batch, which all workers on the axes have together."""
    x, weight, bias, running_mean, running_variance = args[:5]
    facts, dims = op.facts, op.facts["dims"]
    lines = [here.lines[axis] for axis in facts["axes"]]
    count = prod(with_rows(size, here.rows) for d, size in enumerate(sizes_of(facts["whole"])) if d != 1)
    mean = _together(x.sum(dims, keepdim=True), lines) / count
    off = x - mean
    variance = _together(off.square().sum(dims, keepdim=True), lines) / count
    found: Tensor = off * torch.rsqrt(variance + facts["eps"])
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    if weight is not None:
        found = found * weight.view(shape)
    if bias is not None:
        found = found + bias.view(shape)
    if running_mean is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.detach().reshape(-1), facts["momentum"])
            running_variance.lerp_(variance.detach().reshape(-1) * (count / max(1, count - 1)), facts["momentum"])
    return found


def _together(x: Tensor, lines: Sequence[Line]) -> Tensor:
    """A sum over all workers, which each of them then uses for its own part."""
    for line in lines:
        x = spread(add_up(x, line), line)
    return x


def group_norm(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    x, _, *rest = args
    weight, bias = (*rest[:2], None, None)[:2]
    found: Tensor = F.group_norm(x, op.facts["groups"], weight, bias, op.facts["eps"])
    return found


# Windows


def convolution(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:
    x, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    facts, n = op.facts, op.facts["n"]
    run: Any = F.conv1d if n == 1 else F.conv2d
    inside = None if op.sums else bias
    apart = here.weights is not None and here.weights.apart and takes(here.weights, weight, inside)
    if not any(facts["windows"]) and not op.sums and facts["groups"] == 1 and not apart:
        found: Tensor = plain(op, here, args, given)
        return found
    x, left = _fetched(x, op, here, 0.0)
    if apart and here.weights is not None:
        how = [facts["stride"], left, facts["dilation"], facts["groups"]]
        found = weight_grads.convolution(x, weight, inside, how, here.weights)
    else:
        found = run(x, weight, inside, facts["stride"], left, facts["dilation"], facts["groups"])
    if op.sums:
        found = added_up(found, op, here)
        if bias is not None:
            found = found + bias.view(-1, *([1] * n))
    return found


def max_pool(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    facts = op.facts
    x, left = _fetched(args[0], op, here, float("-inf"))
    pool: Any = F.max_pool1d if facts["n"] == 1 else F.max_pool2d
    found: Tensor = pool(x, facts["size"], facts["stride"], left, facts["dilation"], facts["ceil_mode"])
    return found


def avg_pool(op: Operation, here: Here, args: Sequence[Any], given: dict[Value, Tensor]) -> Tensor:  # noqa: ARG001
    facts = op.facts
    x, _ = _fetched(args[0], op, here, 0.0)
    if facts["n"] == 1:
        return F.avg_pool1d(x, facts["size"], facts["stride"])
    found: Tensor = F.avg_pool2d(x, facts["size"], facts["stride"], divisor_override=facts["divisor"])
    return found


def _fetched(x: Tensor, op: Operation, here: Here, edge: float) -> tuple[Tensor, list[int]]:
    """What the windows of this worker run over, with edges where the image ends; and the edges that are left to the operator."""
    facts, n = op.facts, op.facts["n"]
    pads, left = [(0, 0)] * n, [0] * n
    for d in range(n):
        window = facts["windows"][d]
        before, behind = facts["padding"][d]
        if window is None:
            if before == behind:
                left[d] = before
            else:
                pads[d] = (before, behind)
            continue
        ranges, pads[d] = reach(window, here.at[window["axis"]], here.mesh[window["axis"]])
        x = fetch(x, 2 + d, ranges, here.lines[window["axis"]])
    if any(before or behind for before, behind in pads):
        x = F.pad(x, [amount for pair in reversed(pads) for amount in pair], value=edge)
    return x, left


def reach(window: dict[str, Any], place: int, parts: int) -> tuple[Ranges, tuple[int, int]]:
    """Rows that each worker has and those that its windows reach; and how far those of one worker reach over the edges."""
    size, out, stride = window["in"], window["out"], window["stride"]
    long = window["dilation"] * (window["size"] - 1) + 1
    wanted = []
    for p in range(parts):
        made = part_of(out, p, parts)
        begin = made.start * stride - window["padding"][0]
        wanted.append(range(begin, begin + (len(made) - 1) * stride + long))
    ranges = Ranges(tuple(part_of(size, p, parts) for p in range(parts)), tuple(_inside(one, size) for one in wanted))
    own, inside = wanted[place], ranges.needs[place]
    return ranges, (inside.start - own.start, own.stop - inside.stop)


def _inside(wanted: range, size: int) -> range:
    """Those of some rows that an image has. Where it has none of them, nothing, at the edge that is nearer."""
    return range(min(max(0, wanted.start), max(0, min(size, wanted.stop))), max(0, min(size, wanted.stop)))


KERNELS: Final[dict[str, Kernel]] = {
    "": plain,
    "whole": whole,
    "same": same,
    "item": item,
    "view": view,
    "expand": expand,
    "split": split,
    "linear": linear,
    "added": added,
    "lookup": lookup,
    "dropout": dropout,
    "attention": attention,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "convolution": convolution,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
}
