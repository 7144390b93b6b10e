"""Lines: the workers along one axis of the mesh, and what they can do together.

All members of a line call the same things in the same order, with tensors of the sizes that all of them know. `sent` counts what a
member hands over, once, whatever the way: a sum hands over the tensor, a gathering its own part, a swap what others asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Line(Protocol):
    rank: int
    size: int
    sent: int  # bytes

    def sum(self, own: Tensor) -> Tensor:
        """Over all members; the same bits for each. A new tensor."""

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """The parts of all, flat, of so many numbers each, by rank."""

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:
        """Give tensors to some members, and get flat ones of so many numbers from some. `most`: numbers of the largest of all members'."""


class Alone:
    """A line of one."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.sent = 0

    def sum(self, own: Tensor) -> Tensor:
        return own

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:  # noqa: ARG002
        return [own.reshape(-1)]

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:  # noqa: ARG002
        return {}
