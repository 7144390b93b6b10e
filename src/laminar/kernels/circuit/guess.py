"""When a guess pays: with a worker that has nothing else to do, if `p * T > (1 - p) * waste + commit`.

What is wasted on an idle core is little: the time by which something that becomes ready meanwhile has to wait. Chances and times are those
seen so far; a condition of which nothing is known is even.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.circuit.estimate import Estimates
from laminar.kernels.circuit.function import Function
from laminar.kernels.language.tree import Variable

COMMIT: Final = 50e-6  # seconds: a task put away and taken up again by Python
WASTE: Final = 0.3  # of the time of a wrong guess: others that wait for the core meanwhile
SHORTEST: Final = 150e-6  # seconds: what is shorter costs more to guess than it can gain
WEIGHT: Final = 0.25  # of what was seen last
UNSURE: Final = 16.0  # times that a function may be faster or slower than others of its kernel by the count of its operators
REMEMBERED: Final = 64  # calls with other values


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
    """Of a kernel's functions, over all its runs. Keys are numbers of functions. Times are told by the operators that are counted with a
    call's values: `pace` is how many seconds a second of these takes in this kernel, `paces` in its functions. `warm`: there was a run
    before, in which functions were compiled. `estimates`: by the values of a call."""

    chances: dict[int, float] = field(default_factory=dict)
    paces: dict[int, float] = field(default_factory=dict)
    pace: float = 1.0
    measured: bool = False  # is `pace` of a whole call?
    warm: bool = False
    spent: float = 0.0  # seconds of tasks in this run
    counted: float = 0.0
    estimates: dict[tuple[float, ...], Estimates] = field(default_factory=dict)

    def estimate(self, values: Mapping[Variable, float]) -> Estimates:
        key = tuple(values.values())
        if key not in self.estimates:
            if len(self.estimates) >= REMEMBERED:
                self.estimates.clear()
            self.estimates[key] = Estimates(values)
        return self.estimates[key]

    def call_took(self, seconds: float, counted: float) -> None:
        """A call as a whole."""
        if counted > 0:
            self.pace, self.measured = seconds / counted, True

    def ended(self) -> None:
        """A run as a circuit: its tasks are the whole call, if nobody measured that."""
        if self.counted > 0 and not self.measured:
            self.pace = self.spent / self.counted
        self.warm, self.spent, self.counted = True, 0.0, 0.0

    def saw(self, function: Function, wanted: bool) -> None:
        before = self.chances.get(function.number, 0.5)
        self.chances[function.number] = before + WEIGHT * (float(wanted) - before)

    def took(self, function: Function, seconds: float, counted: float) -> None:
        """A task. What it waited for Python's lock or a core is in it, so that one says little, and a short one nothing."""
        if counted <= 0 or not self.warm or seconds < SHORTEST:
            return
        self.spent += seconds
        self.counted += counted
        now = min(max(seconds / counted, self.pace / UNSURE), self.pace * UNSURE)
        before = self.paces.get(function.number, now)
        self.paces[function.number] = before + WEIGHT * (now - before)

    def chance(self, function: Function) -> float:
        return self.chances.get(function.number, 0.5)

    def takes(self, function: Function, counted: float) -> float:
        """Seconds of a task of which so many were counted."""
        return self.paces.get(function.number, self.pace) * counted

    def worth(self, function: Function, counted: float) -> bool:
        takes = self.takes(function, counted)
        chance = self.chance(function)
        return takes >= SHORTEST and chance * takes > (1 - chance) * WASTE * takes + COMMIT
