"""Posts in shared memory: a row of rooms that are filled and emptied in turn, and two counters. Nothing is copied at the receiving end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.meeting import FINE, LOOKS, STRIDE, Broken, come
from laminar.parallel.parking import count_to
from laminar.parallel.segment import LINE, Segment

WORDS: Final = STRIDE * 3  # [0] 0, or why everybody is to leave; messages written; messages released
WRITTEN: Final = STRIDE
RELEASED: Final = 2 * STRIDE


def post_bytes(room: int, rooms: int) -> int:
    """Of shared memory that a post takes."""
    return 8 * WORDS + _rounded(room) * rooms


def _rounded(room: int) -> int:
    return max(1, -(-room // LINE)) * LINE


@final
class SharedPost:
    """Either end; only one is used in a process."""

    def __init__(self, segment: Segment, offset: int, room: int, rooms: int, *, timeout: float) -> None:
        self._words = segment.words(offset, WORDS)
        self._rooms = [
            torch.frombuffer(segment.map, dtype=torch.uint8, count=_rounded(room), offset=offset + 8 * WORDS + _rounded(room) * i)
            for i in range(rooms)
        ]
        self._timeout = timeout
        self._count = self._released = 0
        self._expected: deque[tuple[Sequence[int], torch.dtype]] = deque()
        self.sent = 0

    def send(self, tensor: Tensor) -> None:
        self._until(RELEASED, self._count + 1 - len(self._rooms))
        self._room(tensor.shape, tensor.dtype).copy_(tensor)
        self._count += 1
        count_to(self._words, WRITTEN, self._count)
        self.sent += tensor.nbytes

    def expect(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._expected.append((shape, dtype))

    @property
    def arrived(self) -> bool:
        return self._words[WRITTEN] > self._count or self._words[0] != FINE  # called off: receive tells

    def receive(self) -> Tensor:
        shape, dtype = self._expected.popleft()
        self._until(WRITTEN, self._count + 1)
        found = self._room(shape, dtype)
        self._count += 1
        return found

    def release(self) -> None:
        self._released += 1
        count_to(self._words, RELEASED, self._released)

    def _room(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        size = prod(shape) * dtype.itemsize
        return self._rooms[self._count % len(self._rooms)][:size].view(dtype).view(*shape) if size else torch.empty(shape, dtype=dtype)

    def _until(self, place: int, count: int) -> None:
        words = self._words
        for _ in range(LOOKS):
            if words[place] >= count:
                break
        else:
            if not come(words, place, count, timeout=self._timeout):
                words[0] = 1
        if words[0] != FINE:
            raise Broken(words[0])
