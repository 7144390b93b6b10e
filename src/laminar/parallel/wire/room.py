"""Rooms: where the bytes of messages lie when both sides are on one machine. Then only what they mean goes through the socket.

A room belongs to one connection: a place for what goes up to the hub and one for what comes down, each for one message at a time. It is
made by the side that calls, and the hub finds it among the open files of that process. Whatever is too large for it, or comes while the
place is taken, goes through the socket as if there were none; so does everything where there cannot be one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.parallel.segment import LINE, Segment
from laminar.parallel.wire.frames import Bytes

_HEAD: Final = 3 * LINE
_MARK, _SHARED = 0, LINE // 8  # words: who made it; does the hub have it too? Then, for each place, whether it is taken
_TAKEN: Final = (_SHARED + 1, 2 * LINE // 8)
UP, DOWN = 0, 1


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To the hub: how it finds a room."""

    pid: Annotated[int, msgspec.Meta(gt=0)]
    fd: Annotated[int, msgspec.Meta(ge=0)]
    up: Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
    down: Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
    mark: int  # that this is the file that is meant: numbers of processes differ from container to container


@final
class Room:
    def __init__(self, segment: Segment, up: int, down: int) -> None:
        self._segment, self._sizes = segment, (up, down)
        self._words = segment.words(0, _HEAD // 8)
        self._places = (segment.bytes(_HEAD, up), segment.bytes(_HEAD + _rounded(up), down))

    @classmethod
    def make(cls, up: int, down: int) -> Room | None:
        """For so many bytes each way; None if there is too little memory."""
        try:
            made = cls(Segment.create(_HEAD + _rounded(up) + _rounded(down)), up, down)
        except (LaminarError, OSError):
            return None
        made._words[_MARK] = secrets.randbits(62)
        return made

    def told(self, pid: int) -> Told:
        """`pid`: of this process."""
        return Told(pid, self._segment.fd, *self._sizes, self._words[_MARK])

    @classmethod
    def find(cls, said: Any) -> Room | None:
        """In the hub. None: it is not to be found, or another one."""
        try:
            told = msgspec.convert(said, Told)
            segment = Segment.of_process(told.pid, told.fd, _HEAD + _rounded(told.up) + _rounded(told.down))
        except (OSError, ValueError):  # the latter also of what makes no sense, or is no such file
            return None
        found = cls(segment, told.up, told.down)
        if found._words[_MARK] != told.mark:
            found.close()
            return None
        found._words[_SHARED] = 1
        return found

    @property
    def shared(self) -> bool:
        """Have both sides got it?"""
        return bool(self._words[_SHARED])

    def put(self, place: int, parts: Sequence[Bytes], size: int) -> bool:
        """False: they do not fit, or there is something."""
        words, taken = self._words, _TAKEN[place]
        if not words[_SHARED] or words[taken] or size > self._sizes[place]:
            return False
        words[taken] = 1
        into, at = self._places[place], 0
        for part in parts:
            into[at : at + len(part)] = part
            at += len(part)
        return True

    def get(self, place: int, size: int) -> memoryview | None:
        """What was put there, until it is `free`; None if there cannot be so much."""
        return self._places[place][:size] if size <= self._sizes[place] else None

    def free(self, place: int) -> None:
        self._words[_TAKEN[place]] = 0

    def close(self) -> None:
        """The file. The memory goes when nobody has a view of it any more."""
        self._segment.close()


def _rounded(size: int) -> int:
    return -(-size // LINE) * LINE
