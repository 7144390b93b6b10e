"""Tasks of a circuit for one chunk of instances, in the order of the program: who takes which slot from whom.

Each time a variable is set there is a new slot, so that nobody waits for those that only read the old one. Arrays stay where they are: who
changes one comes after all that used it, unless it is proved that they use other elements. Rounds of a loop are issued some ahead of
the last condition that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.kernels.circuit.build import Circuit, Cycle, Fork, Step
from laminar.kernels.circuit.function import TEST, Function
from laminar.kernels.circuit.schedule import NONE, Chunk, Guard, Schedule, Slot, Task
from laminar.kernels.language.tree import Object, Variable

Apart = Callable[[Function, Function, Object], bool]
"""Whether two functions of one instance are proved to use other elements of an array."""


@dataclass
class Where:
    """How far the program was issued: slots of variables, and who used which array."""

    versions: dict[Variable, Slot] = field(default_factory=dict)
    used: dict[Object, list[tuple[Function, Slot]]] = field(default_factory=dict)

    def copy(self) -> Where:
        return Where(dict(self.versions), {one: list(users) for one, users in self.used.items()})


@dataclass
class Issue:
    circuit: Circuit
    schedule: Schedule
    chunk: Chunk
    count: int
    apart: Apart
    ahead: int
    most_rounds: int

    def whole(self, start: Mapping[Variable, NDArray[np.generic]]) -> None:
        """`start`: variables that have a value before anything runs."""
        where = Where()
        for variable, value in start.items():
            where.versions[variable] = Slot()
            where.versions[variable].fill(value)
        self.steps(self.circuit.steps, where, None)

    def steps(self, steps: Sequence[Step], where: Where, guard: Guard | None) -> None:
        for one in steps:
            match one:
                case Function():
                    self.task(one, where, guard)
                case Fork():
                    yes, no = self.fork(one.condition, where, guard)
                    self.steps(one.then, where, yes)
                    self.steps(one.other, where, no)
                case Cycle():
                    self.cycle(one, where, guard or self.everyone())

    def task(self, function: Function, where: Where, guard: Guard | None) -> Task:
        takes = {name: where.versions.get(variable) or _nothing() for name, variable in function.takes.items()}
        gives = {name: Slot() for name in function.gives}
        if function.kind == "condition":
            gives[TEST] = Slot()
        after: list[Slot] = []
        done = Slot()
        for one in sorted(function.reads | function.writes, key=lambda one: one.at):
            users = where.used.setdefault(one, [])
            meets = [(user, slot) for user, slot in users if one in user.writes or one in function.writes]
            after += [slot for user, slot in meets if not self.apart(user, function, one)]
            users.append((function, done))
        task = Task(function, self.chunk, takes, gives, guard, done)
        for name, variable in function.gives.items():
            where.versions[variable] = gives[name]
        self.schedule.add(task, after)
        return task

    def fork(self, condition: Function, where: Where, guard: Guard | None) -> tuple[Guard, Guard]:
        """Guards of both sides."""
        test = self.task(condition, where, guard).gives[TEST]
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

    def everyone(self) -> Guard:
        guard = Guard(chunk=self.chunk)
        guard.fill(np.ones(self.count, np.bool_))
        return guard

    def cycle(self, cycle: Cycle, where: Where, guard: Guard) -> None:
        """What stands behind it is issued at once, and waits for the end only where it needs something of it."""
        inner = where.copy()
        inside = [cycle.condition, *functions(cycle.body)]
        later = {variable: Slot() for one in inside for variable in one.gives.values()}
        end = Slot()
        where.versions.update(later)
        for one in inside:
            for object_ in one.reads | one.writes:
                where.used.setdefault(object_, []).append((one, end))
        _Rounds(self, cycle, inner, guard, later, end).more()


@dataclass
class _Rounds:
    issue: Issue
    cycle: Cycle
    where: Where
    guard: Guard
    later: dict[Variable, Slot]
    end: Slot
    issued: int = 0
    known: int = 0
    over: bool = False

    def more(self) -> None:
        while not self.over and self.issued < self.known + self.issue.ahead:
            self._round()

    def _round(self) -> None:
        if self.issued >= self.issue.most_rounds:
            at = self.cycle.condition.at
            message = f"line {at.line}, column {at.column}: the loop went on for more than {self.issue.most_rounds:,} rounds"
            raise LaminarError("L704", message, hint="mend the loop's condition")
        self.issued += 1
        if self.cycle.test_last:
            self.issue.steps(self.cycle.body, self.where, self.guard)
        yes, _ = self.issue.fork(self.cycle.condition, self.where, self.guard)
        if not self.cycle.test_last:
            self.issue.steps(self.cycle.body, self.where, yes)
        self.guard = yes
        yes.when_ready(lambda: self._known(yes))

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
        last = [slot for users in self.where.used.values() for _, slot in users if not slot.ready]
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


def _nothing() -> Slot:
    """Of a variable that has no value yet."""
    slot = Slot()
    slot.fill()
    return slot
