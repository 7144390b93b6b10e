"""The server is killed at every statement of a training, and its database with it: nothing that was acknowledged is lost or counted twice.

A kill is an exception that nobody catches, raised before a statement: the transaction is undone, as the database undoes that of a process
that is gone, and a new server is made on the same file. tests/multi/grid kills real ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, select

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db.schema import metadata, pieces, results, tasks, versions
from laminar.grid.desk import Wants, at_once
from laminar.grid.population.behaviour import pack
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server.batch import Batch
from laminar.grid.wire.messages import Ask, Task
from laminar.grid.wire.sketch import Sketcher
from laminar.testing.postgres import postgres, programs
from laminar.train.on_grid import Grid

GRID = Grid(workers=2, rounds=3, local_steps=2, quorum=1.0, deadline=500.0, lease=1000.0, attempts=50)
SHORT = Grid(workers=2, rounds=2, local_steps=1, quorum=1.0, deadline=500.0, lease=1000.0, attempts=50, replicate="never")
KEYS = ["A" * 43 + "=", "B" * 43 + "="]


class Killed(BaseException):
    pass


class Story:
    """Two nodes train three rounds, each answer compared with the other's at first. The server may be killed at any statement."""

    def __init__(self, database: str, grid: Grid, *, together: bool = False) -> None:
        """`together`: all requests of a moment in one transaction, with what they lead to, as the server does it."""
        self.database, self.grid, self.together = database, grid, together
        self.problem, self.settings = Clouds(0), Clouds.settings(grid)
        self.sketcher = Sketcher(self.settings.layout.numel, derive(0, "grid sketch"))
        self.acknowledged: set[int] = set()
        self.statements, self.kill_at, self.kills = 0, -1, 0
        self.hall: Hall | None = None

    def start(self) -> Hall:
        """A new server on the old database."""
        self.hall = Hall(TorchLearner(), database=self.database, start=self.hall.now + 1 if self.hall is not None else 1_700_000_000.0)
        self.hall.book.hook = self._count
        return self.hall

    def _count(self, statement: str) -> None:
        self.statements += 1
        if self.statements == self.kill_at:
            self.kills += 1
            raise Killed(statement)

    def survive(self, kill_at: int) -> None:
        self.kill_at = kill_at
        for _ in range(50):
            try:
                self._play()
                return
            except Killed:
                assert self.hall is not None
                self.hall.close()
                self.kill_at += 97 if self.kills < 3 else 10**9  # and once more, some time later, wherever that is
        raise AssertionError("it never ended")

    def _play(self) -> None:
        hall = self.start()
        run = hall.begin("story", self.settings, Clouds.first())
        nodes = [hall.enrol(key, f"node {i}") for i, key in enumerate(KEYS)]
        for _ in range(200):
            if hall.run(run).state == "done":
                break
            if self.together:
                self._at_once(hall, nodes, run)
            for node in nodes:
                for task in hall.ask(node).tasks:
                    self._answer(hall, node, task, run)
                hall.now += 5.0
                hall.office.turn()
            hall.now += 50.0
        assert hall.run(run).state == "done"
        self._check(hall, run)
        hall.close()

    def _at_once(self, hall: Hall, nodes: list[str], run: int) -> None:
        batch = Batch(hall.office)
        asks: list[Any] = [(partial(hall.service.ask, id=node, asked=Ask(want=1)), Wants(node, asks=True)) for node in nodes]
        given = zip(nodes, at_once(hall.book, asks, batch), strict=True)
        answers = [(node, task.result, self._data(hall, task, run)) for node, work in given for task in work.tasks]
        operations: list[Any] = [
            (partial(hall.service.deliver, id=node, result=result, data=data, limit=1 << 20), Wants(node, result))
            for node, result, data in [*answers, *answers]  # each of them twice
        ]
        said = at_once(hall.book, operations, batch)
        self.acknowledged |= {one.result for one in said if one.state == "returned" and one.reason != "repeated"}

    def _data(self, hall: Hall, task: Task, run: int) -> bytes:
        change = self.problem.work(hall.version(run, task.version.number), task.seed, task.steps, self.settings)
        return pack(task, change, self.settings.layout, self.sketcher)

    def _answer(self, hall: Hall, node: str, task: Task, run: int) -> None:
        data = self._data(hall, task, run)
        if hall.answer(node, task.result, data).state == "returned":
            self.acknowledged.add(task.result)
        again = hall.answer(node, task.result, data)  # the same once more: it may not count twice
        assert again.reason == "repeated" or again.state == "late"

    def _check(self, hall: Hall, run: int) -> None:
        with hall.book.transaction() as tx:
            rows = {row.id: row for row in tx.execute(select(results))}
            for id in self.acknowledged:
                assert rows[id].state in ("valid", "late") and rows[id].used in ("applied", "extra", "dropped"), rows[id]
            assert len(tx.execute(select(versions.c.version)).all()) == self.grid.rounds + 1  # type: ignore[operator]
            for task in tx.execute(select(tasks)):
                used = [row for row in rows.values() if row.task == task.id and row.used == "applied"]
                assert task.state != "done" or used
                assert task.state != "open", task
            assert tx.execute(select(pieces.c.result).where(pieces.c.result.not_in(list(rows)))).first() is None
        self._replay(hall, run)

    def _replay(self, hall: Hall, run: int) -> None:
        """Every version is the one before and the mean of what was applied in it: nothing is in it twice, nothing is missing."""
        with hall.book.transaction() as tx:
            rows = list(
                tx.execute(select(tasks.c.id, tasks.c.version, tasks.c.seed, tasks.c.steps, tasks.c.round).where(tasks.c.state == "done"))
            )
        for version in range(self.grid.rounds):  # type: ignore[arg-type]
            before, after = hall.version(run, version), hall.version(run, version + 1)
            mine = [self.problem.work(before, row.seed, row.steps, self.settings) for row in rows if row.version == version]
            if mine:
                assert np.allclose(after, before - np.mean(mine, axis=0), atol=1e-5)


def statements_of(grid: Grid, *, together: bool = False) -> int:
    story = Story("sqlite://", grid, together=together)
    story.survive(-1)
    return story.statements


def walk(database: str, grid: Grid, first: int, step: int, *, together: bool = False) -> None:
    """Kill it at every `step`-th statement. `database`: with {} for a number."""
    for kill_at in range(first, statements_of(grid, together=together), step):
        story = Story(database.format(kill_at), grid, together=together)
        story.survive(kill_at)
        assert story.kills >= 1
        remove(story.database)


def remove(database: str) -> None:
    for name in ("", "-wal", "-shm"):
        Path(database.removeprefix("sqlite:///") + name).unlink(missing_ok=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be: a kill here is no power cut, and waiting for a disk would be half of the time."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as found:
        yield Path(found)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres("fsync=off", "synchronous_commit=off") as url:
        yield url


def test_nothing_is_killed_and_nothing_is_lost() -> None:
    assert statements_of(SHORT) > 50


def test_killed_at_every_seventh_statement_of_a_round(folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", SHORT, 1, 7)


def test_killed_while_answers_are_compared(folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", GRID, 5, 41)


def test_killed_while_many_requests_share_a_transaction(folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", GRID, 2, 29, together=True)


# every statement, in parts of some minutes each
PARTS = 3
parts = pytest.mark.parametrize("part", range(1, PARTS + 1), ids="part {}".format)
both_ways = pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@both_ways
def test_killed_at_every_statement_of_answers_that_stand_alone(together: bool, folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", SHORT, 1, 1, together=together)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@both_ways
@parts
def test_killed_at_every_statement_of_answers_that_are_compared(part: int, together: bool, folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", GRID, part, PARTS, together=together)


@pytest.mark.parametrize(("grid", "step", "together"), [(SHORT, 17, False), (GRID, 61, True)], ids=["alone", "compared"])
def test_killed_at_statements_all_over_on_postgresql(grid: Grid, step: int, together: bool, server: str) -> None:
    walk_postgres(server, grid, 3, step, together=together)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@both_ways
@parts
def test_killed_at_every_statement_on_postgresql(part: int, together: bool, server: str) -> None:
    walk_postgres(server, GRID, 2 + part, PARTS, together=together)


def walk_postgres(server: str, grid: Grid, first: int, step: int, *, together: bool) -> None:
    engine, killed = create_engine(server), 0
    for kill_at in range(first, statements_of(grid, together=together), step):
        with engine.begin() as connection:
            metadata.drop_all(connection)
        story = Story(server, grid, together=together)
        story.survive(kill_at)
        killed += story.kills
    engine.dispose()
    assert killed >= 5
