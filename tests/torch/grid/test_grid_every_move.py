"""Every move that a result can make, with the server killed at statements all over: the same is lost, counted twice or forgotten never.

A crowd of all sorts: honest nodes, slow ones, some that answer when their lease is over, or their round, some that send rubbish, lie or
give tasks back. What nodes have in hand is theirs, and outlives the server, as on real desktops. test_grid_crashes.py has the plain story;
here no move of the table (states.py) is left out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, select

from laminar.grid.db.schema import metadata, results, tasks
from laminar.grid.db.sheets import Sheet
from laminar.grid.population.behaviour import LIES, pack
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server.service import Denied
from laminar.grid.states import MOVES
from laminar.grid.wire.messages import Ask, Task
from laminar.testing.postgres import postgres, programs
from laminar.train.on_grid import Grid
from tests.torch.grid.test_grid_crashes import Story, folder, remove

__all__ = ["folder"]  # a fixture

LEASE, DEADLINE = 20.0, 90.0
GRID = Grid(workers=8, rounds=3, local_steps=1, quorum=0.5, deadline=DEADLINE, lease=LEASE, attempts=50, late="drop", robust="mean")
# what each does with a task, and after how many seconds
PEOPLE: tuple[tuple[str, float], ...] = (
    ("honest", 5.0),
    ("nan", 5.0),
    ("honest", 10.0),
    ("gives back", 0.0),
    ("random", 5.0),
    ("honest", 1.4 * LEASE),  # its lease has ended, and with luck its round has not
    ("nan", 1.2 * LEASE),
    ("honest", 0.7 * LEASE),  # in time, and too late for its round
    ("honest", 2 * DEADLINE),
)


@dataclass
class Desktop:
    kind: str
    seconds: float
    number: int
    lives: int = 0  # a node that is banned comes again as another
    id: str = ""
    has: list[tuple[float, Task]] = field(default_factory=list)  # and when it answers

    @property
    def key(self) -> str:
        return base64.b64encode(hashlib.sha256(f"{self.number} {self.lives}".encode()).digest()).decode()


class Bustle(Story):
    def __init__(self, database: str) -> None:
        super().__init__(database, GRID)
        self.desktops = [Desktop(kind, seconds, number) for number, (kind, seconds) in enumerate(PEOPLE)]
        self.known: dict[int, bytes] = {}  # versions, as they were when they were first seen
        self.honest: set[int] = set()  # results
        self.dice = np.random.Generator(np.random.PCG64(3))

    def _play(self) -> None:
        hall = self.start()
        run = hall.begin("bustle", self.settings, Clouds.first())
        for one in self.desktops:
            self._come(hall, one)
        for _ in range(600):
            if hall.run(run).state == "done" and not any(one.has for one in self.desktops):
                break
            version = hall.run(run).version
            found = hall.version(run, version).tobytes()
            assert self.known.setdefault(version, found) == found, f"version {version} is another one than before"
            for one in self.desktops:
                self._turn(hall, one)
                hall.now += 0.5
            hall.office.turn()
        assert hall.run(run).state == "done"
        self._check(hall, run)
        hall.close()

    def _turn(self, hall: Hall, one: Desktop) -> None:
        try:
            if one.has and hall.now >= one.has[0][0]:
                self._bring(hall, one, one.has[0][1])
                one.has.pop(0)
            elif not one.has:
                given = hall.ask(one.id).tasks
                if one.kind == "gives back" and given:
                    hall.ask(one.id, Ask(want=0, cannot=[(task.result, "no time") for task in given]))
                else:
                    one.has += [(hall.now + one.seconds, task) for task in given]
        except Denied as error:
            if error.error != "banned":
                raise
            self._come(hall, one)

    @staticmethod
    def _come(hall: Hall, one: Desktop) -> None:
        """As who it is; or, if that one is banned, as somebody else."""
        try:
            one.id = hall.enrol(one.key, f"{one.kind} {one.number}")
        except Denied:
            one.has.clear()
            one.lives += 1
            one.id = hall.enrol(one.key, f"{one.kind} {one.number}")

    def _bring(self, hall: Hall, one: Desktop, task: Task) -> None:
        before = np.frombuffer(self.known[task.version.number], "<f4")
        change = self.problem.work(before, task.seed, task.steps, self.settings)
        if one.kind != "honest":
            change = LIES[one.kind](change, before, self.dice, task.seed)
        else:
            self.honest.add(task.result)
        data = pack(task, change, self.settings.layout, self.sketcher)
        said = hall.answer(one.id, task.result, data)
        if said.state in ("returned", "valid"):  # valid: it was taken before the server was killed, and judged since
            self.acknowledged.add(task.result)
        assert hall.answer(one.id, task.result, data).state != "returned" or said.state == "returned"

    def _check(self, hall: Hall, run: int) -> None:
        with hall.book.transaction() as tx:
            rows = {row.id: row for row in tx.execute(select(results))}
            done = {row.id: row for row in tx.execute(select(tasks))}
        for id in self.acknowledged & self.honest:
            assert rows[id].state in ("valid", "late") and rows[id].used in ("applied", "extra", "dropped"), rows[id]
        assert not [row for row in rows.values() if row.id not in self.honest and row.used is not None and row.state == "valid"]
        assert all(task.state != "open" for task in done.values())
        for version in range(GRID.rounds):  # type: ignore[arg-type]
            self.known.setdefault(version + 1, hall.version(run, version + 1).tobytes())
            before, after = (np.frombuffer(self.known[number], "<f4") for number in (version, version + 1))
            used = {row.task for row in rows.values() if row.used == "applied" and done[row.task].version == version}
            assert used
            mean = np.mean([self.problem.work(before, done[id].seed, done[id].steps, self.settings) for id in sorted(used)], axis=0)
            assert np.allclose(after, before - mean, atol=1e-5), f"version {version + 1} is not what was applied in it"


def moves_of(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """That results make from now on."""
    seen: set[tuple[str, str]] = set()
    change = Sheet.change

    def noted(self: Sheet, row: Any, **columns: Any) -> None:
        if self.table is results and columns.get("state", row.state) != row.state:
            seen.add((row.state, columns["state"]))
        change(self, row, **columns)

    monkeypatch.setattr(Sheet, "change", noted)
    return seen


def walk(database: str, step: int, first: int | None = None) -> None:
    """`database`: with {} for a number, or one of PostgreSQL, which is emptied each time."""
    whole = Bustle("sqlite://")
    whole.survive(-1)
    engine = create_engine(database) if database.startswith("postgresql") else None
    for kill_at in range(step // 2 + 1 if first is None else first, whole.statements, step):
        if engine is not None:
            with engine.begin() as connection:
                metadata.drop_all(connection)
        story = Bustle(database.format(kill_at))
        story.survive(kill_at)
        assert story.kills >= 1 or (engine is not None and kill_at >= story.statements)  # PostgreSQL needs fewer statements
        if engine is None:
            remove(story.database)
    if engine is not None:
        engine.dispose()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres("fsync=off", "synchronous_commit=off") as url:
        yield url


def test_every_move_of_the_table_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = moves_of(monkeypatch)
    Bustle("sqlite://").survive(-1)
    assert made == {(before.value, after.value) for before, possible in MOVES.items() for after in possible}


def test_killed_here_and_there(folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", 1009)


def test_killed_here_and_there_on_postgresql(server: str) -> None:
    walk(server, 3001)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [19, 56], ids="from {}".format)
def test_killed_at_every_37th_statement(first: int, folder: Path) -> None:
    walk(f"sqlite:///{folder}/{{}}.db", 74, first)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [51, 152], ids="from {}".format)
def test_killed_at_every_101st_statement_on_postgresql(first: int, server: str) -> None:
    walk(server, 202, first)
