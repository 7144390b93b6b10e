"""Desk: everything that is written goes over it, one thing after the other, and is on disk before anybody is told.

ThreadDesk   one thread; what waits when it is free goes into one transaction, so that one flush of the disk serves many requests (group
             commit), and what they have in common is read and done once (Together). When one of them fails, all of that transaction are
             done again one by one: only the culprit hears of it.
DirectDesk   in the caller's thread: for the simulator and for tests.

An operation gets a transaction and returns a value. It must change nothing but the database: it may be done again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, final

from laminar.grid.db.book import Book, Tx


class Harmless(Exception):
    """An operation refuses, and has written nothing: what others do in the same transaction stays."""


MOST: Final = 256  # operations of a transaction
T = TypeVar("T")
Operation = Callable[[Tx], T]


@dataclass(frozen=True, slots=True)
class Wants:
    """What an operation is about, so that it can be read together with what others need. `asks`: the node asks for work; `spent`: results
    that it says it has spent time on.

    `passing`: nobody is told that it is done for good. A task that was given out and is forgotten after a power cut is given out again.
    """

    node: str
    result: int | None = None
    asks: bool = False
    passing: bool = False
    spent: tuple[int, ...] = ()


_Waiting = tuple[Operation[Any], Wants | None, Future[Any]]


class Together(Protocol):
    """What is done once for all operations of a transaction."""

    def before(self, tx: Tx, wants: Sequence[Wants]) -> None: ...
    def after(self, tx: Tx) -> None: ...


class Desk(Protocol):
    book: Book

    def submit(self, operation: Operation[T], wants: Wants | None = None) -> Future[T]: ...
    def do(self, operation: Operation[T]) -> T: ...
    def close(self) -> None: ...


@final
class DirectDesk:
    def __init__(self, book: Book) -> None:
        self.book = book

    def submit(self, operation: Operation[T], wants: Wants | None = None) -> Future[T]:  # noqa: ARG002
        done: Future[T] = Future()
        try:
            done.set_result(self.do(operation))
        except Exception as error:
            done.set_exception(error)
        return done

    def do(self, operation: Operation[T]) -> T:
        with self.book.transaction() as tx:
            return operation(tx)

    def close(self) -> None:
        pass


@final
class ThreadDesk:
    def __init__(self, book: Book) -> None:
        self.book = book
        self.together: Together | None = None
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="laminar-grid-desk", daemon=True)
        self._thread.start()
        self.commits = 0  # transactions so far
        self.operations = 0

    def submit(self, operation: Operation[T], wants: Wants | None = None) -> Future[T]:
        done: Future[T] = Future()
        self._queue.put((operation, wants, done))
        return done

    def do(self, operation: Operation[T]) -> T:
        return self.submit(operation).result()

    def close(self) -> None:
        """What waits is done first."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            waiting = [self._queue.get()]
            while len(waiting) < MOST and waiting[-1] is not None:
                try:
                    waiting.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            over = waiting[-1] is None
            self._transaction([one for one in waiting if one is not None and one[2].set_running_or_notify_cancel()])
            if over:
                return

    def _transaction(self, some: list[_Waiting]) -> None:
        if not some:
            return
        try:
            found = at_once(self.book, [(operation, wants) for operation, wants, _ in some], self.together)
        except Exception as error:
            if len(some) == 1 and self.together is None:
                some[0][2].set_exception(error)
            else:
                self._one_by_one(some)
            return
        self._tell(some, found)

    def _tell(self, some: list[_Waiting], found: list[Any]) -> None:
        self.commits += 1
        self.operations += len(some)
        for (_, _, done), value in zip(some, found, strict=True):
            if isinstance(value, Harmless):
                done.set_exception(value)
            else:
                done.set_result(value)

    def _one_by_one(self, some: list[_Waiting]) -> None:
        """Alone, and without what is done for all: an answer is taken in whatever fails that comes after it."""
        for one in some:
            try:
                found = at_once(self.book, [one[:2]], None)
            except Exception as error:
                one[2].set_exception(error)
            else:
                self._tell([one], found)


def at_once(book: Book, some: Sequence[tuple[Operation[Any], Wants | None]], together: Together | None) -> list[Any]:
    """Operations in one transaction. What they return, or the Harmless that they raise."""
    durable = any(wants is None or not (wants.asks or wants.passing) for _, wants in some)
    with book.transaction(durable=durable) as tx:
        if together is not None:
            together.before(tx, [wants for _, wants in some if wants is not None])
        found = [_outcome(operation, tx) for operation, _ in some]
        if together is not None:
            together.after(tx)
    return found


def _outcome(operation: Operation[Any], tx: Tx) -> Any:
    try:
        return operation(tx)
    except Harmless as error:
        return error
