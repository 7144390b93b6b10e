"""Teams: several processes that train one job together. The loop asks its team; a job without one is trained alone.

Every member runs the same loop over the same batches, each on its own rows of them, and comes to the same decisions because it sees
the same figures: what is summed over the team is the same number everywhere. Member 0 alone writes: events, checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor, nn

from laminar.train.recipe import Recipe


class TeamOptimizer(Protocol):
    """What an Optimizer offers, over the gradients of all members."""

    params: dict[str, nn.Parameter]
    loss: float  # of the step that is to be made: this member's
    total_loss: float  # of the step that was made: the whole team's

    def gradients(self) -> list[Tensor]: ...
    def step(self, lr: float) -> None: ...
    def zero_grad(self) -> None: ...
    def tensors(self) -> dict[str, Tensor]: ...
    def load(self, saved: Mapping[str, Tensor]) -> None: ...


class Team(Protocol):
    rank: int
    size: int

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> TeamOptimizer:
        """Takes the parameters over: from now on all members see the same ones."""
        ...

    def sum(self, own: Sequence[float]) -> list[float]:
        """Element by element over the team; everybody waits for everybody."""
        ...

    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        """Running statistics become those of the whole team: real numbers their mean, others member 0's."""
        ...

    def stop_after(self, step: int) -> None:
        """By member 0, before that step is made: all stop after it."""
        ...

    def stops_after(self, step: int) -> bool: ...

    @property
    def pids(self) -> list[int]: ...


def own_rows(rows: int, rank: int, size: int) -> slice:
    """The rows of a batch that member `rank` takes: all of them once, in order, as evenly as can be."""
    return slice(rows * rank // size, rows * (rank + 1) // size)
