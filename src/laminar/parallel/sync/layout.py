"""Layout: what lies where in the memory that the workers of a team share.

    words     why to leave, a counter for each rank (meeting.py), a line of facts for each rank, two more counters for each rank, for
              meetings of those that compute (standing.py) and of those that have rows of a batch (statistics_room.py), and for each
              parameter in how many steps nobody had a gradient of it
    sums      SUMS doubles for each rank
    held      a byte for each rank and parameter: does it have a gradient? Looked at only when someone says that one is missing
    params    one copy, used by all
    state     the optimizer's slots, one copy
    grads     one for each rank; between steps also the way on which bytes of any kind go to member 0
    buffers   one row of float64 numbers for each rank (../buffer_row.py)
    rooms     two for each rank, for statistics of its rows of a batch (statistics_room.py)

Parameters are pieces of one row of float32 numbers; each begins on a cache line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from laminar.parallel.meeting import STRIDE, words_for
from laminar.parallel.segment import LINE

SUMS = 16  # doubles that a member may give at once; of these
BUSY, WISH, SENT, MISSING, LOSS, NORM = 10, 11, 12, 13, 14, 15  # are a step's own
FACTS = 8  # words of each rank
LENGTH = 0
WAITED, ODD = 1, 2  # told by each rank at the end of a stretch (standing.py),
GROUP, STEPS, WISHED = 3, 4, 5  # and by member 0 of the next one
POST = 1 << 16  # bytes: no gradient has less room
ROOM = 1 << 12  # numbers of a room: what is longer takes several turns

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Piece:
    """A tensor in the row."""

    name: str
    shape: tuple[int, ...]
    start: int  # in numbers

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def stop(self) -> int:
        return self.start + self.count


@dataclass(frozen=True)
class Layout:
    size: int  # of the team
    params: tuple[Piece, ...]
    buffers: int  # numbers
    slots: tuple[str, ...]

    @classmethod
    def of(cls, size: int, params: Shapes, buffers: int, slots: Sequence[str]) -> Layout:
        return cls(size, _row(params), buffers, tuple(slots))

    @property
    def numbers(self) -> int:
        """Of the row of parameters, gaps included."""
        return _end(self.params)

    @property
    def words(self) -> int:
        return 0

    @property
    def word_count(self) -> int:
        return self.left_out + len(self.params)

    def facts(self, rank: int) -> int:
        """The word at which the facts of a rank begin."""
        return words_for(self.size) + FACTS * rank

    @property
    def computing(self) -> int:
        """The word at which the counters of those that compute begin."""
        return self.facts(self.size)

    @property
    def having_rows(self) -> int:
        """The word at which the counters of those begin that have rows of a batch."""
        return self.computing + STRIDE * self.size

    @property
    def left_out(self) -> int:
        return self.having_rows + STRIDE * self.size

    @property
    def sums(self) -> int:
        return _up(8 * self.word_count)

    def held(self, rank: int) -> int:
        return _up(self.sums + 8 * SUMS * self.size) + _up(len(self.params)) * rank

    @property
    def param_bytes(self) -> int:
        """Where parameters begin."""
        return self.held(self.size)

    def slot_bytes(self, slot: int) -> int:
        return self.param_bytes + 4 * self.numbers * (1 + slot)

    @property
    def grad_room(self) -> int:
        return max(4 * self.numbers, POST)

    def grad_bytes(self, rank: int) -> int:
        return self.slot_bytes(len(self.slots)) + self.grad_room * rank

    def buffer_bytes(self, rank: int) -> int:
        return self.grad_bytes(self.size) + _up(8 * self.buffers) * rank

    def room_bytes(self, rank: int) -> int:
        return self.buffer_bytes(self.size) + 2 * 8 * ROOM * rank

    @property
    def total(self) -> int:
        return self.room_bytes(self.size)


def _row(shapes: Shapes) -> tuple[Piece, ...]:
    pieces, start = [], 0
    for name, shape in shapes.items():
        piece = Piece(name, tuple(shape), start)
        pieces.append(piece)
        start = piece.start + _numbers_up(piece.count)
    return tuple(pieces)


def _end(pieces: Sequence[Piece]) -> int:
    return pieces[-1].start + _numbers_up(pieces[-1].count) if pieces else 0


def _numbers_up(count: int) -> int:
    return -(-count // (LINE // 4)) * (LINE // 4)


def _up(size: int) -> int:
    return -(-size // LINE) * LINE
