"""Decisions: what a server does with what it hears, and all that it must not forget. Nothing of callers here, nor of sockets.

What a push does is the aggregator's to say (../aggregate); who does which batches, work.py's; the numbers are changed in numbers.py.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from torch import Tensor

from laminar.core.clock import Clock
from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import (
    Action,
    Apply,
    CloseRound,
    Drop,
    Event,
    Gradient,
    Hold,
    Joined,
    Left,
    OpenRound,
    Repeat,
    Tick,
)
from laminar.parallel.apart.messages import Push
from laminar.parallel.apart.plan import Plan, rules
from laminar.parallel.apart.report import Report
from laminar.parallel.apart.shard import make_numbers
from laminar.parallel.apart.work import AHEAD, Rounds, Task, Units
from laminar.train.shares import Speed
from laminar.train.strategies import Averaging, Downpour

INTERRUPTED: Final = "interrupted"
REPEATED: Final = "repeated"
TO_COME: Final = "future"
NOTHING: Final = 1e-9  # what an answer without samples counts for


class Pushed(msgspec.Struct, frozen=True):
    """What is told of the step that a push becomes a part of; all of it is nothing where a worker had no samples."""

    batches: int = 0
    loss: float = 0.0
    idle: list[int] = []  # tensors without a gradient


@final
class Decisions:
    def __init__(self, plan: Plan, shard: int, report: Report, clock: Clock) -> None:
        self.plan, self.shard, self.how, self.report, self.clock = plan, shard, plan.how, report, clock
        self.numbers = make_numbers(plan, shard)
        self.aggregator = Aggregator(rules(self.how))
        self.position = 0  # batches that steps were made of
        self.rounds = self.units = None
        recipe = plan.recipe
        if isinstance(self.how, Downpour):
            self.units = Units(batches=plan.batches, epochs=recipe.epochs, size=plan.unit, alone=self.how.warm_start)
        else:
            every = None if not isinstance(self.how, Averaging) else 0 if self.how.every == "end" else self.how.every
            speeds: dict[str, Speed] | None = {} if self.how.shares == "measured" else None
            self.rounds = Rounds(
                batches=plan.batches, epochs=recipe.epochs, batch=recipe.batch, samples=plan.samples, every=every, speeds=speeds
            )
        self.tasks: dict[str, Task] = {}  # of the open round
        self.round = -1
        self.finished = ""  # why there is nothing more to do
        self.untested: list[dict[str, Any]] = []  # epochs as they were told to the chief; rounds wait until it has tested them
        self.lives: dict[str, str] = {}  # of each worker: a process that is started again is another one by the same name
        self.pushes: dict[str, Pushed] = {}  # of what is held
        self._later: list[Event] = []
        self._fate = ""  # of the push under way: why it was not taken

    # What happens

    def joined(self, worker: str, life: str) -> None:
        if self.units is not None and self.lives.get(worker) != life:
            self._epochs_done(self.units.lose(worker))  # of an earlier process by this name
        self.lives[worker] = life
        self._on(Joined(worker, self.clock.monotonic()))

    def without(self, worker: str) -> None:
        """It is gone, and not waited for."""
        self.lives.pop(worker, None)
        if not self.finished:  # at the end all leave, one after the other, and the layer is to have the mean of all
            self.numbers.lose_buffers(worker)
        if self.units is not None:
            self._epochs_done(self.units.lose(worker))
        self._on(Left(worker, self.clock.monotonic()))

    def pushed(self, worker: str, said: Push, packet: memoryview, buffers: memoryview) -> str:
        """Why it was not taken; empty: it was. BadPacket, before anything is done, if it is none."""
        name, now = f"{worker}/{said.sequence}", self.clock.monotonic()
        self.numbers.check(name, packet)
        if self.rounds is not None and said.round is not None and said.round > self.round:
            return TO_COME  # this server went back to its snapshot. Not remembered: the round comes again, and its answer by this number
        self._fate, known, before = "", name in self.pushes, self.round
        self.pushes.setdefault(name, Pushed(said.batches, said.loss, said.idle))
        base = min(said.base, self.aggregator.version)  # a server that went back to its snapshot is behind its workers
        self.report.tally(said.epoch, said.tally)  # first: with this push the epoch may be over, and told
        self.report.worked(worker, said.seconds, said.waited)
        self._on(Gradient(worker, said.sequence, base, name, now, round=said.round, work=said.work), (name, packet))
        if not self._fate:
            self.numbers.take_buffers(worker, buffers)
            if self.round != before:  # it was the last answer to the round before, and this one begins with what it has brought
                self.numbers.opening = self.numbers.mean_buffers()
        else:
            self.report.tally(said.epoch, {what: -value for what, value in said.tally.items()})
            if not known:
                self.pushes.pop(name, None)
            if self._fate == REPEATED:
                self.report.worked(worker, -said.seconds, -said.waited)
        if self.rounds is not None and self._fate != REPEATED:  # also of one that came too late: then it needs less to do
            self.rounds.heard(worker, samples=said.work, batches=said.batches, seconds=said.seconds)
        if self.units is not None and said.unit is not None and self._fate != REPEATED:
            self.units.advance(said.unit, worker, said.batches)
        return self._fate

    def asked(self, worker: str, done: int | None) -> None:
        """It wants a unit, so it has none: of those that it had, a server that went back to its snapshot may not have heard the end."""
        assert self.units is not None
        self._epochs_done(self.units.finish(done) if done is not None else [])
        self._epochs_done(self.units.reclaim(worker))

    def tested(self, epoch: int) -> None:
        self.untested = [told for told in self.untested if told["epoch"] > epoch]

    def start_without(self, absent: int) -> None:
        """So many of the workers that the first round waits for will not come."""
        start = max(1, self.how.workers - absent)
        if self.rounds is not None:
            self.aggregator.rules = msgspec.structs.replace(self.aggregator.rules, start=start)
        self.tick()

    def tick(self) -> None:
        self._on(Tick(self.clock.monotonic()))

    @property
    def paused(self) -> bool:
        return self.rounds is not None and bool(self.untested) and not self.finished

    @property
    def wakes(self) -> float | None:
        """When a tick is due. A round is not over while it has not begun."""
        return None if self.paused else self.aggregator.wakes

    def work_for(self, worker: str) -> Task | None:
        """None: there is nothing to do for it now."""
        if self.units is not None:
            return None if len(self.untested) > AHEAD else self.units.give(worker, self.clock.monotonic())
        if self.paused or worker not in self.aggregator.awaited:
            return None  # the last epoch is being tested; it has answered; or it came after the round was opened
        if worker not in self.tasks:
            assert self.rounds is not None
            self.tasks |= self.rounds.open(self.round, [worker])  # those who had them are gone
        return self.tasks.get(worker)

    def at_work(self, worker: str, number: int | None) -> bool:
        """Is this round the one that it is waited for in?"""
        return worker in self.aggregator.awaited and worker in self.tasks and self.tasks[worker].number == number

    # What follows

    def _on(self, event: Event, arrived: tuple[str, memoryview] | None = None) -> None:
        self._do(self.aggregator.on(event), arrived)
        while self._later:
            event = self._later.pop(0)
            self._do(self.aggregator.on(event), (event.payload, memoryview(b"")) if isinstance(event, Gradient) else None)

    def _do(self, actions: list[Action], arrived: tuple[str, memoryview] | None) -> None:
        for action in actions:
            match action:
                case Hold():
                    assert arrived is not None and arrived[0] == action.payload
                    self.numbers.hold(*arrived)
                case Drop():
                    self.numbers.drop(action.payload)
                    self.pushes.pop(action.payload, None)
                    self._fate = action.reason
                case Repeat():
                    self._fate = REPEATED
                case Apply():
                    self._apply(action, arrived)
                case CloseRound():
                    self.report.closed(action)
                    if action.stepped:
                        assert self.rounds is not None
                        epoch = self.rounds.close()
                        self.position = self.rounds.position
                        self._epochs_done([] if epoch is None else [epoch])
                case OpenRound():
                    self._open(action)
                case _:
                    pass

    def _apply(self, action: Apply, arrived: tuple[str, memoryview] | None) -> None:
        told = [(part, self.pushes.pop(part.payload, Pushed())) for part in action.parts]
        idle = [one.idle for _, one in told if one.batches]
        self.numbers.apply(action.parts, arrived, self.position, frozenset(idle[0]).intersection(*idle[1:]) if idle else ())
        weight = sum(part.weight for part, one in told if one.batches) or 1.0
        loss = sum(part.weight * one.loss for part, one in told) / weight
        oldest = max(told, key=lambda one: one[0].staleness)[0]
        self.report.stepped(self.position, loss, self.numbers.lr, oldest.staleness, "" if len(told) > 1 else oldest.worker)
        if self.units is not None:
            batches = sum(one.batches for _, one in told)
            self.numbers.stepped(self.position, batches)
            self.position += batches

    def _open(self, action: OpenRound) -> None:
        assert self.rounds is not None
        if self.rounds.finished:
            return
        workers = sorted(self.aggregator.awaited, key=lambda name: (len(name), name))
        self.round, self.tasks = action.round, self.rounds.open(action.round, workers)
        self.numbers.opening = self.numbers.mean_buffers()
        now, number = self.clock.monotonic(), action.round
        for worker in workers:
            if worker in self.tasks:
                continue
            if len(self.tasks) < self.aggregator.rules.minimum:  # every answer is needed, also one of nothing
                self._later.append(Gradient(worker, number, action.version, f"{worker}/{number}", now, number, NOTHING))
            else:  # no samples are left for it, so nobody waits for it in this round
                self._later += [Left(worker, now), Joined(worker, now)]

    def _epochs_done(self, epochs: list[int]) -> None:
        source = self.units or self.rounds
        assert source is not None
        for epoch in epochs:
            done = source.finished and epoch == self.plan.recipe.epochs - 1
            if done:
                self.finished = self.finished or "all epochs done"
            if not self.shard:
                self.untested.append(self.report.epoch(epoch, self, done=done))

    # Over a restart

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.numbers.state(), {
            "aggregator": self.aggregator.state(),
            "work": msgspec.to_builtins(self.units or self.rounds, str_keys=True),
            "tasks": msgspec.to_builtins(self.tasks),
            "round": self.round,
            "position": self.position,
            "finished": "" if self.finished == INTERRUPTED else self.finished,
            "untested": self.untested,
            "lives": self.lives,
            "pushes": msgspec.to_builtins(self.pushes),
            "report": self.report.state(),
        }

    def load(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        self.numbers.load(tensors)
        if not state:
            return  # the beginning
        self.aggregator = Aggregator.load(rules(self.how), state["aggregator"])
        if self.units is not None:
            self.units = msgspec.convert(state["work"], Units, str_keys=True)
            self.units.first = ""  # whoever asks first
        else:
            self.rounds = msgspec.convert(state["work"], Rounds, str_keys=True)
        self.tasks = msgspec.convert(state["tasks"], dict[str, Task])
        self.round, self.position, self.finished = state["round"], state["position"], state["finished"]
        self.untested = state["untested"]
        self.lives = state["lives"]
        self.pushes = msgspec.convert(state["pushes"], dict[str, Pushed])
        self.report.load(state["report"])
