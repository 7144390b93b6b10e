"""A line on which nobody else is: a worker of a mesh runs alone, with tensors of the sizes it would have, and what it exchanges is made up.

So what it computes can be timed without what it waits for. All that a real line does (copies, meetings) is measured apart (links.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor


@final
class DryLine:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.sent = rank, size, 0

    def sum(self, own: Tensor) -> Tensor:
        self.sent += own.nbytes
        return own.detach()

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        flat = own.detach().reshape(-1)
        self.sent += flat.nbytes
        return [flat if count == flat.numel() else flat.new_zeros(count) for count in counts]

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:  # noqa: ARG002
        self.sent += sum(tensor.nbytes for tensor in out.values())
        return {rank: torch.zeros(count, dtype=dtype) for rank, count in into.items()}
