"""Statistics rooms: workers that have rows of a batch exchange statistics here, in shared memory or over torch.distributed.

In an exchange each worker contributes one row of float64 numbers, all rows have the same length, and each worker gets all rows in the
order of the ranks. So all workers compute sums with the same bits. Workers without rows of the batch take no part, because they do not
run the model and cannot know which exchange comes next.
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

MEETINGS: Final = 1 << 20  # most exchanges in a batch; each batch counts as so many, so workers without rows stay in step
NORM, SUM, END = 1, 2, 3  # the step that an exchange belongs to
_SAID: Final = {NORM: "a batch norm", SUM: "the gradient of one", END: "the end of the batch"}
HEAD: Final = 2  # numbers before a row: its step and its length
HEAD_TAG, ROW_TAG = 1, 2  # message tags; rows of different lengths get different tags, because gloo would end the process on a mismatch


class Room(Protocol):
    def among(self, ranks: Sequence[int]) -> None:
        """Start the next batch; `ranks` have rows of it. Every member calls this for every batch, with rows or without."""
        ...

    def exchange(self, what: int, own: Tensor) -> list[Tensor]:
        """Return the numbers of all workers with rows of the batch, in the order of ranks; at the end of a batch, an empty list.
        Raises L606 in at least one worker if they are at different places in the model."""
        ...


@final
class SharedRoom:
    """Each worker has two buffers that it uses in turn. Before it overwrites one, it has passed a barrier after all others read it."""

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
            # A worker at another place in the model reads this header and raises. All others read nothing, so after the barrier all buffers
            # are free for the next batch, whose rows other workers may have.
            self._show(_head(what, own))
            return []
        first = self._swapped(torch.cat([_head(what, own), own[: ROOM - HEAD]]))
        _same_place({rank: row[:HEAD] for rank, row in zip(self._ranks, first, strict=True)})
        found = [row[HEAD:] for row in first]
        for begin in range(ROOM - HEAD, len(own), ROOM):
            found = [torch.cat(pair) for pair in zip(found, self._swapped(own[begin : begin + ROOM]), strict=True)]
        return found

    def _show(self, own: Tensor) -> int:
        """Publish a row to all workers of the batch, wait for theirs, and return which of the two buffers it is in."""
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
    """All workers send to all others, which is faster than a ring for such short rows."""

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
        places = ", ".join(f"worker {rank} at {_SAID.get(int(head[0]), '?')} of {int(head[1])} numbers" for rank, head in heads.items())
        raise LaminarError(
            "L606",
            f"workers took different paths through the model, so there are no statistics of the whole batch: {places}",
            hint='batch_norm = "worker" in strategy uses each worker\'s own statistics, and trains another layer than one process',
        )
