"""Desk: everything that is written goes over it, one thing after the other, and is on disk before anybody is told.

ThreadDesk   one thread; what waits when it is free goes into one transaction, so that one flush of the disk serves many requests (group
             commit). When one of them fails, all of that transaction are done again one by one: only the culprit hears of it.
DirectDesk   in the caller's thread: for the simulator and for tests.

An operation gets a transaction and returns a value. It must change nothing but the database: it may be done again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar, final

from laminar.grid.db.book import Book, Tx


class Harmless(Exception):
    """An operation refuses, and has written nothing: what others do in the same transaction stays."""


MOST: Final = 256  # operations of a transaction
T = TypeVar("T")
Operation = Callable[[Tx], T]


class Desk(Protocol):
    book: Book

    def submit(self, operation: Operation[T]) -> Future[T]: ...
    def do(self, operation: Operation[T]) -> T: ...
    def close(self) -> None: ...


@final
class DirectDesk:
    def __init__(self, book: Book) -> None:
        self.book = book

    def submit(self, operation: Operation[T]) -> Future[T]:
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
        self._queue: queue.SimpleQueue[tuple[Operation[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="laminar-grid-desk", daemon=True)
        self._thread.start()
        self.commits = 0  # transactions so far
        self.operations = 0

    def submit(self, operation: Operation[T]) -> Future[T]:
        done: Future[T] = Future()
        self._queue.put((operation, done))
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
            self._together([one for one in waiting if one is not None and one[1].set_running_or_notify_cancel()])
            if over:
                return

    def _together(self, some: list[tuple[Operation[Any], Future[Any]]]) -> None:
        if not some:
            return
        try:
            with self.book.transaction() as tx:
                found = [_outcome(operation, tx) for operation, _ in some]
        except Exception as error:
            if len(some) == 1:
                some[0][1].set_exception(error)
            else:
                for one in some:
                    self._together([one])
            return
        self.commits += 1
        self.operations += len(some)
        for (_, done), value in zip(some, found, strict=True):
            if isinstance(value, Harmless):
                done.set_exception(value)
            else:
                done.set_result(value)


def _outcome(operation: Operation[Any], tx: Tx) -> Any:
    try:
        return operation(tx)
    except Harmless as error:
        return error
