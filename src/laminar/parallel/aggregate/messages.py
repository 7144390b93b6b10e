"""What goes into the aggregator and what comes out of it.

Every event carries the time, in seconds on any clock. One that goes back delays nothing: time is counted on from there. One that leaps
ahead ends a round early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# Events


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker is here, or here again."""

    worker: str
    now: float


@dataclass(frozen=True, slots=True)
class Left:
    """A worker said good-bye, died, or was silent for too long. What it sent stays; what still arrives of it counts."""

    worker: str
    now: float


@dataclass(frozen=True, slots=True)
class Gradient:
    """Worker and sequence number are its identity: the same two again are the same gradient sent again.

    `base`: the version of the parameters it was computed at. `round`: the one it answers; None where there are none. `work`: what it
    counts for against others of the same age, such as its samples; decided by who gave out the work.
    """

    worker: str
    sequence: int
    base: int
    payload: str
    now: float
    round: int | None = None
    work: float = 1.0

    def __post_init__(self) -> None:
        if self.sequence < 0 or not (self.work > 0 and math.isfinite(self.work)):
            raise ValueError(
                f"gradient {self.sequence} of {self.worker} with work {self.work}: a number from 0 and work above 0 are expected"
            )


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Due at `Aggregator.wakes`, and harmless at any other time."""

    now: float


@dataclass(frozen=True, slots=True)
class Finish:
    """Training ends: what is held becomes the last step, and nothing is taken any more."""

    now: float


Event = Joined | Left | Gradient | Tick | Finish

# Actions

Reason = Literal[
    "late",  # its round is closed, and the rules drop such
    "stale",  # older than max_staleness
    "future",  # of a version or round that does not exist (yet, or any more after a restart)
    "answered",  # its worker answered this round before, with another gradient
    "unknown",  # its worker never joined
    "finished",  # it came after the end
    "too few",  # held at the end, and fewer than the minimum
]


@dataclass(frozen=True, slots=True)
class Part:
    payload: str
    worker: str
    weight: float
    staleness: int


@dataclass(frozen=True, slots=True)
class Apply:
    """One step: the sum of weight x payload over the parts, which then are done with. The parameters become `version`.

    Parts are ordered by worker and number, not by arrival, so that the same gradients give the same bits.
    """

    parts: tuple[Part, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the payload: it will be named in one Apply or one Drop."""

    payload: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the payload."""

    payload: str
    worker: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Repeat:
    """This gradient was here before: acknowledge it once more, and leave the first copy as it is."""

    worker: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a worker that joins must know. It numbers its gradients from `sequence` on. `round`: the one that is open."""

    worker: str
    version: int
    sequence: int
    round: int | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """What this worker computes on is too old (or too new): it is to fetch."""

    worker: str
    version: int


@dataclass(frozen=True, slots=True)
class OpenRound:
    """`deadline`: when it closes at the latest, on the clock of the events. `wanted`: answers that close it, as things are now."""

    round: int
    version: int
    deadline: float | None
    wanted: int


@dataclass(frozen=True, slots=True)
class CloseRound:
    """`answered`, `missing`: workers. `late`: those whose gradients of earlier rounds went into this step. `version`: after it.

    `stepped` is False where fewer than the minimum came by the deadline: those are held for the next round, and answers to this one
    still count then, for the parameters have not changed.
    """

    round: int
    version: int
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    late: tuple[str, ...]
    why: Literal["quorum", "deadline", "end"]
    stepped: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """There will be no step unless somebody joins. Said once, when it becomes so."""

    why: Literal["no workers", "too few workers"]
    workers: int
    wanted: int


Action = Apply | Hold | Drop | Repeat | Welcome | Fetch | OpenRound | CloseRound | Stall
