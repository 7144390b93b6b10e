"""A line over torch.distributed, for workers on several machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from laminar.parallel.sync.process_group import Group


@final
class GlooLine:
    def __init__(self, group: Group) -> None:
        self.rank, self.size, self.sent = group.rank, group.size, 0
        self._group = group

    def sum(self, own: Tensor) -> Tensor:
        found = own.detach().clone(memory_format=torch.contiguous_format)
        self.sent += found.nbytes
        self._group.add_up(found)
        return found

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        flat = own.detach().contiguous().reshape(-1)
        self.sent += flat.nbytes
        most = max(counts)
        if flat.numel() < most:  # gloo gathers tensors of one size
            flat = torch.cat([flat, flat.new_zeros(most - flat.numel())])
        return [one[:count] for one, count in zip(self._group.all_gather(flat), counts, strict=True)]

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:  # noqa: ARG002
        flats = {rank: tensor.detach().contiguous().reshape(-1) for rank, tensor in out.items()}
        self.sent += sum(flat.nbytes for flat in flats.values())
        found = {rank: torch.empty(count, dtype=dtype) for rank, count in into.items()}
        self._group.exchange(flats, found)
        return found
