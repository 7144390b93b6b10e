"""Teams: several processes that train one job together. The loop asks its team; a job without one is trained alone.

Every member runs the same loop over the same batches, each on its own rows of them, and comes to the same decisions because it sees
the same figures: what is summed over the team is the same number everywhere. Member 0 alone writes: events, checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from torch import Tensor, nn

from laminar.core.seeds import derive
from laminar.train.losses import LossOf
from laminar.train.recipe import Recipe
from laminar.train.tensor_file import Later

NOTHING: Final = 0  # what member 0 wishes to be done by all after a step
SAVE: Final = 1
STOP: Final = 2


class Step(NamedTuple):
    """What all members know of a step that was made."""

    loss: float  # the sum over the members
    wish: int  # member 0's
    sent: int  # bytes that went from member to member, of all together; over a network all that went over it, in memory packets alone
    busy: Sequence[float] = ()  # by rank, where all told it


class TeamOptimizer(Protocol):
    """What an Optimizer offers, over the gradients of all members."""

    params: dict[str, nn.Parameter]
    dense_bytes: int | None  # what `sent` would be for a step without compression; None: nothing goes anywhere

    def gradients(self) -> list[Tensor]: ...
    def step(self, lr: float, *, loss: float = 0.0, epoch: float = 0.0, wish: int = NOTHING, busy: float | None = None) -> Step:
        """`epoch`: how many are behind, with fractions. `busy`: seconds that this member has been computing; all tell, or nobody."""
        ...

    def zero_grad(self) -> None: ...
    def tensors(self) -> dict[str, Tensor]: ...
    def load(self, saved: Mapping[str, Tensor]) -> None: ...
    def residual(self) -> dict[str, Tensor]:
        """What compression has kept back of this member's gradients."""
        ...

    def load_residual(self, members: Sequence[Mapping[str, Tensor]]) -> None:
        """What `residual` gave in each member of the team that was saved, which may have had another size."""
        ...

    def astray(self) -> list[int]:
        """Ranks of the members whose gradient of the last step was not finite, as far as one can tell: since then nobody's loss is."""
        ...


class Learner(Protocol):
    """What a process does that trains alone."""

    @property
    def loss_of(self) -> LossOf: ...

    def learn(self, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor, float]:
        """Gradients of so much of the loss of a batch; its outputs and its loss."""
        ...


class Pooled(Protocol):
    """Statistics of whole batches, of which each member has some rows."""

    @property
    def judges(self) -> bool:
        """Are there any also where the model is judged?"""
        ...

    def among(self, ranks: Sequence[int]) -> None:
        """The members that have rows of the batch that is about to go through the model. Told to all."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """In there those members send their rows of it through the model, and back."""
        ...


class Team(Protocol):
    rank: int
    size: int

    @property
    def pooled(self) -> Pooled | None:
        """None: no row needs to know of others, or each member's rows are a batch by themselves."""
        ...

    @property
    def part(self) -> tuple[int, int]:
        """Which part of a batch's rows this member takes, and how many parts there are. Several may take the same."""
        ...

    @property
    def taking(self) -> range:
        """Those parts whose rows this member takes now: its own, as a rule. None: it rests."""
        ...

    @property
    def steady(self) -> int | None:
        """For so many steps from now on it takes those. None: for ever."""
        ...

    @property
    def resting(self) -> int:
        """Members that take no rows now."""
        ...

    @property
    def waited(self) -> float:
        """Seconds that this member has waited for the others, so far."""
        ...

    def seed(self, seed: int) -> int:
        """Of this member's random numbers, for the recipe's."""
        ...

    @property
    def counts(self) -> bool:
        """Does this member have the outputs of its rows, and so their losses?"""
        ...

    def whole(self, name: str, tensor: Tensor) -> Tensor | Later:
        """A tensor of the model, or of the optimizer, of which each member may have a part: put together by all at once, for member 0."""
        ...

    def holds(self, name: str) -> bool:
        """Has it a part of the model's tensor?"""
        ...

    def own(self, name: str, tensor: Tensor) -> Tensor:
        """The part of a whole tensor that this member has."""
        ...

    def learn(self, learner: Learner, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor | None, float]:
        """Gradients of a part of a step, from this member's rows of a batch. Their outputs, where it has them, and their loss."""
        ...

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> TeamOptimizer:
        """Takes the parameters over: from now on all members see the same ones."""
        ...

    def sum(self, own: Sequence[float]) -> list[float]:
        """Element by element over the team; everybody waits for everybody."""
        ...

    def answers_for(self, name: str) -> bool:
        """Does this member count what it has of the model's tensor, where something is added up over all tensors? Of those that have the
        same part of it, one does."""
        ...

    def over_tensors(self, own: Sequence[Sequence[float]]) -> list[float]:
        """Sums, column by column, of a row of numbers for each tensor of the model; of what other members answer for, `own` has zeros.
        Everybody waits for everybody, and gets the same numbers."""
        ...

    def gather(self, own: bytes) -> list[bytes]:
        """For member 0: what each has given, by rank. The others get an empty list."""
        ...

    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        """Running statistics become those of the whole team: real numbers their mean, others member 0's."""
        ...

    def expect(self, rows: int) -> None:
        """A batch of so many rows, of all members together, is about to go through the model."""
        ...

    def before_backward(self, *, last: bool) -> None:
        """Gradients are about to be computed; after the `last` time of a step they are complete, and may be sent while others follow."""
        ...


class OwnRows:
    """What is the same in every team whose members always take rows of their own."""

    @property
    def part(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def pooled(self) -> Pooled | None:
        return None

    @property
    def taking(self) -> range:
        return range(self.part[0], self.part[0] + 1)

    @property
    def steady(self) -> int | None:
        return None

    @property
    def resting(self) -> int:
        return 0


class WholeModel(OwnRows):
    """What is the same in every team whose members all have the whole model."""

    rank: int
    size: int

    @property
    def part(self) -> tuple[int, int]:
        return self.rank, self.size

    def seed(self, seed: int) -> int:
        return derive(seed, "member", self.rank) if self.rank else seed

    @property
    def counts(self) -> bool:
        return True

    def whole(self, name: str, tensor: Tensor) -> Tensor | Later:  # noqa: ARG002
        return tensor

    def holds(self, name: str) -> bool:  # noqa: ARG002
        return True

    def sum(self, own: Sequence[float]) -> list[float]:
        raise NotImplementedError

    def answers_for(self, name: str) -> bool:  # noqa: ARG002
        return not self.rank

    def over_tensors(self, own: Sequence[Sequence[float]]) -> list[float]:
        return self.sum(sums_of_columns(own))  # all but one add zeros

    def learn(self, learner: Learner, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor | None, float]:
        if not len(targets):  # some have none of a short batch
            return None, 0.0
        if self.pooled is None:
            return learner.learn(inputs, targets, share)
        with self.pooled.together():
            return learner.learn(inputs, targets, share)

    def own(self, name: str, tensor: Tensor) -> Tensor:  # noqa: ARG002
        return tensor

    def expect(self, rows: int) -> None:
        """Whoever has the whole model need not know of others' rows."""


def sums_of_columns(rows: Sequence[Sequence[float]]) -> list[float]:
    """Rounded once, so that no order of the rows is better than another."""
    return [math.fsum(column) for column in zip(*rows, strict=True)]


def blamed(ranks: Sequence[int]) -> str:
    """For a message of something that is not finite: where it came from."""
    who = " and ".join(f"worker {rank}" for rank in ranks)
    return f" ({who} gave a gradient that is not finite)" if ranks else ""


def own_rows(rows: int, rank: int, size: int) -> slice[int, int]:
    """The rows of a batch that member `rank` takes: all of them once, in order, as evenly as can be."""
    return slice(rows * rank // size, rows * (rank + 1) // size)


def rows_of_short(rows: int, rank: int, size: int) -> slice[int, int]:
    """The same of a short batch: fewer members take two rows or more each, since batch statistics of one row do not exist."""
    taking = min(size, max(1, rows // 2))
    return own_rows(rows, rank, taking) if rank < taking else slice(rows, rows)


def rows_of_member(rows: int, rank: int, size: int, batch: int) -> slice[int, int]:
    """Of a batch, if a whole one has `batch` rows, in a team whose members all have the whole model."""
    return rows_of_short(rows, rank, size) if rows < min(batch, 2 * size) else own_rows(rows, rank, size)
