"""Rules: the settings of the aggregator.

    sync       rounds, quorum 1, no deadline
    quorum     rounds that close at a share of the workers; the rest is late    (backup workers: Chen et al. 2016, arXiv 1604.00981)
    downpour   arrival, buffer 1: each gradient is a step, weighed by its age   (Dean et al., NIPS 2012; Zhang et al. 2015)
               own: workers make their steps themselves meanwhile
               among: steps of the workers' own optimizers; together they are a mean (Liu et al. 2024, arXiv 2401.09135)
    buffered   arrival, buffer K: a step as soon as K gradients are there       (FedBuff: Nguyen et al. 2022, arXiv 2106.06639)

Every strategy, and the grid, is a choice of these.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

STEEPEST: Final = 8.0  # of ageing: beyond it the weight of an old gradient is nothing, and then not even a number

_FOREIGN: Final[dict[str, dict[str, Any]]] = {
    "rounds": {"buffer": 1, "among": None, "own": "ages"},
    "arrival": {"quorum": 1.0, "answers": None, "minimum": 1, "start": 1, "late": "drop"},
}


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["rounds", "arrival"]
    quorum: float = 1.0  # rounds: the share of answers that closes one
    answers: int | None = None  # rounds: a share of so many answers, whoever gives them; None: one of each worker that was there
    minimum: int = 1  # rounds: a step is made of so many gradients at least, also at the deadline
    start: int = 1  # rounds: the first one opens when so many workers have joined
    late: Literal["drop", "age"] = "drop"  # rounds: a gradient of a round that is closed
    buffer: int = 1  # arrival: gradients that make a step
    among: int | None = None  # arrival: each is one of so many, or of as many as there are workers, and not old before they make it so
    own: Literal["ages", "ahead", "known"] = "ages"  # arrival: does what a worker sends make its later gradients old (own.py)?
    deadline: float | None = None  # seconds that a round, or the first gradient of a buffer, waits at most
    ageing: float = 0.5  # weight 1 / (1 + staleness) ** ageing; 0: age does not count
    max_staleness: int | None = None  # in versions; what is older is dropped, and its worker told to fetch

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:
            raise ValueError(f"quorum is {self.quorum}, but must be a share of the workers: above 0 and at most 1")
        for name in ("answers", "minimum", "start", "buffer", "among"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, but must be 1 or more")
        if self.deadline is not None and not (self.deadline > 0 and math.isfinite(self.deadline)):
            raise ValueError(f"deadline is {self.deadline}, but must be seconds above 0")
        if not 0 <= self.ageing <= STEEPEST:
            raise ValueError(f"ageing is {self.ageing}, but must be from 0 to {STEEPEST:g}")
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError(f"max_staleness is {self.max_staleness}, but must be 0 or more versions")
        if self.answers is not None and self.deadline is None:
            raise ValueError(f"answers is {self.answers} without a deadline, but nobody in particular is waited for: set deadline")
        if self.answers is not None and self.minimum > self.answers:
            raise ValueError(f"minimum is {self.minimum}, but a round has {self.answers} answers only")
        for name, default in _FOREIGN[self.kind].items():
            if getattr(self, name) != default:
                raise ValueError(f'{name} is given with kind = "{self.kind}", which has no use for it; leave it out')

    def wanted(self, size: int) -> int:
        """Answers that close a round of `size`. The smallest whole number that is the share: 0.1 of 30 is 3, though floats say more."""
        return max(1, math.ceil(self.quorum * size - 1e-9))


def sync(*, start: int = 1) -> Rules:
    """Every worker, however long it takes. One that dies is no longer waited for."""
    return Rules(kind="rounds", start=start)
