"""The swarm: which connection to which mirror fetches which piece of which file. Pure: events and the time in, actions out.

A connection that has nothing to do takes the next piece, so a faster mirror gets more of them. Pieces are runs of units of one file;
a connection prefers the piece behind the one it just had. When there are no more pieces, one that is idle shares what another one
still has to do, or takes it over from the byte where it stands, if that is quicker by what was measured (the end game of
B. Cohen: Incentives build robustness in BitTorrent, 2003, but by moving work instead of asking twice, so that few bytes come twice).

A mirror that fails rests, twice as long each time. One that sends wrong data is not asked for that file again, and banned after a few
lies. A file it has not got concerns that file only. A file is given up when every mirror failed it and nothing else is going on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final, final

from laminar.data.mirrors.faults import Kind
from laminar.data.mirrors.health import Health, Patience
from laminar.data.mirrors.pending import FileState, Partial, Pending, runs_without
from laminar.data.mirrors.relief import Connection, gain
from laminar.data.mirrors.swarm_messages import (
    Action,
    Arrived,
    Ban,
    Cancel,
    Event,
    Failed,
    GiveUp,
    Had,
    Lied,
    Proved,
    Ready,
    Rest,
    Shorten,
    Start,
    Tick,
)
from laminar.data.mirrors.wanted import CHUNK, Wanted

LONGEST_PIECE: Final = 8 * CHUNK
PIECES_EACH: Final = 4  # pieces that a connection should get at least, where files are large enough
ERRORS: Final = 2  # errors of a mirror about one file
ENOUGH: Final = 1 << 16  # bytes of a piece that say something about speed
FRUITLESS: Final = 4  # connections that gave no byte of one file

_FILE = frozenset({Kind.MISSING, Kind.REFUSED, Kind.SHORT})
_HOPELESS = frozenset({Kind.LOGIN, Kind.LIBRARY})
_CONNECTING = frozenset({Kind.UNREACHABLE, Kind.BUSY, Kind.LOGIN})


@final
class Swarm:
    """`had`: for each file the units that are there. `connections`: for each mirror how many. `backwards`: begin with the last file,
    and in the middle of large ones, because another process has begun at the other end."""

    def __init__(
        self,
        files: Sequence[Wanted],
        had: Sequence[Collection[int]],
        connections: Sequence[int],
        *,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        backwards: bool = False,
    ) -> None:
        self.patience = patience
        self.mirrors = [Health(patience) for _ in connections]
        # One of every mirror before the second of any: the first pieces tell how quick they are.
        order = sorted((turn, mirror) for mirror, count in enumerate(connections) for turn in range(count))
        self._connections = [Connection(i, mirror) for i, (_, mirror) in enumerate(order)]
        self._idle: dict[Connection, None] = dict.fromkeys(self._connections)
        self._busy: dict[Connection, None] = {}
        self._backwards = backwards
        self._files = [
            FileState(i, wanted, runs_without(wanted.units, there), wanted.units - len(there))
            for i, (wanted, there) in enumerate(zip(files, had, strict=True))
        ]
        unfinished = [file for file in self._files if file.left]
        self._unfinished = len(unfinished)
        self._pending = Pending(reversed(unfinished) if backwards else unfinished)
        total = sum(file.left * file.wanted.unit for file in unfinished)
        self._piece = min(max(total // max(1, len(order) * PIECES_EACH), CHUNK), LONGEST_PIECE)
        self._now = 0.0
        self._out: list[Action] = []

    @property
    def done(self) -> bool:
        """Every file is proved or given up."""
        return self._unfinished == 0

    @property
    def working(self) -> int:
        """How many connections have work."""
        return len(self._busy)

    def mirror_of(self, connection: int) -> int:
        return self._connections[connection].mirror

    def left(self, file: int) -> int:
        """Units of a file that are not proved."""
        return self._files[file].left

    def on(self, event: Event, now: float) -> list[Action]:
        self._now, self._out = now, []
        match event:
            case Arrived(connection, count, skipped):
                self._arrived(self._connections[connection], count, skipped)
                return self._out
            case Proved(connection):
                self._proved(self._connections[connection])
            case Had(connection):
                self._unit_done(self._connections[connection])
            case Lied(connection, why):
                self._lied(self._connections[connection], why)
            case Failed(connection, kind, why):
                self._failed(self._connections[connection], kind, why)
            case Ready(connection):
                self._connections[connection].leaving = False
                self._idle[self._connections[connection]] = None
            case Tick():
                self._look_for_stalls()
        self._give_work()
        if not self._busy and self._unfinished:
            self._despair()
        return self._out

    # What happened

    def _arrived(self, c: Connection, count: int, skipped: int) -> None:
        mirror = self.mirrors[c.mirror]
        c.heard = self._now
        mirror.arrived(c.meter.add(count + skipped, self._now))
        if count:
            c.have += count
            c.got += count
            c.refusals = 0
            if c.mirror not in c.sources:
                c.sources |= {c.mirror}

    def _unit_done(self, c: Connection) -> None:
        file = c.file
        assert file is not None
        file.left -= 1
        if not file.left:
            self._unfinished -= 1
        c.first, c.have, c.sources, c.suspects = c.first + 1, 0, frozenset(), frozenset()
        c.heard = self._now
        if c.first == c.last:
            mirror = self.mirrors[c.mirror]
            if mirror.speed is None and c.got >= ENOUGH:
                mirror.arrived(c.got / max(self._now - c.started, 1e-3))
            c.before = (file, c.last)
            self._release(c)
            self._idle[c] = None

    def _proved(self, c: Connection) -> None:
        self.mirrors[c.mirror].proved += 1
        file, others = c.file, c.suspects - {c.mirror}
        assert file is not None
        if c.mirror in c.suspects and len(others) == 1:  # of the two that gave the wrong one together, it was the other
            self._liar(next(iter(others)), file, "wrong data (found out together with another mirror)")
        self._unit_done(c)

    def _lied(self, c: Connection, why: str) -> None:
        file = c.file
        assert file is not None
        told = c.sources <= {c.mirror}
        c.suspects = c.suspects if told else c.sources
        c.have, c.sources = 0, frozenset()
        self._release(c)
        self._idle[c] = None
        if told:  # else any of them may have lied
            self._liar(c.mirror, file, why)

    def _liar(self, number: int, file: FileState, why: str) -> None:
        mirror = self.mirrors[number]
        self._note(mirror, Kind.LIED, why)
        file.failed[number] = why
        self._pending.place(file)
        if mirror.lied():
            mirror.last = f"{mirror.lies} times wrong data; {why}"
            self._out.append(Ban(number))
            for other in [b for b in self._busy if b.mirror == number]:
                other.have, other.sources = 0, frozenset()
                self._cancel(other)

    def _failed(self, c: Connection, kind: Kind, why: str) -> None:
        if c.file is None:
            return
        self._blame(c, kind, why)
        self._release(c)
        self._idle[c] = None

    def _blame(self, c: Connection, kind: Kind, why: str) -> None:
        """Who is at fault, and for how long: the file at this mirror, the mirror, or this connection alone."""
        file, mirror = c.file, self.mirrors[c.mirror]
        assert file is not None
        self._note(mirror, kind, why)
        if kind is Kind.WHOLE:
            mirror.whole = True
            return
        if kind in _FILE:
            file.failed[c.mirror] = why
            return
        if kind is Kind.ERROR or (not c.got and kind in (Kind.BROKE, Kind.STALLED, Kind.BUSY)):
            file.tries[c.mirror] = file.tries.get(c.mirror, 0) + 1
            if file.tries[c.mirror] >= (ERRORS if kind is Kind.ERROR else FRUITLESS):
                file.failed[c.mirror] = why
        if kind in _CONNECTING and any(b.mirror == c.mirror and b.got for b in self._busy if b is not c):
            c.refusals += 1  # the others get on: it only takes no more of us
            c.rests_until = self._now + min(self.patience.first_rest * 2.0**c.refusals, self.patience.longest_rest)
            return
        weight = self.patience.tries if kind in _HOPELESS else 2 if kind is Kind.STALLED else 1
        if mirror.failed(self._now, started=c.started, weight=weight):
            mirror.last = why
            self._out.append(Rest(c.mirror, mirror.rests_until))

    def _note(self, mirror: Health, kind: Kind, why: str) -> None:
        mirror.counts[kind] += 1
        mirror.last = mirror.last or why

    def _look_for_stalls(self) -> None:
        for c in [c for c in self._busy if self._now - c.heard > self.patience.stall]:
            self._blame(c, Kind.STALLED, f"no byte for {self._now - c.heard:.3g} s")
            self._cancel(c)

    # Who gets what

    def _release(self, c: Connection) -> None:
        """Give back what is left of the piece, with the beginning of its unit."""
        file = c.file
        assert file is not None
        c.file = None
        del self._busy[c]
        file.holders -= 1
        if c.first < c.last:
            file.add_run(c.first, c.last)
            if c.have or c.suspects:
                file.partials[c.first] = Partial(c.have, c.sources, c.suspects)
        self._pending.place(file)

    def _cancel(self, c: Connection) -> None:
        self._release(c)
        c.leaving = True
        self._out.append(Cancel(c.index))

    def _give_work(self) -> None:
        able = [c for c in self._idle if self._may_start(c)]
        if len(able) > 1 and not self._pending.at_least(len(able)):
            able.sort(key=lambda c: self.mirrors[c.mirror].expected, reverse=True)
        for c in able:
            found = self._next(c) if self._pending else None
            if found is None and self._busy:
                found = self._relief(c)
            if found is not None:
                self._start(c, *found)

    def _may_start(self, c: Connection) -> bool:
        mirror = self.mirrors[c.mirror]
        return not mirror.banned and mirror.rests_until <= self._now and c.rests_until <= self._now

    def _start(self, c: Connection, file: FileState, first: int, last: int, moves: int) -> None:
        partial = file.partials.pop(first, Partial())
        if partial.alone and not partial.sources <= {c.mirror}:
            partial = Partial(suspects=partial.suspects)
        if c.file is None and self._now - c.heard > 0:  # it was idle: that is not slowness
            c.meter.begin(self._now)
        c.file, c.first, c.last, c.moves, c.got, c.before = file, first, last, moves, 0, None
        c.have, c.sources, c.suspects = partial.have, partial.sources, partial.suspects
        c.started = c.heard = self._now
        file.holders += 1
        del self._idle[c]
        self._busy[c] = None
        self._pending.place(file)
        self._out.append(Start(c.index, file.index, first, last, c.have, self.mirrors[c.mirror].whole))

    def _next(self, c: Connection) -> tuple[FileState, int, int, int] | None:
        """The next piece for this connection, cut out of its run."""
        mirror = self.mirrors[c.mirror]
        if c.before is not None and c.mirror not in c.before[0].failed and not c.before[0].given_up:
            file, at = c.before
            for i, (first, _) in enumerate(file.runs):
                if first == at or (mirror.whole and first > at):  # what lies between is read over, too
                    return self._carve(file, i, first)
        for file in islice(self._pending.unheld(c.mirror), 64 if mirror.whole else 1):
            middle = self._backwards and file.wanted.units > 1 and len(file.runs) == 1 and not mirror.whole
            first, last = file.runs[0]
            if not mirror.whole or self._good_for_whole(c, file, first):
                return self._carve(file, 0, (first + last) // 2 if middle else first)
        if mirror.whole:
            return None
        # Of what others are about, the longest run: from its middle, so that each can go on with what is behind its piece.
        best: tuple[int, FileState, int] | None = None
        for file in self._pending.held(c.mirror):
            for i, (first, last) in enumerate(file.runs):
                size = (last - first) * file.wanted.unit
                if best is None or size > best[0]:
                    best = (size, file, i)
        if best is None:
            return None
        size, file, i = best
        first, last = file.runs[i]
        return self._carve(file, i, first if size <= 2 * self._piece else (first + last) // 2)

    def _good_for_whole(self, c: Connection, file: FileState, first: int) -> bool:
        """A mirror that always begins at the beginning is used for what lies behind it only when nobody else gives it."""
        if (first == 0 and 0 not in file.partials) or not self._busy:
            return True
        return all(m == c.mirror or m in file.failed or mirror.down or mirror.whole for m, mirror in enumerate(self.mirrors))

    def _carve(self, file: FileState, run: int, first: int) -> tuple[FileState, int, int, int]:
        last = min(first + max(1, self._piece // file.wanted.unit), file.runs[run][1])
        file.take(run, first, last)
        return file, first, last, 0

    def _relief(self, c: Connection) -> tuple[FileState, int, int, int] | None:
        """The part of somebody's piece that is done sooner if this connection does it. Nothing for a mirror that failed last."""
        if self.mirrors[c.mirror].in_a_row or self.mirrors[c.mirror].speed == 0:
            return None
        best: tuple[float, Connection, int | None] | None = None
        for other in self._busy:
            assert other.file is not None
            same = c.mirror == other.mirror
            if c.mirror in other.file.failed or other.left <= 0 or (same and self.mirrors[c.mirror].whole):
                continue
            found = gain(self._now, self.patience, self.mirrors[c.mirror], other, same=same)
            if found is not None and (best is None or found[0] > best[0]):
                best = (found[0], other, found[1])
        if best is None:
            return None
        _, other, cut = best
        file = other.file
        assert file is not None
        if cut is not None:
            last, other.last = other.last, cut
            self._out.append(Shorten(other.index, cut))
            return file, cut, last, other.moves
        first, last, moves = other.first, other.last, other.moves + 1
        if not other.got:
            self.mirrors[other.mirror].silent(self._now - other.started)
        self._cancel(other)
        file.take(next(i for i, (begin, end) in enumerate(file.runs) if begin <= first < end), first, last)
        return file, first, last, moves

    def _despair(self) -> None:
        """Nobody is at work: what no mirror can be hoped to give is given up. The others wait for the end of a rest."""
        for file in self._files:
            if not file.left or file.given_up:
                continue
            if any(not mirror.down and m not in file.failed for m, mirror in enumerate(self.mirrors)):
                continue
            file.given_up = True
            self._unfinished -= 1
            self._pending.place(file)
            self._out.append(GiveUp(file.index, tuple(file.failed.get(m) or mirror.last for m, mirror in enumerate(self.mirrors))))
