"""A transfer: a thread for every connection that has work, around a swarm that decides. Nothing is decided here.

One lock guards the swarm and what arrives. Hashing and writing happen outside of it, and only proved units are written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, final

from laminar.core.clock import Clock
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.fillings import Filling, filling
from laminar.data.mirrors.health import Patience
from laminar.data.mirrors.parts import Part
from laminar.data.mirrors.readers.protocol import Ask, Reader
from laminar.data.mirrors.swarm import Swarm
from laminar.data.mirrors.swarm_messages import Arrived, Cancel, Event, Failed, GiveUp, Had, Lied, Proved, Ready, Shorten, Start, Tick
from laminar.data.mirrors.wanted import Wanted

TICK: Final = 0.05  # seconds
FAREWELL: Final = 1.0  # seconds that threads have to end, together


@dataclass(eq=False)
class _Order:
    """What a connection was told to fetch; `first` and `have` move on, `last` may come nearer."""

    connection: int
    file: int
    first: int
    last: int
    have: int
    skip: bool
    cancelled: bool = False
    ended: bool = False  # the swarm knows

    def over(self) -> bool:
        return self.cancelled or self.ended


@final
class Transfer:
    def __init__(
        self,
        files: Sequence[Wanted],
        had: Sequence[Collection[int]],
        parts: Sequence[Part | None],
        cache: FileCache,
        mirrors: Sequence[tuple[Callable[[], Reader], int]],  # how a connection to it is made, and how many
        *,
        patience: Patience,
        backwards: bool,
        clock: Clock,
    ) -> None:
        self.given_up: dict[int, tuple[str, ...]] = {}
        self.received = [0] * len(mirrors)  # bytes
        self.seconds = [0.0] * len(mirrors)  # in which at least one connection was at work
        self.proved = 0  # bytes
        self.had = 0  # bytes of these that another process fetched
        self.fetched: set[int] = set()  # files of which some came to us
        self.swarm = Swarm(files, had, [count for _, count in mirrors], patience=patience, backwards=backwards)
        self._files, self._parts, self._cache, self._clock = files, parts, cache, clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._make = [mirrors[self.swarm.mirror_of(c)][0] for c in range(sum(count for _, count in mirrors))]
        self._readers: dict[int, Reader] = {}
        self._orders: dict[int, _Order] = {}
        self._waiting = [threading.Condition(self._lock) for _ in self._make]
        self._threads: dict[int, threading.Thread] = {}
        self._fillings: dict[tuple[int, int], Filling] = {}
        self._at_work = [0] * len(mirrors)
        self._since = [0.0] * len(mirrors)
        self._finishing = 0
        self._fatal: BaseException | None = None
        self._stopped = False

    def run(self, progress: Callable[[int], None]) -> None:
        """Until everything is there or given up. `progress` is told how many bytes were proved, in this thread."""
        try:
            while True:
                with self._lock:
                    self._tell(Tick())
                    if self._fatal is not None:
                        raise self._fatal
                    if self.swarm.done and not self._finishing:
                        break
                    self._changed.wait(TICK)
                    proved = self.proved
                progress(proved)
            progress(self.proved)
        finally:
            self._stop()

    # Under the lock

    def _tell(self, event: Event) -> None:
        for action in self.swarm.on(event, self._clock.monotonic()):
            match action:
                case Start(connection, file, first, last, have, skip):
                    self._orders[connection] = _Order(connection, file, first, last, have, skip)
                    self._account(self.swarm.mirror_of(connection), 1)
                    if connection in self._threads:
                        self._waiting[connection].notify()
                    else:
                        thread = threading.Thread(target=self._work, args=(connection,), name=f"mirror-{connection}", daemon=True)
                        self._threads[connection] = thread
                        thread.start()
                case Shorten(connection, last):
                    self._orders[connection].last = last
                case Cancel(connection):
                    self._revoke(connection)
                case GiveUp(file, reasons):
                    self.given_up[file] = reasons
                case _:
                    pass  # rests and bans are the swarm's own affair
        if self.swarm.done:
            self._changed.notify()

    def _revoke(self, connection: int) -> None:
        self._orders.pop(connection).cancelled = True
        self._account(self.swarm.mirror_of(connection), -1)
        if connection in self._readers:
            self._readers[connection].abort()

    def _end(self, order: _Order, event: Event) -> None:
        """The order is over, and so the swarm is told."""
        if not order.over():
            order.ended = True
            del self._orders[order.connection]
            self._account(self.swarm.mirror_of(order.connection), -1)
            self._tell(event)

    def _account(self, mirror: int, change: int) -> None:
        now = self._clock.monotonic()
        if self._at_work[mirror]:
            self.seconds[mirror] += now - self._since[mirror]
        self._since[mirror] = now
        self._at_work[mirror] += change

    # In the thread of a connection

    def _work(self, connection: int) -> None:
        reader: Reader | None = None
        order: _Order | None = None
        try:
            while (order := self._next(connection, order)) is not None:
                try:
                    if reader is None:
                        reader = self._make[connection]()
                        self._readers[connection] = reader
                    self._fetch(order, reader)
                except Fault as fault:
                    with self._lock:
                        self._end(order, Failed(connection, fault.kind, fault.why))
                except _Cancelled:
                    pass
        except BaseException as error:
            with self._lock:
                self._fatal = self._fatal or error
                self._changed.notify()
        finally:
            if reader is not None:
                reader.close()

    def _next(self, connection: int, before: _Order | None) -> _Order | None:
        with self._lock:
            if before is not None and before.cancelled and not self._stopped:
                self._tell(Ready(connection))
            while connection not in self._orders and not self._stopped and self._fatal is None:
                self._waiting[connection].wait()
            return None if self._stopped or self._fatal is not None else self._orders[connection]

    def _fetch(self, order: _Order, reader: Reader) -> None:
        self._pass_over(order)
        wanted = self._files[order.file]
        if not order.over():
            self._begin(order)
        if order.over():
            return
        end = wanted.start(order.last)
        skip = (lambda count: self._skipped(order, count)) if order.skip else None
        with contextlib.closing(reader.stream(Ask(wanted.path, wanted.start(order.first) + order.have, end, wanted.size, skip))) as stream:
            for block in stream:
                self._take(order, block)
                if order.over() and (order.cancelled or wanted.start(order.first) < end):
                    return
        if not order.over():
            raise Fault(Kind.SHORT, f"ends after {wanted.start(order.first) + order.have:,} bytes")

    def _begin(self, order: _Order) -> None:
        """Take up what is there of the first unit."""
        with self._lock:
            unit = self._fillings.get((order.file, order.first))
            if order.have == 0 and unit is not None:
                del self._fillings[order.file, order.first]
                unit.drop()
        if unit is not None and order.have == self._files[order.file].length(order.first):
            self._whole(order, unit)

    def _take(self, order: _Order, block: bytes) -> None:
        """Add a block to the units it belongs to."""
        wanted, rest = self._files[order.file], memoryview(block)
        while rest.nbytes and not order.over():
            count = min(rest.nbytes, wanted.length(order.first) - order.have)
            with self._lock:
                if order.cancelled:
                    return
                key = (order.file, order.first)
                unit = self._fillings.get(key)
                if unit is None:
                    unit = self._fillings[key] = filling(wanted, order.first, self._cache, self._parts[order.file])
                unit.add(rest[:count])
                order.have += count
                self.received[self.swarm.mirror_of(order.connection)] += count
                self._tell(Arrived(order.connection, count))
            rest = rest[count:]
            if order.have == wanted.length(order.first):
                self._whole(order, unit)

    def _whole(self, order: _Order, unit: Filling) -> None:
        """Prove a unit, and keep it if it is what it should be."""
        wanted = self._files[order.file]
        found = unit.digest()
        good = found == wanted.digest(order.first)
        if good:
            unit.keep()
        with self._lock:
            if order.cancelled:
                return
            del self._fillings[order.file, order.first]
            if not good:
                unit.drop()
                what = "wrong data" if wanted.units == 1 else f"wrong data at byte {wanted.start(order.first):,}"
                self._end(order, Lied(order.connection, f"{what} (sha256 {found[:12]}…, not {wanted.digest(order.first)[:12]}…)"))
                return
            complete = self._done(order, Proved(order.connection))
        if complete:
            self._finish(order.file)

    def _done(self, order: _Order, event: Proved | Had) -> bool:
        """Under the lock: one unit more. Whether the file is to be finished, because it was the last of several."""
        count = self._files[order.file].length(order.first)
        self.proved += count
        if isinstance(event, Had):
            self.had += count
        else:
            self.fetched.add(order.file)
        order.first, order.have = order.first + 1, 0
        complete = self._parts[order.file] is not None and self.swarm.left(order.file) == 1
        self._finishing += complete
        if order.first == order.last:
            self._end(order, event)
        else:
            self._tell(event)
        return complete

    def _finish(self, file: int) -> None:
        """Whoever proved the last unit makes the file one of the cache."""
        part, good = self._parts[file], False
        assert part is not None
        try:
            good = part.finish()
        finally:
            with self._lock:
                self._finishing -= 1
                self._changed.notify()
                if not good:
                    self.given_up[file] = ("the digests of its chunks and that of the whole contradict each other: the index is wrong",)

    def _pass_over(self, order: _Order) -> None:
        """Units that another process has fetched meanwhile."""
        part, wanted = self._parts[order.file], self._files[order.file]
        while not order.over():
            if self._cache.path(wanted.sha256) is None and (part is None or not part.has(order.first)):
                return
            with self._lock:
                if order.cancelled:
                    return
                dropped = self._fillings.pop((order.file, order.first), None)
                if dropped is not None:
                    dropped.drop()
                complete = self._done(order, Had(order.connection))
            if complete:
                self._finish(order.file)

    def _skipped(self, order: _Order, count: int) -> None:
        with self._lock:
            self.received[self.swarm.mirror_of(order.connection)] += count
            if order.cancelled:
                raise _Cancelled
            self._tell(Arrived(order.connection, 0, count))

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for mirror in range(len(self._at_work)):
                self._account(mirror, 0)
            for connection in list(self._orders):
                self._revoke(connection)
            for reader in self._readers.values():
                reader.abort()
            for waiting in self._waiting:
                waiting.notify()
        end = self._clock.monotonic() + FAREWELL
        for thread in self._threads.values():
            thread.join(max(0.0, end - self._clock.monotonic()))
        with self._lock:
            for unit in self._fillings.values():
                unit.drop()
            self._fillings.clear()
        for part in self._parts:
            if part is not None:
                part.close()


class _Cancelled(Exception):
    """A stream is of no use any more."""
