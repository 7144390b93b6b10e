"""A team on one machine: what its members have in common lies in shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import Segment
from laminar.parallel.sync.layout import LENGTH, SUMS, Layout
from laminar.parallel.sync.shared_optimizer import SharedOptimizer
from laminar.parallel.waited import WAITED
from laminar.train.recipe import Recipe
from laminar.train.team import WholeModel


@final
class SharedTeam(WholeModel):
    def __init__(self, segment: Segment, layout: Layout, rank: int) -> None:
        self.rank, self.size = rank, layout.size
        self._segment, self._layout = segment, layout
        self._words = segment.words(layout.words, layout.word_count)
        self._sums = segment.doubles(layout.sums, SUMS * layout.size)
        self.meeting = Meeting(self._words, rank, layout.size)
        self._buffers = [segment.floats(layout.buffer_bytes(r), _numbers(layout)) for r in range(layout.size)]

    @property
    def waited(self) -> float:
        return WAITED.seconds

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> SharedOptimizer:
        made = SharedOptimizer(recipe, params, self._layout, self._segment, self.meeting, first=True)
        self.meeting.meet()
        return made

    def sum(self, own: Sequence[float]) -> list[float]:
        start = SUMS * self.rank
        for i, value in enumerate(own):
            self._sums[start + i] = value
        self.meeting.meet()
        found = [sum(self._sums[SUMS * rank + i] for rank in range(self.size)) for i in range(len(own))]
        self.meeting.meet()  # nobody gives the next ones before all have read these
        return found

    def gather(self, own: bytes) -> list[bytes]:
        layout, room = self._layout, self._layout.grad_room
        self._words[layout.facts(self.rank) + LENGTH] = len(own)
        self.meeting.meet()
        lengths = [self._words[layout.facts(rank) + LENGTH] for rank in range(self.size)]
        found = [bytearray() for _ in range(self.size if not self.rank else 0)]
        for at in range(0, max(lengths), room):
            part = own[at : at + room]
            self._segment.bytes(layout.grad_bytes(self.rank), len(part))[:] = part
            self.meeting.meet()
            for rank, so_far in enumerate(found):
                so_far += self._segment.bytes(layout.grad_bytes(rank), max(0, min(room, lengths[rank] - at)))
            self.meeting.meet()
        # the gaps between tensors count as gradients, too, and are to be zero
        self._segment.floats(layout.grad_bytes(self.rank), room // 4)[: -(-min(len(own), room) // 4)].zero_()
        return [bytes(one) for one in found]

    @torch.no_grad()
    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        if not buffers:
            return
        pieces = [(buffers[piece.name], piece) for piece in self._layout.buffers]
        for tensor, piece in pieces:
            self._buffers[self.rank][piece.start : piece.stop].view(piece.shape).copy_(tensor)
        self.meeting.meet()
        for tensor, piece in pieces:
            parts = [row[piece.start : piece.stop].view(piece.shape) for row in self._buffers]
            tensor.copy_(torch.stack(parts).double().mean(0) if tensor.is_floating_point() else parts[0])
        self.meeting.meet()

    def before_backward(self, *, last: bool) -> None:
        """There is nothing to send."""


def _numbers(layout: Layout) -> int:
    return layout.buffers[-1].stop if layout.buffers else 0
