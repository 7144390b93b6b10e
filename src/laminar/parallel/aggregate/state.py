"""State: all that an aggregator remembers, as plain values that become JSON; and the figures of a run."""

from __future__ import annotations

import msgspec

from laminar.parallel.aggregate.own import Own
from laminar.parallel.aggregate.seen import Seen


class Statistics(msgspec.Struct):
    """Counts since the beginning of the run, restarts included."""

    received: int = 0  # gradients, repeated ones included
    repeated: int = 0
    accepted: int = 0
    applied: int = 0
    steps: int = 0
    late: int = 0  # of a closed round, dropped or aged
    dropped: dict[str, int] = {}  # by reason
    staleness: dict[int, int] = {}  # how many accepted gradients were how old, in versions
    rounds: int = 0  # closed
    stepless: int = 0  # of these, without a step
    by_deadline: int = 0  # of these, closed by it
    round_seconds: float = 0.0  # in which a round was open

    @property
    def rounds_per_second(self) -> float:
        return self.rounds / self.round_seconds if self.round_seconds > 0 else 0.0

    @property
    def mean_staleness(self) -> float:
        return sum(age * count for age, count in self.staleness.items()) / max(1, sum(self.staleness.values()))


class Held(msgspec.Struct, frozen=True):
    worker: str
    sequence: int
    payload: str
    work: float
    staleness: int  # does not change while it is held: every step takes all that is held
    late: bool


class State(msgspec.Struct):
    version: int = 0
    held: list[Held] = []
    seen: dict[str, Seen] = {}  # of every worker that ever joined
    own: dict[str, Own] = {}  # where the rules say that workers know it
    present: dict[str, None] = {}
    # rounds
    round: int = -1  # the open one, or the last that was
    open: bool = False
    since: int = 0  # the first round at the present version: answers from here on are not late
    awaited: dict[str, None] = {}
    answered: dict[str, None] = {}
    answers: int = 0  # as many as answered, or more where a worker may give several
    opened: float = 0.0
    # time, on a clock that never goes back: that of the events plus `skew`
    clock: float | None = None
    skew: float = 0.0
    ends: float | None = None  # of the open round, or of what is held
    granted: float = 0.0  # seconds of it beside those of the rules
    stalled: str = ""
    finished: bool = False
    statistics: Statistics = msgspec.field(default_factory=Statistics)
