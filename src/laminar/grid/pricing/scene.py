"""Scene: desktops, a task and its bytes, as plain numbers; and the pace that comes of them. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.plan.desktops import STEADY, Churn
from laminar.plan.machine import Link


@dataclass(frozen=True)
class Desk:
    """One desktop."""

    step: float  # seconds of one step of training, usually
    task: float  # seconds of a task beside its steps: unpacking, loading, packing
    streak: int = 0  # answers in a row that were compared and good
    threads: int = 1


@dataclass(frozen=True)
class Scene:
    desks: tuple[Desk, ...]
    link: Link  # of each of them
    server: float  # bytes a second of the server's line, each way
    asked: float  # seconds that the server, which writes by one thread, takes for a request for work
    answered: float  # and for an answer
    down: int  # bytes of a version, for one who has the version before
    up: int  # bytes of an answer
    batch: int
    batches: int  # of an epoch
    churn: Churn = STEADY
    spread: float = 0.1  # of the logarithm of a task's time, from task to task
    cores: int | None = None  # that all desks and the server share, where they are one machine


@dataclass
class Pace:
    """Of one seed."""

    seconds: float = 0.0  # virtual ones, of `versions`
    versions: int = 0
    batches: float = 0.0  # that went into them
    answers: int = 0  # that came, those that were compared or too late included
    parts: int = 0  # tasks whose answers went into versions
    computing: float = 0.0  # seconds of all desktops
    present: float = 0.0  # seconds in which they were on
    bytes: float = 0.0
    ages: int = 0  # of all parts together, in versions

    @property
    def per_batch(self) -> float:
        return self.seconds / self.batches
