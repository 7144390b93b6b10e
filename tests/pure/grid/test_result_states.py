"""The life of a result: what is not in the table does not happen, whatever is tried in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from laminar.grid.db.book import Book
from laminar.grid.db.moves import end_task, move
from laminar.grid.db.schema import results, tasks
from laminar.grid.states import BY_TASK, MOVES, OVER, ResultState, TaskState, may, sources


def test_every_state_can_be_reached_and_left_or_is_the_end() -> None:
    reached, new = {ResultState.UNSENT}, {ResultState.UNSENT}
    while new:
        new = {after for state in new for after in MOVES[state]} - reached
        reached |= new
    assert reached == set(ResultState)
    assert {ResultState.VALID, ResultState.INVALID, ResultState.LATE, ResultState.GIVEN_UP} == OVER
    assert all(may(ResultState(before), after) for after in ResultState for before in sources(after))


@given(st.lists(st.sampled_from(list(ResultState)), max_size=12))
def test_the_database_makes_legal_moves_only(wanted: list[ResultState]) -> None:
    book = Book.open("sqlite://")
    with book.transaction() as tx:
        id = tx.execute(insert(results).values(task=1, run=1, state="unsent").returning(results.c.id)).scalar_one()
    state = ResultState.UNSENT
    for after in wanted:
        with book.transaction() as tx:
            assert move(tx, id, after) == may(state, after)
            state = after if may(state, after) else state
            assert tx.execute(select(results.c.state)).scalar_one() == state.value
    book.close()


@pytest.mark.parametrize("after", list(TaskState))
def test_a_task_ends_once(after: TaskState) -> None:
    book = Book.open("sqlite://")
    with book.transaction() as tx:
        row = {"run": 1, "round": 0, "epoch": 0, "first": 0, "steps": 1, "seed": 0, "progress": 0.0, "state": "open", "made": 0.0}
        id = tx.execute(insert(tasks).values(row).returning(tasks.c.id)).scalar_one()
        assert end_task(tx, id, after) == (after in BY_TASK[TaskState.OPEN])
        assert not end_task(tx, id, after)
    book.close()
