"""Holders: which lanes have which of the model's tensors. One that no stage needs is with the first lane."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import final

import torch
from torch import Tensor, nn

from laminar.parallel.split.whole import Parts


@final
class Holders:
    def __init__(self, lanes: Mapping[str, tuple[int, ...]], trained: Collection[str], model: nn.Module, parts: Parts) -> None:
        """`model`: with all of its tensors, whole; `trained`: names of those that stages of training need."""
        tensors: dict[str, Tensor] = dict([*model.named_parameters(), *model.named_buffers()])
        self._lanes = {name: lanes.get(name, (0,)) for name in tensors}
        self._kinds = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
        self._numbers = {name: prod(parts.own_shape(name)) if parts.splits(name) else t.numel() for name, t in tensors.items()}
        learned = {name for name, p in model.named_parameters() if p.requires_grad}
        self.shared = tuple(name for name, found in self._lanes.items() if len(found) > 1 and name in learned and name in trained)

    def of(self, name: str) -> tuple[int, ...]:
        return self._lanes[name]

    def kind(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        return self._kinds[name]

    def own_numbers(self, name: str) -> int:
        """That a worker of this one's place on the mesh has of it, whatever its lane."""
        return self._numbers[name]
