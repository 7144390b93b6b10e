"""Slow lines, on virtual time: leases and deadlines count the time that data takes, and an upload under way keeps its lease."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from sqlalchemy import inspect, select, text

from laminar.core.errors import LaminarError
from laminar.grid.db import runs, schema, tasks
from laminar.grid.db.book import Book
from laminar.grid.server import service
from laminar.grid.wire.messages import Ask, Verdict
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

LINE = 80.0  # seconds that a version takes down, and an answer up: 16 MB over 200 kB/s
WORK = 5.0  # seconds of a task
PIECES = 8


@dataclass
class Node:
    """As node/keeper.py does it, over a line on which everything takes its time. What it does next is told in seconds from now."""

    crowd: Crowd
    number: int
    seconds: float = LINE
    speed: float = 0.0
    up: float = 0.0
    down: float = 0.0
    said: list[str] = field(default_factory=list)

    def life(self) -> Iterator[float]:
        hall, id = self.crowd.hall, self.crowd.ids[self.number]
        run = hall.run(self.crowd.run)
        while hall.run(self.crowd.run).state == "open":
            found = hall.ask(id, Ask(want=1, speed=self.speed, up=self.up, down=self.down)).tasks
            if not found:
                yield 5.0
                continue
            (task,) = found
            size = task.version.size
            hall.desk.do(lambda tx, size=size: hall.service.fetch(tx, id, size))
            yield self.seconds
            self.down = size / self.seconds
            yield WORK
            self.speed = task.steps * run.settings.recipe.batch / WORK
            data = self.crowd.packed(self.number, task)
            hall.desk.do(lambda tx, result=task.result: hall.service.here(tx, id, result))
            step = -(-len(data) // PIECES)
            for at in range(0, len(data), step):
                yield self.seconds / PIECES
                piece, whole, result = data[at : at + step], len(data), task.result
                said = hall.desk.do(
                    lambda tx, piece=piece, whole=whole, result=result, at=at: hall.service.deliver(
                        tx, id, result, piece, 1 << 30, at=at, total=whole
                    )
                )
            assert isinstance(said, Verdict)
            self.up = run.settings.answer_size / self.seconds  # as if such a small answer had no head
            self.said.append(said.state)


def play(nodes: list[Node]) -> None:
    hall = nodes[0].crowd.hall
    lives = [node.life() for node in nodes]
    queue = [(hall.now, number) for number in range(len(nodes))]
    looks = hall.now
    while queue:
        when, number = heapq.heappop(queue)
        while looks < when:  # daemons look each second
            looks = min(looks + 1.0, when)
            hall.now = looks
            hall.office.turn()
        hall.now = when
        seconds = next(lives[number], None)
        hall.office.turn()
        if seconds is not None:
            heapq.heappush(queue, (when + seconds, number))


def crowd(nodes: int, rounds: int, **settings: object) -> Crowd:
    given = {"workers": nodes, "rounds": rounds, "local_steps": 2, "quorum": 1.0, "replicate": "never"} | settings
    return Crowd(["honest"] * nodes, Grid(**given))  # type: ignore[arg-type]


def unmarked(made: Crowd) -> bool:
    """No lease ended without an answer, and no node has fewer tasks a day, or a worse record, for it."""
    return all(row["lost"] == 0 and row["invalid"] == 0 and row["quota"] >= 64 for row in made.known())


def test_forty_large_answers_over_slow_lines_are_none_lost() -> None:
    made = crowd(8, 5)
    nodes = [Node(made, number) for number in range(8)]
    play(nodes)
    assert made.hall.run(made.run).state == "done"
    assert sum(len(node.said) for node in nodes) == 40 and {state for node in nodes for state in node.said} == {"returned"}
    counts = made.counts
    assert counts["answers"] == 40 and counts["applied"] == 40 and counts["tasks"] == 40 and not counts.get("lost")
    assert unmarked(made)


def test_a_deadline_leaves_the_data_its_time() -> None:
    """Data is on the line for 160 s; the work of a round may take 60."""
    made = crowd(4, 5, deadline=60.0)
    size = made.settings.size / LINE
    nodes = [Node(made, number, up=size, down=size) for number in range(4)]  # as measured when they last worked here
    play(nodes)
    closed = [(row["why"], row["answers"]) for row in made.hall.desk.do(lambda tx: runs.rounds_of(tx, made.run))]
    assert closed == [("quorum", 4)] * 5
    assert unmarked(made) and made.counts["applied"] == 20


def test_a_few_who_say_to_be_slow_hold_up_nobody() -> None:
    made = crowd(5, 2, quorum=0.8, deadline=60.0)
    hall = made.hall
    given = [hall.ask(id, Ask(want=1, up=1.0 if number == 4 else 0.0)).tasks for number, id in enumerate(made.ids)]
    assert all(given)
    hall.now += 61.0
    hall.office.turn()
    assert hall.run(made.run).round == 1  # the deadline held


def test_a_line_that_has_become_slow_costs_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that were quick, by a line that was a hundred times as fast: a lease of a minute, data of eight."""
    monkeypatch.setattr(service, "FETCHED", 1)
    monkeypatch.setattr(service, "ON_THE_WAY", 10.0)
    made = crowd(4, 4, deadline=3000.0)
    nodes = [Node(made, number, seconds=0.5) for number in range(4)]
    for node in nodes:
        node.up = node.down = 1e9
        node.speed = 1e6
        node.seconds = 4 * LINE
    play(nodes)
    assert made.counts["answers"] == 16 and not made.counts.get("lost") and unmarked(made)


def test_who_only_says_to_be_uploading_keeps_a_lease_no_longer_than_twice_what_the_run_allows() -> None:
    made = crowd(1, 1, lease=100.0, deadline=10_000.0)
    (task,) = made.hall.ask(made.ids[0], Ask(want=1, speed=1e9)).tasks
    data, sent, hall = made.packed(0, task), made.hall.now, made.hall

    def state() -> str:
        return str(hall.desk.do(lambda tx: tasks.result(tx, task.result).state))

    at = 0
    while state() == "in progress" and hall.now < sent + 5000:
        hall.desk.do(
            lambda tx, at=at: hall.service.deliver(tx, made.ids[0], task.result, data[at : at + 1], 1 << 30, at=at, total=len(data))
        )
        at += 1
        hall.now += 50.0
        hall.office.turn()
    assert state() == "lost" and 200 < hall.now - sent <= 300


@pytest.mark.parametrize("format", ["3", "4"])
def test_a_database_of_before_gets_the_new_columns(tmp_path_factory: pytest.TempPathFactory, format: str) -> None:
    path = tmp_path_factory.mktemp("old") / "grid.db"
    url = f"sqlite:///{path}"
    book = Book.open(url)
    whole = {table.name: {column.name for column in table.columns} for table in schema.metadata.sorted_tables}
    with book.engine.begin() as connection:
        for statement in schema.ADDED[format]:
            _, _, table, _, _, name, *_ = statement.split()
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {name}"))
        connection.execute(text(f"UPDATE meta SET value = '{format}' WHERE key = 'format'"))
    book.close()
    again = Book.open(url)
    found = inspect(again.engine)
    assert {name: {column["name"] for column in found.get_columns(name)} for name in found.get_table_names()} == whole
    with again.transaction() as tx:
        assert tx.execute(select(schema.meta.c.value)).scalar_one() == str(schema.FORMAT)
    with again.engine.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '2' WHERE key = 'format'"))
    again.close()
    with pytest.raises(LaminarError, match="has format 2"):
        Book.open(url)
