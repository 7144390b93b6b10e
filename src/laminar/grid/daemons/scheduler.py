"""Scheduler: what a node that asks is given.

A node gets no task that it, or another node of its owner, has had. Whether its answer will be compared is decided here, when it gets a task
that nobody had before (trust/reputation.py), by a draw that it cannot know.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from laminar.core.kernel_files import KernelName
from laminar.core.seeds import derive
from laminar.grid.daemons.feeder import Feeder
from laminar.grid.db import nodes, runs, tasks, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.nodes import Node
from laminar.grid.db.runs import Run
from laminar.grid.db.tasks import Waiting
from laminar.grid.settings import Traffic
from laminar.grid.trust.reputation import must_check
from laminar.grid.wire.messages import DIGITS, Ask, Task, Version

MOST: Final = 64  # tasks that a node may have at once
SHORTEST: Final = 60.0  # seconds of a lease
SLACK: Final = 20.0  # times as long as the node should need
LINE_SLACK: Final = 2.0  # factor on the time that its connection should need for the data
SELDOM: Final = 0.05  # share of the time in which a node works, below which it gets no longer a lease
GROWTH: Final = 4  # times the planned steps of a task, that a fast node gets at most: further away, answers fit together less and less
CHECKERS: Final = 3  # nodes that are asked, on average, to check an answer
COUNTED: Final = 5.0  # seconds between counts of the nodes that are there
UNDERWAY: Final = 10.0  # seconds in which an answer with tasks may be under way
PAUSE: Final = 5.0  # seconds until a node asks again when there is nothing


@dataclass(frozen=True)
class Given:
    tasks: tuple[Task, ...]
    why: str = ""  # there are none, or fewer
    wait: float = 0.0


@final
class Scheduler:
    def __init__(self, feeder: Feeder, dice: random.Random | None = None, *, bytes_a_day: int | None = None) -> None:
        self.feeder, self._dice, self.bytes_a_day = feeder, dice or random.SystemRandom(), bytes_a_day
        self._secret = self._dice.getrandbits(63)
        self._about: dict[tuple[int, int], Version] = {}  # of versions
        self._traffic: dict[int, Traffic] = {}  # for the tasks of each run
        self._owners: dict[int, int | None] = {}
        self._needs: dict[int, dict[str, str]] = {}  # kernels that the tasks of a run need
        # by owner, and kernels: until when it holds, and how many nodes with these are active, beside the owner's
        self._company: dict[tuple[int | None, frozenset[str]], tuple[float, int]] = {}

    def forget(self) -> None:
        """A transaction was undone: what was read or taken in it may never have been."""
        self._about.clear()
        self._traffic.clear()
        self._needs.clear()
        self.feeder.changed()

    def hand_out(self, tx: Tx, node: Node, ask: Ask, now: float) -> Given:
        if refusal := self._refusal(tx, node, ask, now):
            return refusal
        held = tasks.held_by(tx, node.id)
        room = min(ask.want, MOST - len(held), node.quota - node.sent_today)
        open_runs: dict[int, Run] = {}
        found = self._lost_on_the_way(tx, held, ask, now, open_runs)
        room = max(room, 0)
        owner = self._owner(tx, node.token)
        missing: dict[str, str] = {}  # kernels that the node would need for what waits
        without = {run.id for name in ask.without if (run := runs.named(tx, name)) is not None}
        for one in self.feeder.offers(tx, _has(tx, ask.has)) if room > 0 else ():
            if len(found) >= min(room, ask.want):
                break
            if one.run in without:
                continue
            needs = self._kernels(tx, one.run)
            if needs and (lacks := {sha256: name for sha256, name in needs.items() if sha256 not in node.kernels}):
                missing |= lacks
                continue
            if not one.fresh and not self._may_check(tx, one, node, now):
                continue
            if not self.feeder.reached(tx, one):
                self.feeder.taken(one.result)  # another server has it
                continue
            if not one.fresh and tasks.had_by(tx, one.task, node.id, owner):
                continue
            run = open_runs.get(one.run) or runs.get(tx, one.run)
            self.feeder.taken(one.result)
            if run is None or run.state != "open":
                continue
            open_runs[run.id] = run
            traffic = self._traffic.get(run.id)
            if traffic is None:
                traffic = self._traffic[run.id] = run.settings.traffic
            line = traffic.seconds(up=ask.up or node.up, down=ask.down or node.down)
            steps = self._steps(tx, run, node, one, line)
            lease = self._lease(run, node, steps, ask.available, line)
            if not tasks.give(tx, one.result, node.id, now=now, lease=lease):
                continue  # somebody else has it
            row = tasks.task(tx, one.task)
            if one.fresh and steps != row.steps:
                tasks.change(tx, one.task, steps=steps)
            if one.fresh or (not one.check and row.needs < 2):  # whoever had it before may have been believed; this one need not be
                self._decide_check(tx, run, node, one, now)
            found.append(self._task(tx, run, one, lease))
        self._seen(tx, node, ask, now, sent=len(found))
        if found:
            return Given(tuple(found))
        if missing and room > 0:
            return Given((), needed(missing), PAUSE)
        return Given((), "nothing to do" if room > 0 else "enough is under way", PAUSE)

    def _lost_on_the_way(self, tx: Tx, held: list[Any], ask: Ask, now: float, open_runs: dict[int, Run]) -> list[Task]:
        """Tasks that were given to the node in an answer that it never got, or that it has forgotten: once more."""
        found: list[Task] = []
        for row in held:
            if row.sent > now - UNDERWAY:
                continue
            run = open_runs.get(row.run) or runs.get(tx, row.run)
            if row.id in ask.holds or len(found) >= ask.want or run is None or run.state != "open":
                continue
            open_runs[run.id] = run
            waiting = Waiting(row.id, row.task, row.run, None, fresh=False, check=False)
            found.append(self._task(tx, run, waiting, max(1.0, row.lease - now)))
        return found

    def _refusal(self, tx: Tx, node: Node, ask: Ask, now: float) -> Given | None:
        why = ""
        if ask.want < 1:
            why = "nothing asked for"
        elif node.sent_today >= node.quota:
            why = f"its quota of {node.quota} tasks a day is used up"
        elif self.bytes_a_day is not None and node.bytes_today >= self.bytes_a_day:
            why = f"its budget of {self.bytes_a_day} bytes a day is used up"
        if not why:
            return None
        self._seen(tx, node, ask, now)
        return Given((), why, 60.0 if ask.want else 0.0)

    @staticmethod
    def _seen(tx: Tx, node: Node, ask: Ask, now: float, sent: int = 0) -> None:
        nodes.seen(tx, node.id, now, speed=ask.speed, available=ask.available, up=ask.up, down=ask.down, sent=sent)

    def _owner(self, tx: Tx, token: int) -> int | None:
        """The token, if it is somebody's own."""
        if token not in self._owners:
            self._owners[token] = token if nodes.personal(tx, token) else None
        return self._owners[token]

    def _kernels(self, tx: Tx, id: int) -> dict[str, str]:
        found = self._needs.get(id)
        if found is None:
            run = runs.get(tx, id)
            found = self._needs[id] = run.settings.kernels if run is not None else {}
        return found

    def _may_check(self, tx: Tx, one: Waiting, node: Node, now: float) -> bool:
        """Who checks whom is drawn anew each second: else liars who ask one after the other would be given each other's tasks."""
        if not one.check or node.trusted:
            return True
        draw = derive(self._secret, one.result, node.id, int(now)) / (1 << 63)
        return draw * max(1, self._others(tx, one.run, node, now)) < CHECKERS

    def _others(self, tx: Tx, run: int, node: Node, now: float) -> int:
        """Active nodes that could check this one: not itself, none of its owner's, and with the kernels of the run."""
        owner, needs = self._owner(tx, node.token), frozenset(self._kernels(tx, run))
        until, count = self._company.get((owner, needs), (now, 0))
        if not now < until <= now + COUNTED:
            count = nodes.active(tx, now, beside=owner, kernels=needs)
            self._company[owner, needs] = now + COUNTED, count
        return count - 1 if owner is None else count

    def _decide_check(self, tx: Tx, run: Run, node: Node, one: Waiting, now: float) -> None:
        if not must_check(node.streak, self._dice.random(), run.settings.grid.replicate, trusted=node.trusted):
            return
        if self._others(tx, run.id, node, now) < 1:
            runs.count(tx, run.id, unchecked=1)  # there is nobody to compare with
            return
        tasks.change(tx, one.task, needs=2, attempts=tasks.task(tx, one.task).attempts + 1)
        tasks.another(tx, one.task, run.id, priority=tasks.CHECK, check=True)
        runs.count(tx, run.id, checks=1)
        self.feeder.changed()

    @staticmethod
    def _steps(tx: Tx, run: Run, node: Node, one: Waiting, line: float) -> int:
        """A task is as large as its first node is fast; whoever does it again does as much. If it is not said how long a task should take,
        a slow node gets what it can do while its round, or its lease, lasts, with as much time again for everything else: more where its
        data is on the `line` for longer."""
        row, settings = tasks.task(tx, one.task), run.settings
        if not one.fresh or node.speed <= 0:
            return int(row.steps)
        how, most = settings.grid, int(row.steps)
        lasts = min(how.deadline, how.lease)
        seconds = max(min(lasts / 2, lasts - line), lasts / 10) if how.task_seconds is None else how.task_seconds
        if how.task_seconds is not None and not settings.gradients:
            most = GROWTH * most if settings.local else min(GROWTH * most, settings.batches - row.first)  # to the end of the epoch
        return max(1, min(int(node.speed * seconds / settings.recipe.batch), most))

    @staticmethod
    def _lease(run: Run, node: Node, steps: int, available: float, line: float) -> float:
        """For the work and for the data on the line. A node that rests half of the time has twice as long. What the run says is for the
        work: data has as much again at most."""
        how = run.settings.grid
        most = how.lease + min(LINE_SLACK * line, how.lease)
        if node.speed <= 0:
            return most
        seconds = steps * run.settings.recipe.batch / node.speed
        return min(most, (max(SHORTEST, SLACK * seconds) + LINE_SLACK * line) / max(available, SELDOM))

    def _task(self, tx: Tx, run: Run, one: Waiting, lease: float) -> Task:
        row = tasks.task(tx, one.task)
        version = row.version
        if version is None:  # async: that of this moment, for all who do it
            version = run.version
            tasks.change(tx, one.task, version=version)
        return Task(
            result=one.result,
            task=one.task,
            run=run.name,
            about=run.about,
            version=self._version(tx, run, version),
            sample=row.sample,
            epoch=row.epoch,
            first=row.first,
            steps=row.steps,
            seed=row.seed,
            progress=row.progress,
            lease=lease,
        )

    def _version(self, tx: Tx, run: Run, number: int) -> Version:
        key = (run.id, number)
        if key not in self._about:
            sha256 = versions.sha256_of(tx, run.id, number)
            assert sha256 is not None
            if len(self._about) > 256:
                self._about.clear()
            self._about[key] = Version(number=number, sha256=sha256, size=run.settings.size)
        return self._about[key]


def needed(kernels: Mapping[str, str]) -> str:
    """What a node is told that lacks these."""
    sha256, name = next(iter(kernels.items()))
    more = f" and {len(kernels) - 1} more" if len(kernels) > 1 else ""
    return f"what is to do needs the kernel {KernelName(name, sha256)}{more}: laminar grid join --kernels DIR, with {name}.c in DIR"


def _has(tx: Tx, told: Collection[str]) -> set[tuple[int, int | None]]:
    """run/sample of a request, as the database knows them."""
    found: set[tuple[int, int | None]] = set()
    for word in told:
        name, _, sample = word.rpartition("/")
        run = runs.named(tx, name) if name else None
        if run is not None and sample.isascii() and sample.isdigit() and len(sample) <= DIGITS:
            found.add((run.id, int(sample)))
    return found
