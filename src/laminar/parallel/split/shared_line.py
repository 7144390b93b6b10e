"""A line in shared memory: every member has a box that only it writes, and all read.

A box has two halves that are used in turn. Nobody writes into a half before all have come to the meeting after the one at which it was
read, so one meeting is enough for each exchange. What is larger than a half goes in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.meeting import Meeting, words_for
from laminar.parallel.segment import LINE, Segment

HALF: Final = 1 << 20  # bytes; two of them for each member
ALL_READ_ALL: Final = 1 << 15  # bytes up to which every member adds up everything itself


def line_bytes(size: int, half: int = HALF) -> int:
    """Of shared memory that a line of so many members takes."""
    return _words(size) + 2 * half * size


def _words(size: int) -> int:
    return -(-8 * words_for(size) // LINE) * LINE


@final
class SharedLine:
    def __init__(self, segment: Segment, offset: int, rank: int, size: int, *, half: int = HALF, timeout: float) -> None:
        self.rank, self.size, self.sent = rank, size, 0
        self.meeting = Meeting(segment.words(offset, words_for(size)), rank, size, timeout=timeout)
        begin = offset + _words(size)
        self._boxes = [
            [torch.frombuffer(segment.map, dtype=torch.uint8, count=half, offset=begin + (2 * r + turn) * half) for r in range(size)]
            for turn in (0, 1)
        ]
        self._half = half
        self._turn = 0

    def sum(self, own: Tensor) -> Tensor:
        flat = own.detach().contiguous().reshape(-1)
        self.sent += flat.nbytes
        found = torch.empty_like(flat)
        for part, place in self._pieces(flat.numel(), flat.element_size()):
            self._sum_piece(flat[part], found[part], place)
        return found.view(own.shape)

    def _sum_piece(self, own: Tensor, into: Tensor, count: int) -> None:
        boxes = self._put(own)
        if self.size == 2 or own.nbytes <= ALL_READ_ALL:
            torch.add(*(self._typed(boxes[rank], own.dtype, count) for rank in (0, 1)), out=into)
            for rank in range(2, self.size):
                into.add_(self._typed(boxes[rank], own.dtype, count))
            return
        # each adds up its share of the numbers, and reads the others' shares of the sum
        shares = [slice(count * rank // self.size, count * (rank + 1) // self.size) for rank in range(self.size)]
        mine = shares[self.rank]
        added = self._typed(boxes[0], own.dtype, count)[mine].clone()
        for rank in range(1, self.size):
            added.add_(self._typed(boxes[rank], own.dtype, count)[mine])
        boxes = self._put(added)
        for rank, share in enumerate(shares):
            into[share] = self._typed(boxes[rank], own.dtype, share.stop - share.start)

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        flat = own.detach().contiguous().reshape(-1)
        self.sent += flat.nbytes
        found = [torch.empty(count, dtype=flat.dtype) for count in counts]
        for part, _ in self._pieces(max(counts), flat.element_size()):
            boxes = self._put(flat[part])
            for rank, into in enumerate(found):
                piece = into[part]
                piece.copy_(self._typed(boxes[rank], flat.dtype, piece.numel()))
        return found

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:
        """Each half has a part for every member; as much as fits goes at a time."""
        flats = {rank: tensor.detach().contiguous().reshape(-1) for rank, tensor in out.items()}
        self.sent += sum(flat.nbytes for flat in flats.values())
        found = {rank: torch.empty(count, dtype=dtype) for rank, count in into.items()}
        room = self._half // self.size // LINE * LINE
        for begin in range(0, most, room // _SIZE[dtype]):
            boxes, here = self._boxes[self._turn], slice(begin, begin + room // _SIZE[dtype])
            for rank, flat in flats.items():
                self._typed(boxes[self.rank][rank * room :], dtype, len(flat[here])).copy_(flat[here])
            self.meeting.meet()
            self._turn ^= 1
            for rank, part in found.items():
                part[here].copy_(self._typed(boxes[rank][self.rank * room :], dtype, len(part[here])))
        return found

    def _put(self, own: Tensor) -> list[Tensor]:
        """Into the own box; when all have done so, the boxes of all."""
        boxes = self._boxes[self._turn]
        if own.numel():
            self._typed(boxes[self.rank], own.dtype, own.numel()).copy_(own)
        self.meeting.meet()
        self._turn ^= 1
        return boxes

    def _pieces(self, count: int, width: int) -> Iterator[tuple[slice, int]]:
        room = self._half // width
        for begin in range(0, count, room):
            stop = min(begin + room, count)
            yield slice(begin, stop), stop - begin

    @staticmethod
    def _typed(box: Tensor, dtype: torch.dtype, count: int) -> Tensor:
        return box[: count * _SIZE[dtype]].view(dtype)


_SIZE: Final = {
    dtype: torch.empty((), dtype=dtype).element_size()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
}
