"""Posts over torch.distributed, for lanes on several machines. What is expected is received while the worker computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from laminar.parallel.sync.process_group import Group, Sending


@final
class GlooPost:
    def __init__(self, group: Group, other: int, tag: int, rooms: int) -> None:
        """`tag`: tells it from other posts between the same two. `rooms`: messages that may be under way."""
        self._group, self._other, self._tag, self._rooms = group, other, tag, rooms
        self._leaving: deque[tuple[Sending, Tensor]] = deque()  # the tensor must stay until it has left
        self._coming: deque[tuple[Sending, Tensor]] = deque()
        self.sent = 0

    def send(self, tensor: Tensor) -> None:
        while len(self._leaving) >= self._rooms:  # gloo only tells by waiting that one has left
            self._leaving.popleft()[0].wait()
        own = tensor.detach().clone(memory_format=torch.contiguous_format)  # the caller may change it
        self.sent += own.nbytes
        if own.numel():
            self._leaving.append((self._group.start_send(own, self._other, self._tag), own))

    def expect(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        room = torch.empty(tuple(shape), dtype=dtype)
        if room.numel():
            self._coming.append((self._group.start_receive(room, self._other, self._tag), room))
        else:
            self._coming.append((Sending(None), room))

    @property
    def arrived(self) -> bool:
        return True  # gloo only tells by waiting

    def receive(self) -> Tensor:
        work, room = self._coming.popleft()
        work.wait()
        return room

    def release(self) -> None:
        """The memory is the receiver's own."""
