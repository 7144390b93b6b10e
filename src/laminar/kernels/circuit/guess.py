"""When a guess pays: with a worker that has nothing else to do, if `p * T > (1 - p) * waste + commit`.

What is wasted on an idle core is little: the time by which something that becomes ready meanwhile has to wait. Chances and times are those
seen so far; a condition of which nothing is known is even.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.circuit.function import Function

COMMIT: Final = 50e-6  # seconds: a task put away and taken up again by Python
WASTE: Final = 0.3  # of the time of a wrong guess: others that wait for the core meanwhile
SHORTEST: Final = 150e-6  # seconds: what is shorter costs more to guess than it can gain
WEIGHT: Final = 0.25  # of what was seen last


@dataclass
class Account:
    """What guesses brought: `gained` and `wasted` are seconds of work done before it was asked for, and for nothing. `runs`: of a circuit,
    that this is the account of."""

    runs: int = 0
    started: int = 0
    committed: int = 0
    thrown_away: int = 0
    gained: float = 0.0
    wasted: float = 0.0

    def add(self, other: Account) -> None:
        self.runs += other.runs
        self.started += other.started
        self.committed += other.committed
        self.thrown_away += other.thrown_away
        self.gained += other.gained
        self.wasted += other.wasted

    def text(self) -> str:
        what = f"{self.started} started, {self.committed} taken, {self.thrown_away} thrown away"
        return f"{what}; {self.gained * 1e3:.1f} ms of work won, {self.wasted * 1e3:.1f} ms for nothing"

    def to_json(self) -> dict[str, float]:
        return {
            "runs": self.runs,
            "started": self.started,
            "committed": self.committed,
            "thrown_away": self.thrown_away,
            "gained_seconds": self.gained,
            "wasted_seconds": self.wasted,
        }


@dataclass
class Odds:
    """Of a kernel's functions, over all its runs. Keys are numbers of functions. `account`: of all guesses."""

    chances: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # of one instance
    account: Account = field(default_factory=Account)

    def saw(self, function: Function, wanted: bool) -> None:
        before = self.chances.get(function.number, 0.5)
        self.chances[function.number] = before + WEIGHT * (float(wanted) - before)

    def took(self, function: Function, seconds: float, instances: int) -> None:
        before = self.seconds.get(function.number, seconds / instances)
        self.seconds[function.number] = before + WEIGHT * (seconds / instances - before)

    def chance(self, function: Function) -> float:
        return self.chances.get(function.number, 0.5)

    def takes(self, function: Function, instances: int) -> float:
        """Seconds, as seen so far or by the count of its operators."""
        return self.seconds.get(function.number, function.cost * 1e-9) * instances

    def worth(self, function: Function, instances: int) -> bool:
        takes = self.takes(function, instances)
        chance = self.chance(function)
        return takes >= SHORTEST and chance * takes > (1 - chance) * WASTE * takes + COMMIT
