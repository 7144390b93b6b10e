"""The team of a mesh: every worker has parts of the model and some rows of the batch, and all make a step at once.

backward - gradients added up along the axes on which each has a part of them - clip by the norm over all parts - step on own parts
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.split.grid import ALL, Grid
from laminar.parallel.split.line import Line
from laminar.parallel.split.whole import Parts
from laminar.parallel.waited import WAITED
from laminar.train.lars import norms_alone
from laminar.train.optimizers import SLOTS, Optimizer
from laminar.train.recipe import Recipe
from laminar.train.splitting import LANES
from laminar.train.team import NOTHING, Learner, OwnRows, Step, sums_of_columns
from laminar.train.tensor_file import Later

BUCKET = 4 << 20  # bytes of gradients that are added up at once


class TakesRows(Protocol):
    """What the loop trains, which must know how many rows a batch has."""

    rows: int

    def __call__(self, *inputs: Tensor) -> Tensor: ...


class SplitTeam(OwnRows):
    def __init__(
        self,
        grid: Grid,
        rank: int,
        lines: Mapping[str, Line],
        module: TakesRows,
        parts: Parts,
        partial: Mapping[str, Sequence[str]],
        batch_axis: str | None,
    ) -> None:
        self.rank, self.size = rank, grid.size
        self._place = grid.at(rank)
        self._lines, self._module, self.parts = dict(lines), module, parts
        self._partial = partial
        self._rows: Line | None = self._lines[batch_axis] if batch_axis is not None and grid.mesh[batch_axis] > 1 else None
        self._all = self._lines.get(ALL)

    @property
    def part(self) -> tuple[int, int]:
        return (self._rows.rank, self._rows.size) if self._rows is not None else (0, 1)

    def seed(self, seed: int) -> int:
        """The same for all: who has the same numbers draws the same."""
        return seed

    @property
    def waited(self) -> float:
        return WAITED.seconds

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> SplitOptimizer:
        return SplitOptimizer(recipe, params, self)

    def expect(self, rows: int) -> None:
        self._module.rows = rows

    def before_backward(self, *, last: bool) -> None:
        """Nothing is sent before all gradients are there."""

    def sum(self, own: Sequence[float]) -> list[float]:
        if self._rows is None:
            return list(own)
        return [float(one) for one in self._rows.sum(torch.tensor(list(own), dtype=torch.float64))]

    def over_tensors(self, own: Sequence[Sequence[float]]) -> list[float]:
        """A tensor that one worker has whole adds what it adds in one process, to the bit; those that are split, the sum of their parts."""
        rows = torch.tensor(own, dtype=torch.float64)
        return sums_of_columns((self._all.sum(rows) if self._all is not None else rows).tolist())

    def gather(self, own: bytes) -> list[bytes]:
        if self._all is None:
            return [own]
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        sizes = self._all.gather(torch.tensor([len(own)]), [1] * self.size)
        found = self._all.gather(mine, [int(size[0]) for size in sizes])
        return [one.numpy().tobytes() for one in found] if not self.rank else []

    @property
    def counts(self) -> bool:
        return True

    def whole(self, name: str, tensor: Tensor) -> Tensor | Later:
        """Of all workers' parts. `name`: of one of the model's tensors, or of what the optimizer remembers of it."""
        named = tensor_named(name)
        if of_count(name) or not self.parts.splits(named):
            return tensor
        return Later(self.parts.shape(named), tensor.dtype, lambda: self.parts.whole(named, tensor))

    def holds(self, name: str) -> bool:  # noqa: ARG002
        return True

    def answers_for(self, name: str) -> bool:
        """The first of those with the same part: of a tensor that an axis does not split, the one at its beginning."""
        split = self.parts.axes(name)
        return all(not place for axis, place in self._place.items() if axis not in split and axis != LANES)

    def own(self, name: str, tensor: Tensor) -> Tensor:
        return tensor if of_count(name) else self.parts.own(tensor_named(name), tensor)

    def learn(self, learner: Learner, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor | None, float]:
        if len(targets):
            return learner.learn(inputs, targets, share)
        torch.autograd.backward(
            self._module(*inputs).sum() * 0.0
        )  # others need what this worker has of the model, also for rows of theirs alone
        return None, 0.0

    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        """They are the same everywhere: norms have the statistics of all."""

    # A step

    def add_up(self, grads: Mapping[str, Tensor]) -> None:
        """Gradients of which each worker has a part, in place: in buckets, in an order that is the same for all."""
        by_axes: dict[tuple[str, ...], list[Tensor]] = {}
        for name, grad in grads.items():
            if axes := tuple(self._partial.get(name, ())):
                by_axes.setdefault(axes, []).append(grad)
        for axes, tensors in sorted(by_axes.items()):
            for bucket in _buckets(tensors):
                flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
                for axis in axes:
                    flat = self._lines[axis].sum(flat)
                for tensor, added in zip(bucket, torch.split(flat, [tensor.numel() for tensor in bucket]), strict=True):
                    tensor.copy_(added.view(tensor.shape))

    def norm(self, grads: Mapping[str, Tensor]) -> float:
        """Of all gradients, each number counted once."""
        squares = sum(float(grad.double().square().sum()) / self.copies(name) for name, grad in grads.items())
        total = torch.tensor([squares], dtype=torch.float64)
        return math.sqrt(float(self._all.sum(total) if self._all is not None else total))

    def norms(self, name: str, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Of two tensors that are laid out as one of the model's is, of which this worker has parts."""
        axes = self.parts.axes(name)
        if not axes:
            return norms_alone(one, one, other)
        squares = torch.stack([tensor.double().square().sum() for tensor in (one, other)])
        for axis in axes:
            squares = self._lines[axis].sum(squares)
        first, second = squares.sqrt().to(one.dtype)
        return first, second

    def copies(self, name: str) -> int:
        """How many workers have the same part of a tensor."""
        return self.parts.copies(name)

    def tell(self, loss: float, wish: int, sent: int) -> tuple[float, int, int]:
        """The loss of all rows, what the first worker wishes, and the bytes that all have sent."""
        (total,) = self.sum([loss])
        if self._all is None:
            return total, wish, sent
        wished, every = self._all.sum(torch.tensor([wish if not self.rank else NOTHING, sent])).tolist()
        return total, wished, every

    @property
    def sent(self) -> int:
        return sum(line.sent for line in self._lines.values())


class SplitOptimizer:
    def __init__(self, recipe: Recipe, params: Mapping[str, nn.Parameter], team: SplitTeam) -> None:
        self.params = dict(params)
        self._team, self._clip = team, recipe.clip
        names = {id(p): name for name, p in self.params.items()}
        self._optimizer = Optimizer(recipe, self.params, lambda param, *two: team.norms(names[id(param)], *two))
        self.dense_bytes: int | None = 0  # there is no other way to send it than the one it is sent
        self._sent = team.sent

    def _grads(self) -> dict[str, Tensor]:
        return {name: p.grad for name, p in self.params.items() if p.grad is not None}

    def gradients(self) -> list[Tensor]:
        return self._optimizer.gradients()

    @torch.no_grad()
    def step(self, lr: float, *, loss: float = 0.0, epoch: float = 0.0, wish: int = NOTHING, busy: float | None = None) -> Step:  # noqa: ARG002
        grads = self._grads()
        self._team.add_up(grads)
        if self._clip is not None:
            norm = self._team.norm(grads)
            if not math.isfinite(norm):
                raise LaminarError("L601", f"the norm of the gradients is {norm}", hint="lower lr in train")
            if norm > self._clip:
                for grad in grads.values():
                    grad.mul_(self._clip / (norm + 1e-6))
        if self._optimizer.params:  # a worker may have nothing to learn
            self._optimizer.step(lr)
        before, self._sent = self._sent, self._team.sent
        total, wished, self.dense_bytes = self._team.tell(loss, wish, self._sent - before)
        return Step(total, wished, self.dense_bytes)

    def zero_grad(self) -> None:
        self._optimizer.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        return self._optimizer.tensors()

    def load(self, saved: Mapping[str, Tensor]) -> None:
        self._optimizer.load({name: self._team.own(name, tensor) for name, tensor in saved.items()})

    def residual(self) -> dict[str, Tensor]:
        return {}

    def load_residual(self, members: Sequence[Mapping[str, Tensor]]) -> None:
        """Nothing is kept back."""

    def astray(self) -> list[int]:
        """Members have parts of one model: what is wrong in one came from another before there was a gradient."""
        return []


def tensor_named(name: str) -> str:
    """The model's tensor that one of the optimizer's belongs to: `mean/features.0.weight`."""
    slot, _, rest = name.partition("/")
    return rest if slot in SLOTS else name


def of_count(name: str) -> bool:
    """Is it the optimizer's count of steps, which is a single number?"""
    return name.startswith("count/")


def _buckets(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    found: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        if found[-1] and (size + tensor.nbytes > BUCKET or tensor.dtype != found[-1][0].dtype):
            found.append([])
            size = 0
        found[-1].append(tensor)
        size += tensor.nbytes
    return found
