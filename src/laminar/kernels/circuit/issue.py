"""Tasks of a circuit for one chunk of instances, in the order of the program: who takes which slot from whom.

Each time a variable is set there is a new slot, so that nobody waits for those that only read the old one. Arrays stay where they are: who
changes one comes after all that used it, unless it is proved that they use other elements. Rounds of a loop are issued some ahead of
the last condition that is known; those of a loop that counts one by one where each is long, else several as one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, Cycle, Fork, Series, Step
from laminar.kernels.circuit.estimate import Estimates
from laminar.kernels.circuit.footprints import ALL, Used
from laminar.kernels.circuit.function import TEST, Function
from laminar.kernels.circuit.schedule import NONE, Chunk, Guard, Schedule, Slot, Task
from laminar.kernels.compile.statements import MOST_ROUNDS
from laminar.kernels.language.tree import Object, Variable

Apart = Callable[[Function, Function, Object], bool]
"""Whether two functions of one instance are proved to use other elements of an array, whichever of their tasks run."""
GRAIN: Final = 600e-6  # seconds of rounds that are a task: to make one costs Python some hundreds of microseconds
NESTED: Final = 4  # times this, where rounds of a loop around are tasks already
PARTS: Final = 8  # of a loop's rounds for each thread
AHEAD: Final = 2  # rounds of a loop for each thread that are issued before their condition is known


@dataclass(frozen=True)
class User:
    """A task that uses an array; `done` is filled when it was executed."""

    function: Function
    used: Used
    done: Slot


@dataclass
class Where:
    """How far the program was issued: slots of variables, and who used which array."""

    versions: dict[Variable, Slot] = field(default_factory=dict)
    used: dict[Object, list[User]] = field(default_factory=dict)

    def copy(self) -> Where:
        return Where(dict(self.versions), {one: list(users) for one, users in self.used.items()})


@dataclass
class Issue:
    """`values`: of the caller, and the number of instances. `threads`: that will execute it. `grain`: seconds that a task should take."""

    circuit: Circuit
    schedule: Schedule
    chunk: Chunk
    count: int
    values: Mapping[Variable, float]
    apart: Apart
    pairs: Pairs
    estimates: Estimates
    threads: int
    grain: float

    def whole(self, start: Mapping[Variable, NDArray[np.generic]]) -> Iterator[None]:
        """`start`: variables that have a value before anything runs."""
        where = Where()
        for variable, value in start.items():
            where.versions[variable] = Slot()
            where.versions[variable].fill(value)
        yield from self.steps(self.circuit.steps, where, None, {})

    def steps(self, steps: Sequence[Step], where: Where, guard: Guard | None, counters: Mapping[Variable, int]) -> Iterator[None]:
        """Task after task. `counters`: of the loops around that count."""
        for one in steps:
            match one:
                case Function():
                    self.task(one, where, guard, counters)
                    yield
                case Fork():
                    yes, no = self.fork(one.condition, where, guard, counters)
                    yield
                    yield from self.steps(one.then, where, yes, counters)
                    yield from self.steps(one.other, where, no, counters)
                case Cycle():
                    self.cycle(one, where, guard, counters)
                    yield
                case Series():
                    yield from self.series(one, where, counters)

    def series(self, series: Series, where: Where, counters: Mapping[Variable, int]) -> Iterator[None]:
        rounds = self.estimates.rounds(series, counters)
        counter, instances = series.counted.counter, self.chunk[1] - self.chunk[0]
        counted = self.estimates.of_series(series, rounds, counters) * instances
        takes = self.schedule.odds.pace * counted
        long = rounds.number is not None and takes >= rounds.number * self.grain
        if long and series.body and rounds.number is not None and not self._enough(series, rounds.number):
            for number in range(rounds.number):
                yield from self.steps(series.body, where, None, {**counters, counter: rounds.counter(number)})
            return
        most = PARTS * self.threads
        grain = self.grain * (NESTED if counters else 1)
        parts = rounds.parts(max(1, int(min(takes / grain, most))) if grain else most)
        for first, beyond in parts:
            known = {**counters, series.part.first: first, series.part.beyond: beyond}
            self.task(series.whole, where, None, known, counted / len(parts))
            yield

    def _enough(self, series: Series, rounds: int) -> bool:
        """Are there so many rounds, which leave each other alone, that nothing is gained by what may run at once within a round?"""
        return rounds >= PARTS * self.threads and self.pairs.rounds(series).verdict == "independent"

    def task(
        self, function: Function, where: Where, guard: Guard | None, counters: Mapping[Variable, int], counted: float | None = None
    ) -> Task:
        takes = {name: where.versions.get(variable) or _nothing() for name, variable in function.takes.items()}
        gives = {name: Slot() for name in function.gives}
        if function.kind == "condition":
            gives[TEST] = Slot()
        after: list[Slot] = []
        done = Slot()
        uses = self.uses(function, counters)
        for array in sorted(function.reads | function.writes, key=lambda one: one.at):
            users = where.used[array] = [one for one in where.used.get(array, ()) if not one.done.ready]
            used = uses[array]
            meets = [one for one in users if array in one.function.writes or array in function.writes]
            after += [one.done for one in meets if used.meets(one.used) and not self.apart(one.function, function, array)]
            users.append(User(function, used, done))
        values = {name: counters[variable] for name, variable in function.values.items()}
        if counted is None:
            counted = self.estimates.of(function, counters) * (self.chunk[1] - self.chunk[0])
        task = Task(function, self.chunk, takes, gives, guard, done, values, counted)
        for name, variable in function.gives.items():
            where.versions[variable] = gives[name]
        self.schedule.add(task, after)
        return task

    def uses(self, function: Function, counters: Mapping[Variable, int]) -> Mapping[Object, Used]:
        """Of each array the elements that a task uses."""
        whole = {one: int(value) for one, value in self.values.items() if one.type in ("int", "long")}
        return self.pairs.footprints(function).used({**whole, **counters}, *self.chunk)

    def fork(self, condition: Function, where: Where, guard: Guard | None, counters: Mapping[Variable, int]) -> tuple[Guard, Guard]:
        """Guards of both sides."""
        test = self.task(condition, where, guard, counters).gives[TEST]
        yes, no = Guard(chunk=self.chunk), Guard(chunk=self.chunk)
        begin, end = self.chunk

        def known() -> None:
            assert test.value is not None
            rest = np.zeros(self.count, np.bool_)
            rest[begin:end] = ~test.value[begin:end].astype(bool)
            if guard is not None and guard.value is not None:
                rest[begin:end] &= guard.value[begin:end].astype(bool)
            yes.fill(test.value)
            no.fill(rest)

        test.when_ready(known)
        return yes, no

    def _short(self, one_round: Sequence[Function], counters: Mapping[Variable, int]) -> bool:
        instances, odds = self.chunk[1] - self.chunk[0], self.schedule.odds
        return odds.pace * sum(self.estimates.of(one, counters) * instances for one in one_round) < self.grain / 2

    def everyone(self) -> Guard:
        guard = Guard(chunk=self.chunk)
        guard.fill(np.ones(self.count, np.bool_))
        return guard

    def cycle(self, cycle: Cycle, where: Where, guard: Guard | None, counters: Mapping[Variable, int]) -> None:
        """What stands behind it is issued at once, and waits for the end only where it needs something of it. Short rounds are one task."""
        if self._short((cycle.condition, *functions(cycle.body)), counters):
            self.task(cycle.whole, where, guard, counters)
            return
        inner = where.copy()
        inside = [cycle.condition, *functions(cycle.body)]
        later = {variable: Slot() for one in inside for variable in one.gives.values()}
        end = Slot()
        where.versions.update(later)
        for one in inside:
            for object_ in one.reads | one.writes:
                where.used.setdefault(object_, []).append(User(one, ALL, end))
        _Rounds(self, cycle, inner, guard or self.everyone(), counters, later, end).more()


@dataclass
class _Rounds:
    issue: Issue
    cycle: Cycle
    where: Where
    guard: Guard
    counters: Mapping[Variable, int]
    later: dict[Variable, Slot]
    end: Slot
    issued: int = 0
    known: int = 0
    over: bool = False

    def more(self) -> None:
        while not self.over and self.issued < self.known + AHEAD * self.issue.threads:
            self._round()

    def _round(self) -> None:
        if self.issued >= MOST_ROUNDS:
            at = self.cycle.condition.at
            message = f"line {at.line}, column {at.column}: the loop went on for more than {MOST_ROUNDS:,} rounds"
            raise LaminarError("L704", message, hint="mend the loop's condition")
        self.issued += 1
        if self.cycle.test_last:
            self._body(self.guard)
        yes, _ = self.issue.fork(self.cycle.condition, self.where, self.guard, self.counters)
        if not self.cycle.test_last:
            self._body(yes)
        self.guard = yes
        yes.when_ready(lambda: self._known(yes))

    def _body(self, guard: Guard) -> None:
        for _ in self.issue.steps(self.cycle.body, self.where, guard, self.counters):
            pass

    def _known(self, guard: Guard) -> None:
        self.known += 1
        if self.over:
            return
        if guard.state == NONE:
            self.over = True
            self._finish()
        else:
            self.more()

    def _finish(self) -> None:
        for variable, slot in self.later.items():
            slot.follow(self.where.versions.get(variable) or _nothing())
        last = [one.done for users in self.where.used.values() for one in users if not one.done.ready]
        missing = len(last)
        if not missing:
            self.end.fill()
            return

        def arrived() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                self.end.fill()

        for slot in last:
            slot.when_ready(arrived)


def functions(steps: Sequence[Step]) -> Iterator[Function]:
    """All of some steps, in the order of the program."""
    for one in steps:
        match one:
            case Function():
                yield one
            case Fork():
                yield one.condition
                yield from functions(one.then)
                yield from functions(one.other)
            case Cycle():
                yield one.condition
                yield from functions(one.body)
            case Series():
                yield from functions(one.body) if one.body else (one.whole,)


def _nothing() -> Slot:
    """Of a variable that has no value yet."""
    slot = Slot()
    slot.fill()
    return slot
