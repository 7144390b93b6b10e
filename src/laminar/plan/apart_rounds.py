"""Quorum and averaging on a virtual clock: what parallel/apart/worker_rounds.py and server.py do, without the numbers. No torch here.

What an answer does is decided by the very aggregator that the servers ask (parallel/aggregate).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import Action, Apply, CloseRound, Gradient, Joined, Left, OpenRound, Tick
from laminar.parallel.aggregate.rules import Rules
from laminar.plan.apart_scene import Scene, Stage, Tally

Deal = Callable[[int], tuple[tuple[int, ...], float]]
"""Of a round, counted by steps: the batches of each worker, and those that are behind the team when it is over."""


@dataclass(frozen=True)
class Answer:
    worker: int
    round: int
    version: int
    batches: int


@final
class RoundsRun:
    def __init__(self, scene: Scene, rules: Rules, deal: Deal, seed: int, *, settle: int, rounds: int) -> None:
        """Counts `rounds` rounds that made a step, after the first `settle`."""
        self.scene, self.deal, self.stage = scene, deal, Stage(scene, 1, seed)
        self.aggregator = Aggregator(rules)
        self.waiting: dict[int, None] = dict.fromkeys(range(len(scene.workers)))
        self.names = [str(worker) for worker in self.waiting]
        self.tasks: tuple[int, ...] = ()
        self.round = self.steps = 0
        self._ahead = 0.0
        self._settle, self._end = settle, settle + rounds
        self._before = (0, 0, 0)  # answers, late and dropped ones, when counting began

    def run(self) -> Tally:
        if not self._settle:
            self._count()
        for name in self.names:
            self._do(self.aggregator.on(Joined(name, 0.0)))
        self._hand_out()
        self.stage.clock.run()
        return self.stage.tally

    # Of the server

    def _do(self, actions: list[Action]) -> float:
        """Seconds that they take it."""
        seconds = 0.0
        idle: list[int] = []
        for action in actions:
            match action:
                case Apply():
                    seconds += self.scene.step
                    for part in action.parts:
                        self.stage.tally.staleness[part.staleness] += 1
                case CloseRound() if action.stepped:
                    self._closed()
                case OpenRound():
                    self.round = action.round
                    self.tasks, self._ahead = self.deal(self.steps)
                    idle = [worker for worker, batches in enumerate(self.tasks) if not batches]
                    if action.deadline is not None:
                        self.stage.clock.after(action.deadline - self.stage.clock.now, self._deadline, action.round)
                case _:
                    pass
        for worker in idle:  # nothing is left for it, so nobody waits for it in this round
            seconds += self._do(self.aggregator.on(Left(self.names[worker], self.stage.clock.now)))
            seconds += self._do(self.aggregator.on(Joined(self.names[worker], self.stage.clock.now)))
        return seconds

    def _closed(self) -> None:
        tally = self.stage.tally
        self.steps += 1
        if self.stage.counts_from <= self.stage.clock.now:
            tally.batches += self._ahead
        if self.steps == self._settle:
            self._count()
        elif self.steps >= self._end:
            self.stage.count_until_here()
            found = self.aggregator.statistics
            now = (found.received, found.late, sum(found.dropped.values()))
            tally.answers, tally.late, tally.dropped = (a - b for a, b in zip(now, self._before, strict=True))

    def _count(self) -> None:
        found = self.aggregator.statistics
        self._before = (found.received, found.late, sum(found.dropped.values()))
        self.stage.count_from_here()

    def _deadline(self, opened: int) -> None:
        if opened == self.round and self.aggregator.wakes is not None:
            self._after(self._do(self.aggregator.on(Tick(max(self.stage.clock.now, self.aggregator.wakes)))))

    def _after(self, seconds: float) -> None:
        if seconds:
            self.stage.servers[0].do(seconds, self._stepped, None, first=True)
        else:
            self._hand_out()

    def _stepped(self, _: None) -> None:
        self._hand_out()

    def _hand_out(self) -> None:
        """To whoever waits, where there is something to do for it."""
        awaited = frozenset(self.aggregator.awaited)
        for worker in [one for one in self.waiting if self.names[one] in awaited and self.tasks[one]]:
            del self.waiting[worker]
            answer = Answer(worker, self.round, self.aggregator.version, self.tasks[worker])
            self.stage.servers[0].do(self.scene.parameters_seconds / 2, self._given, answer)

    # Of a worker

    def _given(self, answer: Answer) -> None:
        self.stage.reply(answer.worker, self.scene.parameters_seconds, self.scene.parameters, self._begin, answer)

    def _begin(self, answer: Answer) -> None:
        def computed(worker: int) -> None:
            self.stage.computed(worker)
            self.stage.send(worker, self.scene.push_seconds, self.scene.push, self._arrived, answer)

        self.stage.compute(answer.worker, answer.batches, computed)

    def _arrived(self, answer: Answer) -> None:
        self.stage.servers[0].do(self.scene.push_seconds / 2 + self.scene.apply, self._answered, answer)

    def _answered(self, answer: Answer) -> None:
        name, now = self.names[answer.worker], self.stage.clock.now
        event = Gradient(name, answer.round, answer.version, f"{name}/{answer.round}", now, answer.round)
        self.waiting[answer.worker] = None
        self._after(self._do(self.aggregator.on(event)))
