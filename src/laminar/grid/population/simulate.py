"""Simulate: a population against the server's real code, from event to event on virtual time."""

from __future__ import annotations

import base64
import hashlib
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
from sqlalchemy import func, select

from laminar.core.seeds import derive
from laminar.grid.daemons.assimilator import Learner
from laminar.grid.daemons.validator import DISAGREES
from laminar.grid.db import nodes, times
from laminar.grid.db.schema import results
from laminar.grid.population import churn as churns
from laminar.grid.population.behaviour import KINDS, SYBILS, Person
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server.service import Denied
from laminar.grid.settings import Settings
from laminar.grid.utilization import Part, Timesheet
from laminar.grid.wire.messages import Ask, Task
from laminar.grid.wire.sketch import Sketcher
from laminar.train.on_grid import Grid

TURN: Final = 30.0  # virtual seconds between turns of the daemons
RETRY: Final = 600.0
COMES, ASKS, ANSWERS, LEAVES = range(4)


@dataclass(frozen=True)
class Plan:
    nodes: int = 10_000
    hours: float = 24.0
    churn: str = "desktop"
    adversaries: float = 0.05  # share of the nodes
    lies: tuple[str, ...] = KINDS[1:]
    seed: int = 0
    task_minutes: float = 30.0  # of a node of speed 1
    speeds: tuple[float, ...] = ()  # of the nodes, in turn; none: as the churn draws them, around 1
    retry: float = RETRY  # seconds until a node asks again that was given nothing; a real one is answered as soon as there is something
    grid: Grid = field(default_factory=lambda: Grid(workers=500, rounds=100_000, local_steps=5, deadline=7200.0, lease=14400.0))


@dataclass
class _Node:
    id: str
    person: Person
    speed: float
    times: Timesheet
    until: float = 0.0  # when it is switched off
    task: Task | None = None
    heard: list[int] = field(default_factory=list)  # verdicts


@dataclass
class Report:
    accuracy: float
    versions: int
    answers: int
    refused: dict[str, int]
    caught: dict[str, tuple[int, int]]  # kind: banned, of how many
    how: dict[str, dict[str, int]]  # kind: answers that were refused, by reason
    counts: dict[str, int]
    utilization: dict[str, float]  # of the time that nodes are on, the mean over them
    events: int
    seconds: float  # real ones
    trace: str  # digest of everything that happened
    curve: list[tuple[float, int, float]]  # virtual hours, version, accuracy

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "caught": {kind: {"banned": a, "of": b} for kind, (a, b) in self.caught.items()}}


@final
class Simulation:
    def __init__(self, plan: Plan, learner: Learner) -> None:
        self.plan = plan
        self._dice = np.random.Generator(np.random.PCG64(derive(plan.seed, "population")))
        self._churn = churns.KINDS[plan.churn]
        self._problem = Clouds(derive(plan.seed, "clouds"))
        self.settings: Settings = Clouds.settings(plan.grid, seed=plan.seed)
        self.hall = Hall(learner, seed=derive(plan.seed, "server"))
        self._run = self.hall.begin("population", self.settings, Clouds.first())
        self._sketcher = Sketcher(self.settings.layout.numel, derive(self.settings.recipe.seed, "grid sketch"))
        self._start, self._number = self.hall.now, 0
        self._queue: list[tuple[float, int, int, int]] = []
        self._rows: dict[int, np.ndarray[Any, np.dtype[np.float32]]] = {}
        self._trace = hashlib.sha256()
        self._reports = itertools.count(1)
        self._how: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._nodes = [self._make(i) for i in range(plan.nodes)]
        for number in range(plan.nodes):
            self._at(self._start + float(self._dice.uniform(0, 4 * churns.HOUR)), COMES, number)

    def _make(self, number: int) -> _Node:
        """Liars are dealt out evenly over their kinds; up to SYBILS Sybils are one person, who has one token."""
        liars = round(self.plan.adversaries * self.plan.nodes)
        kind = self.plan.lies[number % len(self.plan.lies)] if number < liars else "honest"
        key = base64.b64encode(hashlib.sha256(f"{self.plan.seed} node {number}".encode()).digest()).decode()
        dice = np.random.Generator(np.random.PCG64(derive(self.plan.seed, "person", number)))
        owner = f"sybil {number // (SYBILS * len(self.plan.lies))}" if kind == "sybil" else None
        id = self.hall.enrol(key, f"{kind} {number}", owner=owner)
        speeds = self.plan.speeds
        speed = speeds[number % len(speeds)] if speeds else churns.speed(self._churn, dice)
        return _Node(id, Person(kind, dice), speed, self._sheet())

    def _sheet(self) -> Timesheet:
        return Timesheet(self.hall.now, lambda: next(self._reports))

    def _at(self, when: float, what: int, number: int) -> None:
        heapq.heappush(self._queue, (when, self._number, what, number))
        self._number += 1

    def run(self, tell: Callable[[float, int, int], None] = lambda *_: None) -> Report:
        began, end, turn = time.perf_counter(), self._start + self.plan.hours * churns.HOUR, self._start
        curve: list[tuple[float, int, float]] = []
        events, hour = 0, 0
        while self._queue and self._queue[0][0] <= end:
            when, _, what, number = heapq.heappop(self._queue)
            self.hall.now = when
            self._step(what, self._nodes[number], number)
            events += 1
            if when - turn >= TURN:
                turn = when
                self.hall.office.turn()
            if when - self._start >= (hour + 1) * churns.HOUR:
                hour += 1
                version = self.hall.run(self._run).version
                curve.append((float(hour), version, self._problem.accuracy(self._row(version))))
                tell(hour / self.plan.hours, version, events)
        self.hall.office.turn()
        return self._report(events, time.perf_counter() - began, curve)

    def _step(self, what: int, node: _Node, number: int) -> None:
        now = self.hall.now
        if what == COMES:
            node.until = now + churns.on_for(self._churn, node.person.dice)
            node.task, node.times = None, self._sheet()  # what it was doing when it was switched off is lost
            self._at(node.until, LEAVES, number)
            self._at(now, ASKS, number)
        elif what == LEAVES:
            node.task = None
            self._at(now + churns.off_for(self._churn, node.person.dice, now - self._start), COMES, number)
        elif now > node.until:
            pass  # it is off
        elif what == ASKS:
            self._ask(node, number)
        elif node.task is not None:
            self._answer(node, number, node.task)

    def _ask(self, node: _Node, number: int) -> None:
        report = node.times.report(self.hall.now)
        try:
            work = self.hall.ask(node.id, Ask(want=1, speed=node.speed, heard=node.heard, report=report.number, spent=report.spent))
        except Denied:
            return  # banned: it gives up
        node.times.heard()
        node.heard = [result for result, _, _ in work.verdicts]
        if not work.tasks:
            self._at(self.hall.now + self.plan.retry, ASKS, number)
            return
        node.task = work.tasks[0]
        node.times.on(node.task.result, self.hall.now)
        node.times.at(Part.COMPUTING, self.hall.now)
        self._trace.update(f"{self.hall.now:.6f} {number} {node.task.result}\n".encode())
        if node.person.dice.random() < self._churn.loses:
            node.task = None  # it hangs, and its owner finds out in the evening
            self._at(self.hall.now + 4 * churns.HOUR, ASKS, number)
            return
        took = self.plan.task_minutes * 60 / node.speed * float(node.person.dice.uniform(0.8, 1.3))
        self._at(self.hall.now + took, ANSWERS, number)

    def _answer(self, node: _Node, number: int, task: Task) -> None:
        row = self._row(task.version.number)
        change = self._problem.work(row, task.seed, task.steps, self.settings)
        data = node.person.does(task, change, row, self.settings.layout, self._sketcher)
        node.task = None
        node.times.at(Part.WAITING, self.hall.now)
        try:
            verdict = self.hall.answer(node.id, task.result, data)
        except Denied:
            return
        self._trace.update(f"{self.hall.now:.6f} {number} {verdict.state}\n".encode())
        if verdict.state == "invalid":
            self._how[node.person.kind][verdict.reason] += 1
        self._at(self.hall.now + 1.0, ASKS, number)

    def _row(self, version: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        if version not in self._rows:
            if len(self._rows) > 64:
                self._rows.pop(min(self._rows))
            self._rows[version] = self.hall.version(self._run, version)
        return self._rows[version]

    def _disagreed(self) -> dict[str, int]:
        """Answers of each node that differed from those of others: known later than those that are refused on arrival."""
        wrong = select(results.c.node, func.count()).where(results.c.state == "invalid", results.c.verdict == DISAGREES)
        return {node: int(number) for node, number in self.hall.desk.do(lambda tx: tx.execute(wrong.group_by(results.c.node)).all())}

    def _report(self, events: int, seconds: float, curve: list[tuple[float, int, float]]) -> Report:
        run, counts = self.hall.run(self._run), self.hall.counts(self._run)
        banned = {row["id"] for row in self.hall.desk.do(nodes.everyone) if row["banned"]}
        of = Counter(node.person.kind for node in self._nodes)
        caught = Counter(node.person.kind for node in self._nodes if node.id in banned)
        disagreed = self._disagreed()
        for node in self._nodes:
            self._how[node.person.kind]["disagrees"] += disagreed.get(node.id, 0)
        row = self.hall.version(self._run, run.version)
        self._trace.update(row.tobytes())
        return Report(
            accuracy=self._problem.accuracy(row),
            versions=run.version,
            answers=counts.get("answers", 0),
            refused={what.removeprefix("refused "): number for what, number in sorted(counts.items()) if what.startswith("refused ")},
            caught={kind: (caught[kind], of[kind]) for kind in sorted(of)},
            how={kind: dict(sorted((+self._how[kind]).items())) for kind in sorted(of)},
            counts=counts,
            utilization=self.hall.desk.do(times.by_run).get(self._run, times.NOTHING),
            events=events,
            seconds=seconds,
            trace=self._trace.hexdigest(),
            curve=curve,
        )
