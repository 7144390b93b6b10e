"""Many rows in one statement: what is written is what is read, whatever the words are, and ids come in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from laminar.grid.db import bulk, tasks
from laminar.grid.db.book import Book
from laminar.grid.db.schema import results
from laminar.grid.db.schema import tasks as task_table
from laminar.testing.postgres import postgres, programs

WORDS = ["", "NULL", "null", 'a "word"', "back\\slash", "{a,b}", "two\nlines", "naïve ≥", " blank ", "%s", "'", None]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.skipif(programs() is None, reason="none"))])
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    if request.param == "sqlite":
        made = Book.open("sqlite://")
        yield made
        made.close()
        return
    with postgres("fsync=off") as url:
        made = Book.open(url)
        yield made
        made.close()


def test_words_numbers_and_nothing_come_back_as_they_were(book: Book) -> None:
    with book.transaction() as tx:
        columns = ("task", "run", "state", "priority", "check", "verdict", "bytes")
        rows = [(2**40 + i, 1, "unsent", -i, i % 2 == 0, "", 2**50 + i) for i in range(len(WORDS))]
        ids = bulk.number(tx, results, columns, rows)
        changed = ("node", "verdict", "lease", "sketch", "norm")
        values = [(word and word[:20], word or "", i / 3, None if word is None else word.encode(), 1e-300) for i, word in enumerate(WORDS)]
        bulk.change(tx, results, changed, [(*one, id) for one, id in zip(values, ids, strict=True)])
    with book.transaction() as tx:
        found = tx.execute(select(*(results.c[name] for name in (*columns, *changed))).order_by(results.c.id)).all()
        read = bulk.read(tx, results, "id", ids, columns=("id", "task"))
        by_word = bulk.read(tx, results, "node", [word for word in WORDS if word is not None], columns=("node",))
        bulk.remove(tx, results, "id", ids)
        assert bulk.read(tx, results, "id", ids) == []
    kept = [(*row[:5], one[1], row[6], *one) for row, one in zip(rows, values, strict=True)]
    assert [tuple(row) for row in found] == kept
    assert sorted(tuple(row) for row in read) == [(id, row[0]) for id, row in zip(ids, rows, strict=True)]
    assert sorted(word for (word,) in by_word) == sorted(word for word in WORDS if word is not None)


def test_tasks_are_numbered_in_their_order_and_have_a_result_each(book: Book) -> None:
    about = {"run": 7, "round": 0, "epoch": 0, "first": 0, "steps": 1, "progress": 0, "state": "open", "made": 0}
    with book.transaction() as tx:
        tasks.make(tx, [{**about, "seed": 1000 - i} for i in range(300)])
    with book.transaction() as tx:
        made = tx.execute(select(task_table.c.seed, task_table.c.needs, task_table.c.attempts).order_by(task_table.c.id)).all()
        joined = select(results.c.id, task_table.c.id).join(task_table, results.c.task == task_table.c.id).order_by(results.c.id)
        pairs = tx.execute(joined).all()
    assert [tuple(row) for row in made] == [(1000 - i, 1, 0) for i in range(300)]
    assert [task for _, task in pairs] == sorted({task for _, task in pairs}) and len(pairs) == 300
