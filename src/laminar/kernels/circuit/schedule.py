"""Which functions are ready: the algorithm of the founding paper, as a state without threads.

A task is a function for a chunk of instances. What it takes are slots, which other tasks fill. When one was executed, `done` goes over the
tasks that take its results, marks these inputs as there, and puts those that have all into the queue. A task whose guard is set for no
instance is ignored: what it gives is what it got.

Control speculation: a task that waits for its guard alone, and changes nothing but slots of its own, may be begun on a guess, for all
instances. When the guard is known the results are taken for those instances whose guard is set, or thrown away. No conflict can come of it,
because nobody else sees them before (Rundberg & Stenström 2001 pay for just that).

Tasks are made as the program goes on, in its order, and no more of them than `window` are open at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from laminar.kernels.circuit.function import TEST, Function
from laminar.kernels.circuit.guess import Account, Odds

Chunk = tuple[int, int]
NONE: Final = "none"
SOME: Final = "some"


@dataclass(eq=False)
class Slot:
    """A variable's value for a chunk, at one place of the program; or only that something was done, if there is no `value`."""

    value: NDArray[np.generic] | None = None
    ready: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def fill(self, value: NDArray[np.generic] | None = None) -> None:
        if self.ready:
            raise AssertionError("a slot is filled once")
        self.value, self.ready = value, True
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one()

    def when_ready(self, then: Callable[[], None]) -> None:
        if self.ready:
            then()
        else:
            self.waiting.append(then)

    def follow(self, other: Slot) -> None:
        """Filled with what the other is filled with."""
        other.when_ready(lambda: self.fill(other.value))


@dataclass(eq=False)
class Guard(Slot):
    """For which instances; `chunk` tells which part of `value` counts."""

    chunk: Chunk = (0, 0)

    @property
    def state(self) -> Literal["all", "none", "some"]:
        assert self.value is not None
        part = self.value[self.chunk[0] : self.chunk[1]]
        return "all" if part.all() else "some" if part.any() else "none"


@dataclass(eq=False)
class Task:
    """`takes` and `gives`: slots by names of the function's arrays. `values`: of the function's own values, by name. `counted`: seconds, by
    its operators. `on_guess`: it was begun before its guard was known."""

    function: Function
    chunk: Chunk
    takes: dict[str, Slot]
    gives: dict[str, Slot]
    guard: Guard | None
    done: Slot
    values: Mapping[str, int] = field(default_factory=dict)
    counted: float = 0.0
    missing: int = 0
    state: Literal["waits", "queued", "runs", "guessed", "over"] = "waits"
    on_guess: bool = False
    results: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passes(self) -> dict[str, str]:
        """What it gives to what it takes of the same variable: what goes through where the guard is not set."""
        came = {variable: name for name, variable in self.function.takes.items()}
        return {name: came[variable] for name, variable in self.function.gives.items() if variable in came}


class Schedule:
    """Not safe by itself: whoever has threads locks around each call."""

    def __init__(self, odds: Odds, guess: bool = True, source: Iterator[None] | None = None, window: int = 64) -> None:
        """`source`: makes a task, or several, each time it is asked."""
        self.source, self.window = source, window
        self.queue: deque[Task] = deque()
        self.guessable: list[Task] = []
        self.open = 0  # tasks that are not over
        self.odds, self.may_guess = odds, guess
        self.account = Account()

    def add(self, task: Task, after: Iterable[Slot] = ()) -> None:
        needed = [slot for slot in {*task.takes.values(), *after} if not slot.ready]
        task.missing = len(needed)
        self.open += 1
        for slot in needed:
            slot.when_ready(lambda: self._arrived(task))
        if not needed:
            self._data_there(task)
        if task.guard is not None and not task.guard.ready:
            task.guard.when_ready(lambda: self._guard_known(task))

    @property
    def over(self) -> bool:
        """Is all done that there will be?"""
        return not self.open and self.source is None

    def _go_on(self) -> None:
        while self.source is not None and self.open < self.window:
            try:
                next(self.source)
            except StopIteration:
                self.source = None

    def take(self) -> Task | None:
        """The next one to execute; on a guess, if nothing else is ready and it seems worth it."""
        self._go_on()
        if self.queue:
            task = self.queue.popleft()
            task.state = "runs"
            return task
        if not self.may_guess:
            return None
        worth = [one for one in self.guessable if self.odds.worth(one.function, one.counted)]
        if not worth:
            return None
        task = max(worth, key=lambda one: self.odds.chance(one.function))
        self.guessable.remove(task)
        task.state, task.on_guess = "runs", True
        self.account.started += 1
        return task

    def done(self, task: Task, results: dict[str, NDArray[np.generic]], seconds: float) -> None:
        """It was executed: its results are there for others; those of a guess when its guard is known."""
        task.results, task.seconds = results, seconds
        self.odds.took(task.function, seconds, task.counted)
        if task.state == "over":  # a guess that turned out wrong while it was computed
            self._wasted(task)
            return
        if task.on_guess and task.guard is not None and not task.guard.ready:
            task.state = "guessed"
            return
        self._settle(task)

    def undone(self, task: Task) -> None:
        """A guess that failed: it is executed when its guard is known, if at all."""
        self.account.thrown_away += 1
        if task.state == "over":
            return
        task.state, task.on_guess = "waits", False
        if task.guard is None or task.guard.ready:
            self._ready(task)

    def _arrived(self, task: Task) -> None:
        task.missing -= 1
        if not task.missing:
            self._data_there(task)

    def _data_there(self, task: Task) -> None:
        if task.guard is None or task.guard.ready:
            self._ready(task)
        elif task.function.private:
            self.guessable.append(task)

    def _guard_known(self, task: Task) -> None:
        assert task.guard is not None
        self.odds.saw(task.function, task.guard.state != NONE)
        if task.state == "waits":
            if not task.missing:
                if task in self.guessable:
                    self.guessable.remove(task)
                self._ready(task)
        elif task.state == "guessed":
            self._settle(task)
        elif task.state == "runs" and task.on_guess and task.guard.state == NONE:
            self._ignore(task)  # nobody waits for it

    def _ready(self, task: Task) -> None:
        if task.guard is not None and task.guard.state == NONE:
            self._ignore(task)
            return
        task.state = "queued"
        self.queue.append(task)

    def _ignore(self, task: Task) -> None:
        came = task.passes
        results = {name: task.takes[came[name]].value for name in task.gives if name in came}
        if TEST in task.gives and task.guard is not None:
            results[TEST] = task.guard.value  # false for all
        self._fill(task, {name: value for name, value in results.items() if value is not None})

    def _settle(self, task: Task) -> None:
        """Commit: by giving the results away as they are, or mixed with what came in; or throw them away."""
        if not task.on_guess or task.guard is None:
            self._fill(task, task.results)
            return
        state = task.guard.state
        if state == NONE:
            self._wasted(task)
            self._ignore(task)
            return
        self.account.committed += 1
        self.account.gained += task.seconds
        if state == SOME:
            mix(task)
        self._fill(task, task.results)

    def _wasted(self, task: Task) -> None:
        self.account.thrown_away += 1
        self.account.wasted += task.seconds
        task.results = {}

    def _fill(self, task: Task, results: dict[str, NDArray[np.generic]]) -> None:
        task.state = "over"
        self.open -= 1
        for name, slot in task.gives.items():
            slot.fill(results.get(name))
        task.done.fill()
        task.results = {}


def mix(task: Task) -> None:
    """Results of a guess, for instances whose guard is set; the rest as it came in."""
    assert task.guard is not None and task.guard.value is not None
    begin, end = task.chunk
    off = ~task.guard.value[begin:end].astype(bool)
    came = task.passes
    for name, result in task.results.items():
        if name == TEST:
            result[begin:end][off] = False
        elif name in came:
            before = task.takes[came[name]].value
            result[begin:end][off] = before[begin:end][off] if before is not None else 0
