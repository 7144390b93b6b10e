"""Relief: what a connection is about, and whether another one should do part of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from laminar.data.mirrors.health import Health, Meter, Patience
from laminar.data.mirrors.pending import FileState

MOVES: Final = 5  # how often a piece is taken over because it is slow


@dataclass(eq=False, slots=True)
class Connection:
    index: int
    mirror: int
    file: FileState | None = None  # None: has no work
    leaving: bool = False  # was cancelled, and has not said Ready
    first: int = 0
    last: int = 0
    have: int = 0  # bytes of unit `first`
    sources: frozenset[int] = frozenset()
    suspects: frozenset[int] = frozenset()
    started: float = 0.0
    heard: float = 0.0
    got: int = 0  # bytes of this piece
    moves: int = 0
    refusals: int = 0
    rests_until: float = 0.0
    before: tuple[FileState, int] | None = None  # the file it had last, and up to where
    meter: Meter = field(default_factory=Meter)

    @property
    def at(self) -> int:
        assert self.file is not None
        return self.file.wanted.start(self.first) + self.have

    @property
    def left(self) -> int:
        assert self.file is not None
        return self.file.wanted.start(self.last) - self.at


def gain(now: float, patience: Patience, mirror: Health, other: Connection, *, same: bool) -> tuple[float, int | None] | None:
    """Seconds won by taking units from `cut` on (None: everything from the byte where it stands); None if it does not pay."""
    file = other.file
    assert file is not None
    age, silence = now - other.started, now - other.heard
    if silence >= patience.glance * 2**other.moves:  # longer each time it changes hands
        return (1e9 - other.at if mirror.whole else 1e9, None) if not same and other.moves < MOVES else None
    theirs = other.meter.rate(now) if other.got or age > patience.glance else None
    if not theirs or age < patience.glance:
        return None
    alone = other.left / theirs
    # One that was never tried is worth a try, where there is time for it.
    mine = mirror.speed if mirror.speed is not None else theirs * (4 if alone > 4 * patience.glance else 1)
    before = 1.0 if mirror.whole else 0.0  # reads what lies before, too
    if not same and other.last - other.first > 1:
        keep = other.at + other.left * theirs / (theirs + mine)
        cut = min(max(-(-int(keep) // file.wanted.unit), other.first + 1), other.last - 1)
        at = file.wanted.start(cut)
        shared = max((at - other.at) / theirs, (file.wanted.start(other.last) - at + before * at) / mine + patience.setup)
        if alone - shared > max(0.25 * alone, patience.setup):
            return alone - shared, cut
    moved = (other.left + before * other.at) / mine + patience.setup
    if other.moves < MOVES and moved < alone / (4 if same else 2):
        return alone - moved, None
    return None
