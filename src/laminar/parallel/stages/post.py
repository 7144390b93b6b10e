"""Posts: how values and gradients go from a stage to another lane. One for each edge and direction; messages arrive in the order they
were sent in, and whoever sends does not wait for whoever takes.

A message that was received may be looked at until it is released. `sent` counts bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Outbox(Protocol):
    sent: int

    def send(self, tensor: Tensor) -> None: ...


class Inbox(Protocol):
    def expect(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        """One more message, of this kind, will be received: it may come while the caller does something else."""

    @property
    def arrived(self) -> bool:
        """Is the next of those that are expected there? A look, without waiting; True where that cannot be seen."""
        ...

    def receive(self) -> Tensor:
        """The next of those that are expected. Broken when the team is called off meanwhile."""

    def release(self) -> None:
        """The oldest message that was received is not needed any more."""


class Post(Outbox, Inbox, Protocol):
    """Both ends; a process uses one of them."""


@dataclass(frozen=True)
class PostSpec:
    """A post, by what both ends and whoever makes room for it must know."""

    source: int  # ranks
    taker: int
    room: int  # bytes of a message at most
    rooms: int  # messages that are sent before one is released
