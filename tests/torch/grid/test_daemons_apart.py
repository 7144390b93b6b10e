"""Daemons in processes of their own, on one PostgreSQL: rows are shared out between those of a kind, and nothing is done twice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from laminar.core.errors import LaminarError
from laminar.grid.daemons.assimilator import Assimilator
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.daemons.office import NAMES, Office
from laminar.grid.db.book import Book
from laminar.grid.desk import DirectDesk
from laminar.testing.postgres import postgres, programs
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres("fsync=off", "synchronous_commit=off") as url:
        yield url


def test_every_daemon_apart_and_two_of_each_kind(server: str) -> None:
    grid = Grid(workers=6, rounds=5, local_steps=2, deadline=600.0, lease=600.0)
    crowd = Crowd(["honest"] * 6, grid, database=server)
    with contextlib.ExitStack() as held:
        books = [held.enter_context(contextlib.closing(Book.open(server))) for _ in range(2 * len(NAMES))]
        play(crowd, books)
    run = crowd.hall.run(crowd.run)
    assert (run.state, run.version) == ("done", 5)
    assert crowd.counts["tasks"] <= 36 and crowd.counts["applied"] <= 30 and crowd.counts["valid"] >= crowd.counts["applied"]
    assert not any(what.startswith("refused") for what in crowd.counts) and crowd.banned() == []
    crowd.hall.book.close()


def play(crowd: Crowd, books: list[Book]) -> None:
    offices = [
        Office(DirectDesk(book), Assimilator(TorchLearner()), crowd.hall.clock, only=[name])
        for book, name in zip(books, [*NAMES, *NAMES], strict=True)
    ]
    crowd.hall.office = Office(crowd.hall.desk, crowd.hall.assimilator, crowd.hall.clock, feeder=crowd.hall.feeder, only=())
    for _ in range(400):
        if crowd.hall.run(crowd.run).state == "done":
            break
        for number in range(6):
            task = crowd.take(number)
            if task is not None:
                crowd.hall.answer(crowd.ids[number], task.result, crowd.packed(number, task))
            crowd.hall.now += 1.0
        threads = [threading.Thread(target=office.turn) for office in offices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        crowd.hall.office.turn()


def test_several_that_begin_at_once_on_an_empty_database(server: str) -> None:
    name = "laminar_at_once"
    with contextlib.closing(Book.open(server)) as book, book.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as admin:
        admin.exec_driver_sql(f"CREATE DATABASE {name}")
    opened, failed = [], []
    together = threading.Barrier(6)

    def begin() -> None:
        together.wait(30)
        try:
            opened.append(Book.open(server.replace("/postgres?", f"/{name}?")))
        except LaminarError as error:
            failed.append(error.message)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for one in opened:
        one.close()
    assert failed == [] and len(opened) == 6
