"""What happens to a server from outside: its disk is full, its database is restarted, its clock jumps. No answer it has taken is lost."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import DBAPIError

from laminar.grid.db.schema import results
from laminar.testing.postgres import postgres, programs, restart
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

GRID = Grid(workers=4, rounds=8, local_steps=2, deadline=1000.0, lease=500.0, attempts=50)


def play(made: Crowd, harm: Callable[[int], None], failures: tuple[type[Exception], ...]) -> tuple[set[int], int]:
    """Train to the end, with something done to the server before each turn. Answers it took, and requests that failed."""
    taken: set[int] = set()
    failed = 0
    for turn in range(400):
        harm(turn)
        for number, id in enumerate(made.ids):
            try:
                task = made.take(number)
                if task is not None and made.hall.answer(id, task.result, made.packed(number, task)).state == "returned":
                    taken.add(task.result)
                made.hall.office.turn()
            except failures:
                failed += 1
            made.hall.now += 20.0
        with contextlib.suppress(*failures):
            if made.hall.run(made.run).state == "done":
                return taken, failed
    raise AssertionError("it never ended")


def check(made: Crowd, taken: set[int]) -> None:
    with made.hall.book.transaction() as tx:
        rows = {row.id: row for row in tx.execute(select(results))}
    assert all(rows[id].used in ("applied", "extra", "dropped") for id in taken)
    assert made.hall.run(made.run).version == GRID.rounds and made.accuracy > 0.8
    made.hall.book.close()


def test_a_full_disk_loses_nothing_and_training_goes_on_when_there_is_room(tmp_path: Path) -> None:
    made = Crowd(["honest"] * 4, GRID, database=f"sqlite:///{tmp_path}/grid.db")
    most = [1 << 30]
    made.hall.book.close()  # so that every connection from here on has the limit

    def limit(connection: Any, record: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {most[0]}")

    event.listen(made.hall.book.engine, "connect", limit)

    def full(turn: int) -> None:
        """From the second turn to the sixth the disk is full: SQLite says so as it does of a real one."""
        if turn == 1:
            most[0] = made.hall.desk.do(lambda tx: tx.raw.execute("PRAGMA page_count").fetchone()[0])
            made.hall.book.close()
        if turn == 6:
            most[0] = 1 << 30
            made.hall.book.close()

    taken, failed = play(made, full, (DBAPIError, sqlite3.OperationalError))
    assert failed > 0
    check(made, taken)


def test_a_database_that_is_restarted_again_and_again(tmp_path: Path) -> None:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    import psycopg

    with postgres() as url:
        made = Crowd(["honest"] * 4, GRID, database=url)
        taken, failed = play(made, lambda turn: restart(url) if turn in (1, 2, 4) else None, (DBAPIError, psycopg.Error))
        assert failed >= 3
        check(made, taken)


@pytest.mark.parametrize("jump", [-86400.0, -30.0, 30.0, 86400.0])
def test_a_clock_that_jumps(jump: float) -> None:
    made = Crowd(["honest"] * 4, GRID)

    def leap(turn: int) -> None:
        if turn in (1, 3):
            made.hall.now += jump

    taken, _ = play(made, leap, ())
    check(made, taken)
