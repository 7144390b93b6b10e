"""The desk: many operations in one transaction, and who refuses or fails is alone with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select

from laminar.grid.db.book import Book, Tx
from laminar.grid.db.schema import meta
from laminar.grid.desk import Harmless, ThreadDesk, Wants, at_once


def put(key: str) -> object:
    def operation(tx: Tx) -> str:
        tx.execute(insert(meta).values(key=key, value="x"))
        return key

    return operation


def refuse(tx: Tx) -> None:
    raise Harmless("no")


def fail(tx: Tx) -> None:
    tx.execute(insert(meta).values(key="half", value="x"))
    raise ValueError("broken")


def test_one_that_refuses_leaves_the_others_in_their_transaction(tmp_path: Path) -> None:
    book = Book.open(f"sqlite:///{tmp_path}/x.db")
    undone: list[bool] = []
    book.rolled_back.append(lambda: undone.append(True))
    desk = ThreadDesk(book)
    futures = [desk.submit(operation) for operation in (put("a"), refuse, put("b"))]  # type: ignore[arg-type]
    assert [futures[0].result(), futures[2].result()] == ["a", "b"]
    with pytest.raises(Harmless, match="no"):
        futures[1].result()
    assert undone == []
    desk.close()
    book.close()


def test_one_that_fails_is_undone_alone_and_whoever_remembers_is_told(tmp_path: Path) -> None:
    book = Book.open(f"sqlite:///{tmp_path}/x.db")
    undone: list[bool] = []
    book.rolled_back.append(lambda: undone.append(True))
    desk = ThreadDesk(book)
    futures = [desk.submit(operation) for operation in (put("a"), fail, put("b"))]  # type: ignore[arg-type]
    assert [futures[0].result(), futures[2].result()] == ["a", "b"]
    with pytest.raises(ValueError, match="broken"):
        futures[1].result()
    assert undone
    found = desk.do(lambda tx: set(tx.execute(select(meta.c.key)).scalars()))
    assert {"a", "b"} <= found and "half" not in found
    desk.close()
    book.close()


def test_what_nobody_is_told_of_is_not_flushed_and_the_rest_is(tmp_path: Path) -> None:
    """A request for work need not be on the disk before it is answered; an answer must, and whatever shares its transaction is with it."""
    book = Book.open(f"sqlite:///{tmp_path}/x.db")

    def flushes(tx: Tx) -> bool:
        return bool(tx.raw.execute("PRAGMA synchronous").fetchone()[0] == 2)

    def undone(tx: Tx) -> None:
        tx.execute(insert(meta).values(key="half", value="x"))
        raise ValueError("broken")

    asks, counts, answers = Wants("n", asks=True), Wants("n", passing=True), Wants("n", 1)
    assert at_once(book, [(flushes, asks), (flushes, counts)], None) == [False, False]
    assert at_once(book, [(flushes, asks), (flushes, answers)], None) == [True, True]
    assert at_once(book, [(flushes, asks), (flushes, None)], None) == [True, True]
    with pytest.raises(ValueError, match="broken"):
        at_once(book, [(undone, asks)], None)
    assert at_once(book, [(flushes, answers)], None) == [True]  # the connection may be the one of before
    with book.transaction() as tx:
        assert flushes(tx)
    book.close()
