"""Mirrors that exist in virtual time only, to try the swarm on: honest, dead, deaf, slow, lying, truncating, breaking, flapping."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

from laminar.data.mirrors.faults import Kind
from laminar.data.mirrors.health import Patience
from laminar.data.mirrors.swarm import Swarm
from laminar.data.mirrors.swarm_messages import (
    Action,
    Arrived,
    Ban,
    Cancel,
    Event,
    Failed,
    GiveUp,
    Lied,
    Proved,
    Ready,
    Rest,
    Shorten,
    Start,
    Tick,
)
from laminar.data.mirrors.wanted import CHUNK, Wanted

BLOCK = 1 << 17


@dataclass(frozen=True)
class Mirror:
    rate: float = 10e6  # bytes a second, for every connection
    latency: float = 0.01
    connections: int = 2
    dead: bool = False
    deaf: bool = False
    lies: bool = False
    ranges: bool = True
    missing: frozenset[int] = frozenset()
    errors: frozenset[int] = frozenset()
    cut: float = 1.0  # the share of each file that it has
    breaks: int | None = None  # bytes after which every connection breaks
    dies: float = float("inf")  # seconds
    flaps: float | None = None  # seconds up, then as long down

    def up(self, now: float) -> bool:
        return now < self.dies and (self.flaps is None or int(now / self.flaps) % 2 == 0)


@dataclass
class _Order:
    start: Start
    unit: int
    have: int
    last: int
    sent: int = 0
    skip: int = 0


@dataclass
class Simulation:
    files: list[Wanted]
    mirrors: list[Mirror]
    patience: Patience = field(default_factory=Patience)
    now: float = 0.0
    given_up: dict[int, tuple[str, ...]] = field(default_factory=dict)
    banned: set[int] = field(default_factory=set)
    rests: list[Rest] = field(default_factory=list)
    proved: set[tuple[int, int]] = field(default_factory=set)
    bytes: list[int] = field(default_factory=list)  # of each mirror
    starts: list[tuple[float, int, Start]] = field(default_factory=list)  # when, mirror, what
    cancels: int = 0

    def run(self, limit: float = 3000) -> Simulation:
        self.bytes = [0] * len(self.mirrors)
        self.swarm = Swarm(self.files, [()] * len(self.files), [m.connections for m in self.mirrors], patience=self.patience)
        self._orders: dict[int, _Order] = {}
        self._tainted: dict[tuple[int, int], bool] = {}
        self._queue: list[tuple[float, int, int, _Order | None]] = []
        self._count = itertools.count()
        self._stands: dict[int, tuple[int, int]] = {}  # where a connection could go on reading
        self._tell(Tick())
        tick = 0.1
        while not self.swarm.done:
            assert self.now < limit, "it goes on for ever"
            if self._queue and self._queue[0][0] <= tick:
                self.now, _, connection, order = heapq.heappop(self._queue)
                if order is None:
                    self._tell(Ready(connection))
                elif self._orders.get(connection) is order:
                    self._go_on(connection, order)
            else:
                self.now, tick = tick, tick + 0.1
                self._tell(Tick())
        return self

    def surplus(self) -> int:
        """Bytes that came more than once, or for nothing."""
        return sum(self.bytes) - sum(self.files[f].length(u) for f, u in self.proved)

    def _later(self, seconds: float, connection: int, order: _Order | None) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._count), connection, order))

    def _tell(self, event: Event) -> None:
        for action in self.swarm.on(event, self.now):
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Start(connection, file, first, last, have, _):
                mirror = self.swarm.mirror_of(connection)
                assert connection not in self._orders
                assert mirror not in self.banned
                assert all((file, u) not in self.proved for u in range(first, last))
                for other in self._orders.values():
                    assert other.start.file != file or other.last <= first or last <= other.unit
                self.starts.append((self.now, mirror, action))
                if have == 0:
                    self._tainted.pop((file, first), None)
                order = self._orders[connection] = _Order(action, first, have, last)
                if not self.mirrors[mirror].ranges:
                    stands = self._stands.pop(connection, (file, 0))
                    begin = stands[1] if stands[0] == file and stands[1] <= first else 0
                    order.skip = self.files[file].start(first) + have - self.files[file].start(begin)
                self._later(self.mirrors[mirror].latency, connection, order)
            case Shorten(connection, last):
                assert self._orders[connection].unit < last < self._orders[connection].last
                self._orders[connection].last = last
            case Cancel(connection):
                self.cancels += 1
                del self._orders[connection]
                self._later(0.001, connection, None)
            case GiveUp(file, reasons):
                self.given_up[file] = reasons
            case Ban(mirror):
                self.banned.add(mirror)
            case Rest():
                self.rests.append(action)

    def _go_on(self, connection: int, order: _Order) -> None:
        """The next block of an order arrives, or something happens to it."""
        number = self.swarm.mirror_of(connection)
        mirror, file = self.mirrors[number], order.start.file
        wanted = self.files[file]
        if mirror.deaf:
            return
        fault = self._fault(mirror, order)
        if fault is not None:
            del self._orders[connection]
            self._tell(Failed(connection, fault, str(fault)))
            return
        if order.skip:
            step = min(BLOCK, order.skip)
            order.skip -= step
            self.bytes[number] += step
            self._tell(Arrived(connection, 0, step))
            self._later(step / mirror.rate, connection, order)
            return
        count = self._block(mirror, order)
        unit = (file, order.unit)
        self._tainted[unit] = self._tainted.get(unit, False) or mirror.lies
        order.have += count
        order.sent += count
        self.bytes[number] += count
        self._tell(Arrived(connection, count))
        if order.have == wanted.length(order.unit):
            self._unit_is_whole(connection, order)
        if self._orders.get(connection) is order:
            self._later(count / mirror.rate, connection, order)

    def _block(self, mirror: Mirror, order: _Order) -> int:
        return max(1, min(BLOCK, int(mirror.rate / 4), self.files[order.start.file].length(order.unit) - order.have))

    def _fault(self, mirror: Mirror, order: _Order) -> Kind | None:
        file = order.start.file
        if mirror.dead or not mirror.up(self.now):
            return Kind.BROKE if order.sent else Kind.UNREACHABLE
        if file in mirror.missing:
            return Kind.MISSING
        if file in mirror.errors:
            return Kind.ERROR
        if order.skip:
            return None if order.start.skip else Kind.WHOLE
        wanted = self.files[file]
        if mirror.cut < 1 and wanted.start(order.unit) + order.have + self._block(mirror, order) > mirror.cut * wanted.size:
            return Kind.SHORT
        return Kind.BROKE if mirror.breaks is not None and order.sent >= mirror.breaks else None

    def _unit_is_whole(self, connection: int, order: _Order) -> None:
        unit = (order.start.file, order.unit)
        if self._tainted.pop(unit):
            del self._orders[connection]
            self._tell(Lied(connection, "wrong data"))
            return
        assert unit not in self.proved
        self.proved.add(unit)
        order.unit, order.have = order.unit + 1, 0
        if order.unit == order.last:
            self._stands[connection] = (order.start.file, order.last)
            del self._orders[connection]
        self._tell(Proved(connection))


def sized(*sizes: int) -> list[Wanted]:
    return [
        Wanted(f"f{i}", f"{i:064x}", size, tuple(f"{j:064x}" for j in range(-(-size // CHUNK))) if size > CHUNK else ())
        for i, size in enumerate(sizes)
    ]
