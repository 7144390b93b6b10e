"""A desk: where an evaluator calls for models to test. One thread; whoever hands something over goes on at once.

What is under way is kept until it is answered: an evaluator that takes the place of one that died is given it again. After `BACK` seconds
without one, or `silence` without a word, it is lost, and said to be so: nobody waits for ever.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final, final

import msgspec
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.evaluation.messages import Failed, Here, Sums, Test, said
from laminar.parallel.wire.hub import Caller, Heard, Hub
from laminar.train.beside import Lost
from laminar.train.checkpoint import pack

BACK: Final = 30.0  # seconds in which another evaluator comes, if one does
TICK: Final = 0.5
LIMIT: Final = 1 << 16  # bytes that an evaluator may send: it has only words


@final
class Desk:
    """One test at a time: `free` says whether there is somebody for the next."""

    def __init__(self, address: str, token: str, silence: float, *, back: float = BACK) -> None:
        """Listens at once; `address` tells where. L405 if it cannot."""
        self._hub = Hub(address, token, payload_limit=LIMIT)
        self.address = self._hub.address
        self._silence, self._back = silence, back
        self._caller: Caller | None = None  # the evaluator that is here
        self._since = time.monotonic()  # when the last one left
        self._under_way: tuple[int, bytes, Future[list[float]]] | None = None
        self._number = 0
        self._arrived: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._over = False
        self._bell, self._rope = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="laminar-desk", daemon=True)
        self._thread.start()

    # For whoever has something to be tested

    @property
    def here(self) -> bool:
        return self._caller is not None

    @property
    def free(self) -> bool:
        return self.here and self._under_way is None

    def test(self, tensors: Mapping[str, Tensor]) -> Future[list[float]]:
        """A copy of them is made before this returns."""
        found: Future[list[float]] = Future()
        data = pack(tensors, {})
        with self._lock:
            assert self._under_way is None
            self._number += 1
            self._under_way = self._number, data, found
        os.write(self._rope, b"!")
        return found

    def arrived(self) -> list[dict[str, Any]]:
        with self._lock:
            found, self._arrived = self._arrived, []
        return found

    def close(self) -> None:
        """At which the evaluator leaves. Twice is no mistake."""
        if not self._over:
            self._over = True
            os.write(self._rope, b"!")
            self._thread.join()
            self._hub.close()
            os.close(self._bell)
            os.close(self._rope)
            self._lose("there is no evaluator any more")

    # The thread

    def _serve(self) -> None:
        given = 0  # the number of the test that the evaluator which is here was given
        with selectors.DefaultSelector() as both:
            both.register(self._hub.fileno(), selectors.EVENT_READ)
            both.register(self._bell, selectors.EVENT_READ)
            while not self._over:
                for key, _ in both.select(TICK):
                    if key.fd == self._bell:
                        os.read(self._bell, 64)
                for heard in self._hub.turn(0):
                    if self._hear(heard):
                        given = 0
                self._look_at_the_clock()
                with self._lock:
                    task = self._under_way
                if task is not None and self._caller is not None and given != task[0]:
                    given = task[0]
                    self._hub.send(self._caller, Test(number=given), task[1])

    def _hear(self, heard: Heard) -> bool:
        """Is there another evaluator now?"""
        caller = heard.caller
        if heard.header is None:
            self._left(caller)
            return False
        try:
            told = said(heard.header)
        except msgspec.ValidationError:
            self._hub.drop(caller)
            self._left(caller)
            return False
        caller.heard = time.monotonic()
        match told:
            case Here(pid=pid, host=host):
                if self._caller is not None:
                    self._hub.drop(self._caller)
                self._caller = caller
                with self._lock:
                    self._arrived.append({"role": "evaluator", "rank": 0, "pid": pid, "host": host})
                return True
            case Sums(number=number, sums=sums) if caller is self._caller:
                self._answer(number, lambda found: found.set_result([math.nan if one is None else one for one in sums]))
            case Failed(number=number, code=code, message=message, hint=hint) if caller is self._caller:
                self._answer(number, lambda found: found.set_exception(LaminarError(code, message, hint=hint)))
            case _:
                pass
        return False

    def _left(self, caller: Caller) -> None:
        if caller is self._caller:
            self._caller, self._since = None, time.monotonic()

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._caller is not None and now - self._caller.heard > self._silence:
            self._hub.drop(self._caller)
            self._left(self._caller)
        if self._caller is None and now - self._since > self._back:
            self._lose(f"the evaluator is gone, and none has come for {self._back:g} s")

    def _answer(self, number: int, how: Callable[[Future[list[float]]], None]) -> None:
        with self._lock:
            if self._under_way is None or self._under_way[0] != number:
                return
            found, self._under_way = self._under_way[2], None
        with contextlib.suppress(InvalidStateError):
            how(found)

    def _lose(self, why: str) -> None:
        with self._lock:
            if self._under_way is None:
                return
            found, self._under_way = self._under_way[2], None
        with contextlib.suppress(InvalidStateError):
            found.set_exception(Lost(why))
