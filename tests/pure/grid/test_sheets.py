"""Sheets: what is changed in memory, in whatever order with statements beside it, comes to the same as if it were written at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from laminar.grid.db import nodes, tasks, uploads
from laminar.grid.db.book import Book, Tx
from laminar.grid.db.moves import move
from laminar.grid.db.schema import nodes as node_table
from laminar.grid.db.schema import results
from laminar.grid.db.schema import tasks as task_table
from laminar.grid.states import ResultState, may
from laminar.grid.wire.messages import Facts

FACTS = Facts(name="n", cores=1, memory=1, platform="p", laminar="0")
COUNT = 4  # tasks, each with one result
TASK: dict[str, Any] = {"run": 1, "round": 0, "epoch": 0, "first": 0, "steps": 1, "seed": 0, "progress": 0, "state": "open", "made": 0}
Step = tuple[str, int, int]


def prepared() -> tuple[Book, list[str]]:
    book = Book.open("sqlite://")
    with book.transaction() as tx:
        secret = nodes.make_token(tx, 0.0)
        token, _ = nodes.use_token(tx, secret, 0.0, known=True)
        assert token is not None
        ids = [nodes.enrol(tx, f"{letter * 43}=", token, FACTS, 0.0) for letter in "AB"]
        tasks.make(tx, [dict(TASK) for _ in range(COUNT)])
    return book, ids


def step(tx: Tx, one: Step, ids: list[str], known: dict[int, str]) -> None:
    """Do it through sheets, or by a statement beside them; `known` is what the states must then be."""
    what, which, value = one
    result, after = which % COUNT + 1, list(ResultState)[value % len(ResultState)]
    match what:
        case "move":
            assert move(tx, result, after, node=ids[value % 2]) == may(ResultState(known[result]), after)
            if may(ResultState(known[result]), after):
                known[result] = after.value
        case "beside":
            tx.execute(update(results).where(results.c.id == result).values(state=after.value))
            known[result] = after.value
        case "credit":
            nodes.judged(tx, ids[which % 2], good=True, compared=False, credit=1.0)
        case "credit beside":
            tx.execute(update(node_table).where(node_table.c.id == ids[which % 2]).values(credit=node_table.c.credit + 1.0))
        case "read":
            assert [row.state for row in tasks.results_of(tx, result)] == [known[result]]
        case _:
            assert dict(tx.execute(select(results.c.id, results.c.state)).all()) == known


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["move", "beside", "credit", "credit beside", "read", "look"]),
                st.integers(0, 7),
                st.integers(0, 7),
            ),
            max_size=12,
        ),
        max_size=4,
    )
)
def test_what_is_pending_is_seen_by_everybody_and_lost_by_nobody(transactions: list[list[Step]]) -> None:
    book, ids = prepared()
    known = dict.fromkeys(range(1, COUNT + 1), "unsent")
    for steps in transactions:
        with book.transaction() as tx:
            for one in steps:
                step(tx, one, ids, known)
    credited = sum(one[0].startswith("credit") for steps in transactions for one in steps)
    with book.transaction() as tx:
        assert dict(tx.execute(select(results.c.id, results.c.state)).all()) == known
        assert sum(tx.execute(select(node_table.c.credit)).scalars()) == credited
    book.close()


def test_many_rows_of_a_transaction_are_few_statements() -> None:
    book, ids = prepared()
    said: list[str] = []
    with book.transaction() as tx:
        tasks.load_answers(tx, range(1, COUNT + 1))
        tx.hook = said.append
        for id in range(1, COUNT + 1):
            assert move(tx, id, ResultState.IN_PROGRESS, node=ids[0], sent=1.0, lease=2.0)
            assert move(tx, id, ResultState.RETURNED, returned=3.0)
            nodes.moved_bytes(tx, ids[0], 5.0, up=10)
            uploads.add(tx, id, 0, b"abc")
        assert said == [said[0]] and "nodes" in said[0]  # the node is read, once
    assert len(said) == 4  # results, nodes, pieces
    with book.transaction() as tx:
        assert tx.execute(select(node_table.c.bytes_up).where(node_table.c.id == ids[0])).scalar_one() == 10 * COUNT
        assert uploads.read_all(tx, [1, 4]) == {1: b"abc", 4: b"abc"}
    book.close()


def test_what_is_undone_is_forgotten() -> None:
    book, ids = prepared()
    with pytest.raises(RuntimeError), book.transaction() as tx:
        move(tx, 1, ResultState.IN_PROGRESS, node=ids[0])
        tx.execute(select(results)).all()  # it was written before it was undone
        raise RuntimeError
    with book.transaction() as tx:
        assert tasks.result(tx, 1).state == "unsent"
        assert move(tx, 1, ResultState.IN_PROGRESS, node=ids[0])
    book.close()


def test_a_row_that_is_made_after_it_was_missed_is_found() -> None:
    book, _ = prepared()
    with book.transaction() as tx:
        assert tasks.task(tx, 99) is None and tasks.result(tx, 99) is None
        tx.execute(insert(task_table).values(id=99, **TASK))
        tx.execute(insert(results).values(id=99, task=99, run=1, state="unsent"))
        assert tasks.task(tx, 99).id == 99 and tasks.result(tx, 99).task == 99
    book.close()


def test_pieces_are_read_and_dropped_whether_they_are_written_or_not() -> None:
    book, _ = prepared()
    with book.transaction() as tx:
        uploads.add(tx, 1, 0, b"ab")
        uploads.add(tx, 2, 0, b"x")
    with book.transaction() as tx:
        uploads.add(tx, 1, 2, b"cd")
        uploads.add(tx, 3, 0, b"new")
        assert uploads.read_all(tx, [1, 2, 3, 4]) == {1: b"abcd", 2: b"x", 3: b"new", 4: b""}
        assert uploads.size(tx, 1) == 4
        uploads.drop(tx, [1, 3])
        assert uploads.read_all(tx, [1, 2, 3]) == {1: b"", 2: b"x", 3: b""}
    with book.transaction() as tx:
        assert uploads.read_all(tx, [1, 2, 3]) == {1: b"", 2: b"x", 3: b""}
    book.close()
