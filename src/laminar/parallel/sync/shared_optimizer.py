"""The shared step: every worker writes its gradient; each sums one part of it over all, and makes that part's step; all go on.

    write own gradient - meet - sum own part over the ranks, in their order - update own part of the parameters - meet

There is one copy of the parameters and of the optimizer's state, so nothing is sent back, and the work of the optimizer is shared out.
Parts are cut between numbers for rules that treat every number by itself, and between tensors for those that need a tensor's norm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import LINE, Segment
from laminar.parallel.sync.layout import LOSS, NORM, SUMS, Layout, Piece
from laminar.train.optimizers import refuse_other_state, slots_of, update_rule
from laminar.train.recipe import Recipe

BY_TENSOR: Final = ("lars", "lamb")


@final
class SharedOptimizer:
    def __init__(
        self, recipe: Recipe, params: Mapping[str, nn.Parameter], layout: Layout, segment: Segment, meeting: Meeting, *, first: bool
    ) -> None:
        """`first`: the parameters' values are not in the shared memory yet; member 0's go there."""
        self.params = dict(params)
        self._list = list(self.params.values())
        self._meeting, self._clip = meeting, recipe.clip
        rank, size = meeting.rank, meeting.size
        row = segment.floats(layout.param_bytes, layout.numbers)
        self._views = [_view(row, piece) for piece in layout.params]
        if first and rank == 0:
            for view, parameter in zip(self._views, self._list, strict=True):
                view.copy_(parameter.data)
        for view, parameter in zip(self._views, self._list, strict=True):
            parameter.data = view
        self._slots = slots_of(recipe)
        self._state = {s: segment.floats(layout.slot_bytes(i), layout.numbers) for i, s in enumerate(layout.slots)}
        self._pieces = layout.params
        self._grads = [segment.floats(layout.grad_bytes(r), layout.numbers) for r in range(size)]
        self._own_grads = [_view(self._grads[rank], piece) for piece in layout.params]
        self._sums = segment.doubles(layout.sums, SUMS * size)
        self.loss = self.total_loss = 0.0  # of the step: what this member gives, and what all gave together
        self._parts = _parts(layout, size, by_tensor=recipe.optimizer in BY_TENSOR)[rank]
        own = [row[start:stop].view(shape) for start, stop, shape in self._parts]
        self._params_of_part = own
        self._counts = [torch.zeros(()) for _ in own]
        self._state_of_part = [
            self._counts if slot == "count" else [self._state[slot][start:stop].view(shape) for start, stop, shape in self._parts]
            for slot in self._slots
        ]
        self._grad_of_part = [[g[start:stop].view(shape) for start, stop, shape in self._parts] for g in self._grads]
        self._update = update_rule(recipe, own) if own else None

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self._list if p.grad is not None]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        grads = [p.grad for p in self._list]
        if None in grads:
            for view, grad in zip(self._own_grads, grads, strict=True):
                view.zero_() if grad is None else view.copy_(grad)
        else:
            torch._foreach_copy_(self._own_grads, grads)  # type: ignore[arg-type]
        self._sums[SUMS * self._meeting.rank + LOSS] = self.loss
        self._meeting.meet()
        self.total_loss = sum(self._sums[LOSS::SUMS])
        total = self._grad_of_part[0]
        for more in self._grad_of_part[1:]:
            torch._foreach_add_(total, more)
        if self._clip is not None:
            self._clipped(total, self._clip)
        if self._update is not None:
            self._update(self._params_of_part, total, self._state_of_part, lr)
        self._meeting.meet()

    def _clipped(self, total: list[Tensor], clip: float) -> None:
        """The norm is that of the whole gradient, as one process would find it."""
        rank = self._meeting.rank
        self._sums[SUMS * rank + NORM] = sum(float(t.double().square().sum()) for t in total)
        self._meeting.meet()
        norm = math.sqrt(sum(self._sums[NORM::SUMS]))
        if not math.isfinite(norm):
            raise LaminarError("L601", f"the norm of the gradients is {norm}", hint="lower lr in train")
        if norm > clip:
            torch._foreach_mul_(total, clip / (norm + 1e-6))

    def zero_grad(self) -> None:
        for p in self._list:
            p.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The state by slot and parameter, as one process would have it."""
        found: dict[str, Tensor] = {}
        for slot in self._slots:
            for name, piece in zip(self.params, self._pieces, strict=True):
                if slot == "count":
                    found[f"{slot}/{name}"] = self._counts[0].clone() if self._counts else torch.zeros(())
                else:
                    found[f"{slot}/{name}"] = _view(self._state[slot], piece)
        return found

    @torch.no_grad()
    def load(self, saved: Mapping[str, Tensor]) -> None:
        own = self.tensors()
        refuse_other_state(own, saved)
        for name, tensor in own.items():
            if name.startswith("count/"):
                for count in self._counts:
                    count.copy_(saved[name])
            elif self._meeting.rank == 0:
                tensor.copy_(saved[name])
        self._meeting.meet()


def _view(row: Tensor, piece: Piece) -> Tensor:
    return row[piece.start : piece.stop].view(piece.shape)


def _parts(layout: Layout, size: int, *, by_tensor: bool) -> list[list[tuple[int, int, tuple[int, ...]]]]:
    """What each rank sums and updates: (start, stop, shape) in the row of parameters."""
    if by_tensor:
        found: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in range(size)]
        load = [0] * size
        for piece in sorted(layout.params, key=lambda p: (-p.count, p.start)):
            least = load.index(min(load))
            load[least] += piece.count
            found[least].append((piece.start, piece.stop, piece.shape))
        return found
    # Numbers in the gaps between tensors are zero and stay so: one piece is one call.
    line = LINE // 4
    lines = layout.numbers // line
    bounds = [line * (lines * r // size) for r in range(size + 1)]
    return [[(a, b, (b - a,))] if b > a else [] for a, b in itertools.pairwise(bounds)]
