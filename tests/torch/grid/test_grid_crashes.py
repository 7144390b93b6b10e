"""The server is killed at every statement of a training, and its database with it: nothing that was acknowledged is lost or counted twice.

A kill is an exception that nobody catches, raised before a statement: the transaction is undone, as the database undoes that of a process
that is gone, and a new server is made on the same file. tests/multi/grid kills real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, select

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db.schema import metadata, pieces, results, tasks, versions
from laminar.grid.population.behaviour import pack
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.wire.messages import Task
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

    def __init__(self, database: str, grid: Grid) -> None:
        self.database, self.grid = database, grid
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
            for node in nodes:
                for task in hall.ask(node).tasks:
                    self._answer(hall, node, task, run)
                hall.now += 5.0
                hall.office.turn()
            hall.now += 50.0
        assert hall.run(run).state == "done"
        self._check(hall, run)
        hall.close()

    def _answer(self, hall: Hall, node: str, task: Task, run: int) -> None:
        change = self.problem.work(hall.version(run, task.version.number), task.seed, task.steps, self.settings)
        data = pack(task, change, self.settings.layout, self.sketcher)
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


def statements_of(grid: Grid) -> int:
    story = Story("sqlite://", grid)
    story.survive(-1)
    return story.statements


def walk(database: str, grid: Grid, first: int, step: int) -> None:
    """Kill it at every `step`-th statement. `database`: with {} for a number."""
    for kill_at in range(first, statements_of(grid), step):
        story = Story(database.format(kill_at), grid)
        story.survive(kill_at)
        assert story.kills >= 1


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres("fsync=off", "synchronous_commit=off") as url:
        yield url


def test_nothing_is_killed_and_nothing_is_lost() -> None:
    assert statements_of(SHORT) > 100


def test_killed_at_every_third_statement_of_a_round(tmp_path: Path) -> None:
    walk(f"sqlite:///{tmp_path}/{{}}.db", SHORT, 1, 3)


def test_killed_while_answers_are_compared(tmp_path: Path) -> None:
    walk(f"sqlite:///{tmp_path}/{{}}.db", GRID, 5, 41)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [SHORT, GRID], ids=["alone", "compared"])
def test_killed_at_every_statement(grid: Grid, tmp_path: Path) -> None:
    walk(f"sqlite:///{tmp_path}/{{}}.db", grid, 1, 1)


@pytest.mark.parametrize(("grid", "step"), [(SHORT, 23), (GRID, 97)], ids=["alone", "compared"])
def test_killed_at_statements_all_over_on_postgresql(grid: Grid, step: int, server: str) -> None:
    walk_postgres(server, grid, step)


@pytest.mark.slow
def test_killed_at_every_statement_on_postgresql(server: str) -> None:
    walk_postgres(server, GRID, 3)


def walk_postgres(server: str, grid: Grid, step: int) -> None:
    engine, killed = create_engine(server), 0
    for kill_at in range(3, statements_of(grid), step):
        with engine.begin() as connection:
            metadata.drop_all(connection)
        story = Story(server, grid)
        story.survive(kill_at)
        killed += story.kills
    engine.dispose()
    assert killed >= 5
