"""Statistics rooms: where workers that have rows of a batch exchange statistics, in shared memory or over torch.distributed.

An exchange is one row of float64 numbers from each of them, all rows of one length, and each of them gets all rows in the order of the
ranks: so all add them up to the same bits, every time. Workers without rows of the batch take no part, as nobody knows what they would
have to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import Segment
from laminar.parallel.sync.layout import ROOM, Layout
from laminar.parallel.sync.process_group import Group, Sending

MEETINGS: Final = 1 << 20  # for a batch, at most: as many are counted for each, since those without rows come to none
NORM, SUM, END = 1, 2, 3  # what an exchange is of
_SAID: Final = {NORM: "a batch norm", SUM: "the gradient of one", END: "the end of the batch"}
HEAD: Final = 2  # numbers before a row: what it is of, and how long it is
HEAD_TAG, ROW_TAG = 1, 2  # of messages; rows of other lengths have other tags, since gloo would end the process


class Room(Protocol):
    def among(self, ranks: Sequence[int]) -> None:
        """The next batch: who has rows of it. Told to all members, batch after batch, this one among them or not."""
        ...

    def exchange(self, what: int, own: Tensor) -> list[Tensor]:
        """The rows of numbers of all that have rows of the batch, by rank; nothing at its end. L606 where they are not at the same place in
        the model: then some of them are told."""
        ...


@final
class SharedRoom:
    """Each worker has two rooms that it takes in turns. Who writes into one for the second time has met all others since they read it."""

    def __init__(self, segment: Segment, words: memoryview[int], layout: Layout, meeting: Meeting) -> None:
        self._rooms = segment.rows(layout.room_bytes(0), 2 * layout.size, ROOM)
        self._whole = meeting
        self._meeting = Meeting(words, meeting.rank, meeting.size, first=layout.having_rows)
        self._ranks: list[int] = []
        self._batch = self._turn = 0

    def among(self, ranks: Sequence[int]) -> None:
        self._ranks, self._turn = list(ranks), 0
        self._batch += 1
        self._meeting.among(self._ranks, MEETINGS * self._batch)
        self._meeting.timeout = self._whole.timeout

    def exchange(self, what: int, own: Tensor) -> list[Tensor]:
        own = own.cpu()
        if what == END:
            # Who is elsewhere reads this and says so. All others read nothing, so when they have met, all rooms are free for another batch,
            # of which others may have rows.
            self._show(_head(what, own))
            return []
        first = self._swapped(torch.cat([_head(what, own), own[: ROOM - HEAD]]))
        _same_place({rank: row[:HEAD] for rank, row in zip(self._ranks, first, strict=True)})
        found = [row[HEAD:] for row in first]
        for begin in range(ROOM - HEAD, len(own), ROOM):
            found = [torch.cat(pair) for pair in zip(found, self._swapped(own[begin : begin + ROOM]), strict=True)]
        return found

    def _show(self, own: Tensor) -> int:
        """To all that have rows; the side of the rooms that it is on."""
        side = self._turn % 2
        self._turn += 1
        self._rooms[2 * self._meeting.rank + side, : len(own)].copy_(own)
        self._meeting.meet()
        return side

    def _swapped(self, own: Tensor) -> list[Tensor]:
        side = self._show(own)
        return [self._rooms[2 * rank + side, : len(own)].clone() for rank in self._ranks]


@final
class GroupRoom:
    """Everyone sends to everyone, which for rows as short as these takes less time than a ring."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._ranks: list[int] = []

    def among(self, ranks: Sequence[int]) -> None:
        self._ranks = list(ranks)

    def exchange(self, what: int, own: Tensor) -> list[Tensor]:
        own = own.cpu()
        heads, on_their_way = self._swap(_head(what, own), HEAD_TAG)
        rows, behind = self._swap(own, ROW_TAG + len(own)) if len(own) else (dict.fromkeys(self._ranks, own), [])
        for sending in on_their_way:
            sending.wait()
        _same_place(heads)
        for sending in behind:
            sending.wait()
        return list(rows.values())

    def _swap(self, own: Tensor, tag: int) -> tuple[dict[int, Tensor], list[Sending]]:
        rank = self._group.rank
        rooms = {other: own if other == rank else torch.empty_like(own) for other in self._ranks}
        others = [(other, room) for other, room in rooms.items() if other != rank]
        coming = [self._group.start_receive(room, other, tag) for other, room in others]
        return rooms, coming + [self._group.start_send(own, other, tag) for other, _ in others]


def _head(what: int, own: Tensor) -> Tensor:
    return own.new_tensor([float(what), float(len(own))])


def _same_place(heads: Mapping[int, Tensor]) -> None:
    first, *others = heads.values()
    if any(not torch.equal(first, other) for other in others):
        told = ", ".join(f"worker {rank} at {_SAID.get(int(head[0]), '?')} of {int(head[1])} numbers" for rank, head in heads.items())
        raise LaminarError(
            "L606",
            f"workers went different ways through the model, so that there are no statistics of the whole batch: {told}",
            hint='batch_norm = "worker" in strategy takes those of each worker\'s rows: another layer than that of one process',
        )
