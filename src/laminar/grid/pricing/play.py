"""Play: desktops and a server on virtual time. The server is the real one in a box (population/hall.py), with its database, scheduler,
validator, aggregator and clocks; desktops do what node/keeper.py does, without computing anything.

An answer is brought together with the request for the next task; whoever finds nothing is held, and asks again when there is something
(server/routes.py). A desktop that was switched off goes on with its task when it is on again, from the task's beginning.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np
from sqlalchemy import update

from laminar.core.seeds import derive
from laminar.grid.daemons import transitioner
from laminar.grid.db.schema import nodes as node_table
from laminar.grid.desk import Wants, at_once
from laminar.grid.population import churn as churns
from laminar.grid.population.behaviour import pack
from laminar.grid.population.hall import Hall
from laminar.grid.pricing.scene import Desk, Pace, Scene
from laminar.grid.server.batch import Batch
from laminar.grid.settings import Settings
from laminar.grid.wire.answer import parse
from laminar.grid.wire.messages import Ask, Task, Work
from laminar.grid.wire.sketch import Sketcher
from laminar.plan.apart_clock import Clock, Shared, Thread
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

HANGS: Final = 4 * churns.HOUR  # that a task which is never answered occupies its machine, as in the population
LOOK: Final = 1.0  # seconds between looks of the office, while somebody waits and there is something
SELDOM: Final = 64.0  # and where looking was in vain, at most
LONGEST: Final = 60  # virtual days after which it is given up
VAIN: Final = 200  # looks of the office since the last version, likewise
USUAL: Final = 0.5 * churns.HOUR  # of the tasks whose share is lost that a churn tells
NUMBERS: Final = 2  # parameters of what is sent in place of a model
CHANGE: Final = np.ones(NUMBERS, np.float32)


@dataclass
class _Node:
    id: str
    desk: Desk
    dice: np.random.Generator
    on: bool = False
    since: float = 0.0  # when it was switched on
    turn: int = 0  # counts switching: what was begun before is of no account
    task: Task | None = None
    version: int | None = None  # that it has
    speed: float = 0.0  # samples a second, as it tells the server


@final
class Counting:
    """In place of what makes versions: counts what they would be made of."""

    def __init__(self, pace: Pace, closed: Callable[[], None]) -> None:
        self._pace, self._closed, self._version = pace, closed, 0

    def begin(self, settings: Settings) -> bytes:  # noqa: ARG002
        return b""

    def step(
        self,
        settings: Settings,  # noqa: ARG002
        version: bytes,
        optimizer: bytes,
        parts: list[tuple[float, list[bytes]]],
        position: int,  # noqa: ARG002
    ) -> tuple[bytes, bytes]:
        for _, answers in parts:
            head = parse(answers[0]).head
            self._pace.batches += head.steps
            self._pace.parts += 1
            self._pace.ages += self._version - head.version
        self._version += 1
        self._pace.versions += 1
        self._closed()
        (number,) = struct.unpack_from("<f", version)
        return struct.pack(f"<{NUMBERS}f", number + 1, 1.0), optimizer


@final
class Play:
    def __init__(self, scene: Scene, how: Grid, seed: int, *, versions: int, answers: int) -> None:
        """Until so many versions were made, or so many answers came."""
        self._scene, self._most_versions, self._most_answers = scene, versions, answers
        self._clock = Clock()
        self.pace = Pace()
        self.marks: list[tuple[float, float]] = []  # at each version: seconds, batches so far
        settings = _settings(how, scene, seed)
        self._counting = Counting(self.pace, self._closed)
        self._hall = Hall(self._counting, seed=derive(seed, "server"), on_work=self._there_is_work)
        self._start = self._hall.now
        self._batch = Batch(self._hall.office)
        self._out, self._in = Shared(self._clock, 1), Shared(self._clock, 1)
        self._cores = Shared(self._clock, _room(scene)) if scene.cores is not None else None
        self._desk = Thread(self._cores or Shared(self._clock, 1))
        self._waiting: dict[int, None] = {}
        self._looks, self._pause, self._woken = 0, LOOK, False
        self._vain = 0
        self._sketcher = Sketcher(NUMBERS, derive(seed, "sketch"))
        self._layout = settings.layout
        self._nodes = [self._enrol(number, desk, seed) for number, desk in enumerate(scene.desks)]
        self._hall.begin("plan", settings, struct.pack(f"<{NUMBERS}f", 0.0, 1.0))
        dice = np.random.Generator(np.random.PCG64(derive(seed, "hour")))
        self._hour = float(dice.uniform(0, 24 * churns.HOUR))  # of the day, when it begins
        for number in range(len(self._nodes)):
            self._first(number)
        self._look_later()

    def _enrol(self, number: int, desk: Desk, seed: int) -> _Node:
        key = base64.b64encode(hashlib.sha256(f"{seed} desk {number}".encode()).digest()).decode()
        id = self._hall.enrol(key, f"desk {number}")
        if desk.streak:
            told = update(node_table).where(node_table.c.id == id).values(streak=desk.streak)
            self._hall.desk.do(lambda tx: tx.execute(told))
        return _Node(id, desk, np.random.Generator(np.random.PCG64(derive(seed, "desk", number))), speed=self._scene.batch / desk.step)

    def run(self) -> Pace:
        try:
            self._clock.run()
        finally:
            self._hall.close()
        now = self._clock.now
        self.pace.seconds = self.marks[-1][0] if self.marks else now
        self.pace.present += sum(now - node.since for node in self._nodes if node.on)
        return self.pace

    def _closed(self) -> None:
        self.marks.append((self._clock.now, self.pace.batches))
        self._vain = 0
        if self.pace.versions >= self._most_versions or self.pace.answers >= self._most_answers:
            self._clock.over = True

    # When desktops are on

    def _first(self, number: int) -> None:
        churn, node = self._scene.churn, self._nodes[number]
        share = churn.on / (churn.on + churn.off) if churn.off else 1.0
        if node.dice.random() < share:
            self._comes(number)
        else:
            self._clock.after(churns.off_for(churn, node.dice, self._hour), self._comes, number)

    def _comes(self, number: int) -> None:
        node = self._nodes[number]
        node.on, node.since, node.turn = True, self._clock.now, node.turn + 1
        lasts = churns.on_for(self._scene.churn, node.dice)
        if math.isfinite(lasts):
            self._clock.after(lasts, self._goes, number)
        if node.task is not None:
            self._compute(number, node.task)
        else:
            self._ask(number)

    def _goes(self, number: int) -> None:
        node = self._nodes[number]
        node.on, node.turn = False, node.turn + 1
        self.pace.present += self._clock.now - node.since
        self._waiting.pop(number, None)
        now = self._hour + self._clock.now
        self._clock.after(churns.off_for(self._scene.churn, node.dice, now), self._comes, number)

    def _later(self, number: int, seconds: float, what: Callable[[int], None]) -> None:
        """Unless it is switched off before."""
        turn = self._nodes[number].turn

        def then(_: object) -> None:
            if self._nodes[number].turn == turn:
                what(number)

        self._clock.after(seconds, then, None)

    # What a desktop does

    def _ask(self, number: int) -> None:
        def arrived(one: int) -> None:
            self._desk.do(self._scene.asked, self._hand_out, one)

        self._later(number, self._scene.link.latency, arrived)

    def _hand_out(self, number: int) -> None:
        node = self._nodes[number]
        if not node.on or node.task is not None or self._clock.over:
            return
        self._waiting.pop(number, None)
        self._hall.now = self._start + self._clock.now
        asked = Ask(want=1, speed=node.speed)
        operation = partial(self._hall.service.ask, id=node.id, asked=asked)
        (work,) = at_once(self._hall.book, [(operation, Wants(node.id, asks=True))], self._batch)
        assert isinstance(work, Work)
        if not work.tasks:
            self._waiting[number] = None
            self._look_later()
            return
        self._pause = LOOK
        node.task = task = work.tasks[0]
        if node.version == task.version.number:
            self._later(number, self._scene.link.latency, lambda one: self._compute(one, task))
            return

        def came(one: int) -> None:
            self._nodes[one].version = task.version.number
            self._compute(one, task)

        self._travel(self._out, number, self._scene.down, came)

    def _travel(self, line: Shared, number: int, size: int, then: Callable[[int], None]) -> None:
        """Over the server's line, which all share, and the desktop's own, which may be slower."""
        shared = size / self._scene.server
        alone = max(0.0, size / self._scene.link.bandwidth - shared) + self._scene.link.latency
        self.pace.bytes += size
        turn = self._nodes[number].turn

        def through(_: object) -> None:
            if self._nodes[number].turn == turn:
                self._later(number, alone, then)

        line.add(shared, through, None)

    def _compute(self, number: int, task: Task) -> None:
        node, scene = self._nodes[number], self._scene
        usual = float(np.exp(scene.spread * node.dice.standard_normal())) if scene.spread else 1.0
        seconds = task.steps * node.desk.step * usual + node.desk.task
        if node.dice.random() < 1.0 - (1.0 - scene.churn.loses) ** (seconds / USUAL):
            self._later(number, HANGS, self._gives_up)
            return
        began = self._clock.now

        def done(one: int) -> None:
            self.pace.computing += self._clock.now - began
            self._travel(self._in, one, scene.up, brought)

        def brought(one: int) -> None:
            self._desk.do(scene.answered, self._answer, (one, task))

        self._work(number, seconds, done)

    def _work(self, number: int, seconds: float, what: Callable[[int], None]) -> None:
        """On the desktop's own processor, or on one that it shares with the others."""
        if self._cores is None:
            self._later(number, seconds, what)
            return
        turn = self._nodes[number].turn
        self._cores.add(seconds, lambda _: what(number) if self._nodes[number].turn == turn else None, None)

    def _gives_up(self, number: int) -> None:
        self._nodes[number].task = None
        self._ask(number)

    def _answer(self, about: tuple[int, Task]) -> None:
        number, task = about
        node = self._nodes[number]
        if self._clock.over or node.task is not task:
            return
        self._hall.now = self._start + self._clock.now
        self.pace.answers += 1
        data = pack(task, CHANGE, self._layout, self._sketcher)
        operation = partial(self._hall.service.deliver, id=node.id, result=task.result, data=data, limit=1 << 30)
        at_once(self._hall.book, [(operation, Wants(node.id, task.result))], self._batch)
        node.task = None
        if node.on:
            self._hand_out(number)

    # What the server does by itself

    def _there_is_work(self) -> None:
        """Who waits asks again, in a moment: this is called in the midst of a transaction."""
        if not self._woken:
            self._woken = True
            self._clock.after(0.0, self._wake, None)

    def _wake(self, _: object) -> None:
        self._woken = False
        for number in list(self._waiting):
            self._desk.do(self._scene.asked, self._hand_out, number)

    def _look_later(self) -> None:
        """At the next lease or deadline that ends; each second where somebody waits beside work that may be for them."""
        due = self._hall.desk.do(transitioner.next_time)
        times = [] if due is None else [max(0.0, due - self._start - self._clock.now) + 1e-3]
        if self._waiting and not self._hall.feeder.empty:
            times.append(self._pause)
        if times:
            self._looks += 1
            self._clock.after(min(times), self._look, self._looks)

    def _look(self, stamp: int) -> None:
        if stamp != self._looks:
            return  # a later one was said
        self._vain += 1
        if self._vain > VAIN or self._clock.now > LONGEST * 24 * churns.HOUR:
            self._clock.over = True
            return
        self._pause = min(SELDOM, 2 * self._pause)
        self._hall.now = self._start + self._clock.now
        self._hall.office.turn()
        self._wake(None)
        self._look_later()


def _room(scene: Scene) -> int:
    """Tasks that can be computed at once, each by as many threads as it has, on the cores of one machine."""
    assert scene.cores is not None
    threads = sum(desk.threads for desk in scene.desks) / len(scene.desks)
    return max(1, round(scene.cores / threads))


def _settings(how: Grid, scene: Scene, seed: int) -> Settings:
    """The strategy's, for something small that is not compressed: nothing of what is decided goes by the size of a model."""
    told: dict[str, Any] = {name: getattr(how, name) for name in how.__struct_fields__}
    grid = Grid(**(told | {"compress": "none", "robust": "mean", "rounds": 1 << 30}))
    recipe = Recipe(epochs=1 << 20, batch=scene.batch, optimizer="sgd", seed=seed % (1 << 31), strategy=grid)
    return Settings(
        recipe=recipe,
        rounds=1 << 30,
        batches=scene.batches,
        epoch_samples=scene.batches * scene.batch,
        local=False,
        parameters={"number": (NUMBERS,)},
        buffers=0,
        gradients=False,
    )
