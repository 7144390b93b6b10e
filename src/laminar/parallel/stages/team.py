"""The team of a pipeline or of branches: every lane has the tensors of its own stages, and each may be a mesh of workers.

A tensor that several lanes need (an embedding that is the last product, too) is with all of them: they add its gradients up and make the
same step. Checkpoints get each tensor from the first lane that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, final

import torch
from torch import Tensor, nn

from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Line
from laminar.parallel.split.team import SplitOptimizer, SplitTeam, of_count, tensor_named
from laminar.parallel.split.whole import Parts
from laminar.parallel.stages.holders import Holders
from laminar.parallel.stages.module import StagedModule
from laminar.train.optimizers import refuse_other_state, slots_of
from laminar.train.recipe import Recipe
from laminar.train.splitting import LANES
from laminar.train.team import Learner
from laminar.train.tensor_file import Later


@final
class StagedTeam(SplitTeam):
    def __init__(
        self,
        grid: Grid,
        rank: int,
        lines: Mapping[str, Line],
        module: StagedModule,
        parts: Parts,
        partial: Mapping[str, Sequence[str]],
        batch_axis: str | None,
        holders: Holders,
    ) -> None:
        super().__init__(grid, rank, lines, module, parts, partial, batch_axis)
        self._staged, self._holders = module, holders
        self._lane = grid.at(rank)[LANES]
        self._lanes = self._lines[LANES]
        self._keeps = not any(place for axis, place in grid.at(rank).items() if axis != LANES)  # is it on one line with worker 0?

    @property
    def counts(self) -> bool:
        return self._staged.has_output

    def learn(self, learner: Learner, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor | None, float]:
        return self._staged.learn(inputs, targets, learner.loss_of, share)

    def spans(self) -> dict[str, Any]:
        """What this worker did in the last whole step, and when."""
        return {"rank": self.rank, "lane": self._lane, "spans": self._staged.spans}

    def sum(self, own: Sequence[float]) -> list[float]:
        """Of lanes, only the one that has the outputs has something to add."""
        found = torch.tensor(super().sum(own), dtype=torch.float64)
        return [float(one) for one in self._lanes.sum(found)]

    @property
    def shared(self) -> tuple[str, ...]:
        """Tensors that are learned and that several lanes have."""
        return self._holders.shared

    def holds(self, name: str) -> bool:
        return self._lane in self._holders.of(name)

    def answers_for(self, name: str) -> bool:
        return self._lane == self._holders.of(name)[0] and super().answers_for(name)

    def whole(self, name: str, tensor: Tensor) -> Tensor | Later:
        named = tensor_named(name)
        shape, dtype = self._holders.kind(named)
        if of_count(name):
            shape, dtype = (), torch.float32
        return Later(shape, dtype, lambda: self._to_first(name, tensor, shape, dtype))

    def _to_first(self, name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """All workers come here at once, tensor by tensor."""
        named = tensor_named(name)
        owner = self._holders.of(named)[0]
        if owner == self._lane and not of_count(name):
            tensor = self.parts.whole(named, tensor)
        if owner == 0 or not self._keeps:
            return tensor
        out = {0: tensor} if self._lane == owner else {}
        into = {owner: prod(shape)} if self._lane == 0 else {}
        found = self._lanes.swap(out, into, prod(shape), dtype)
        return found[owner].view(shape) if into else tensor

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> SplitOptimizer:
        return StagedOptimizer(recipe, params, self)

    def add_up(self, grads: Mapping[str, Tensor]) -> None:
        super().add_up(grads)
        for name in self.shared:
            lanes = self._holders.of(name)
            own = grads.get(name)
            others = [lane for lane in lanes if lane != self._lane] if own is not None else []
            count = self._holders.own_numbers(name)
            found = self._lanes.swap({lane: own for lane in others if own is not None}, dict.fromkeys(others, count), count, torch.float32)
            if own is not None:
                added = [own if lane == self._lane else found[lane].view(own.shape) for lane in lanes]
                own.copy_(torch.stack(added).sum(0))

    def copies(self, name: str) -> int:
        return super().copies(name) * len(self._holders.of(name))

    @property
    def sent(self) -> int:
        return super().sent + self._staged.sent


@final
class StagedOptimizer(SplitOptimizer):
    """Makes the step of the own tensors, and knows the names of all."""

    def __init__(self, recipe: Recipe, params: Mapping[str, nn.Parameter], team: StagedTeam) -> None:
        super().__init__(recipe, {name: p for name, p in params.items() if team.holds(name)}, team)
        self._slots, self._held = slots_of(recipe), dict(self.params)
        self._shared = [name for name in team.shared if name in self._held]
        self.params = dict(params)

    def _grads(self) -> dict[str, Tensor]:
        for name in self._shared:  # another lane may have some, where this one has none
            if self._held[name].grad is None:
                self._held[name].grad = torch.zeros_like(self._held[name])
        return {name: p.grad for name, p in self._held.items() if p.grad is not None}

    def tensors(self) -> dict[str, Tensor]:
        own = super().tensors()
        names = [f"{slot}/{name}" for slot in self._slots for name in self.params]
        return {name: own[name] if name in own else torch.empty(0) for name in names}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        refuse_other_state(self.tensors(), saved)
        own = super().tensors()
        super().load({name: saved[name] for name in own})
