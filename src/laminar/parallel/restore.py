"""Restore: tensors of an optimizer, back from a snapshot by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laminar.core.errors import LaminarError


@torch.no_grad()
def restore(what: str, own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Copies `saved` into `own`; L604 unless names and shapes are the same."""
    if {name: tensor.shape for name, tensor in own.items()} != {name: tensor.shape for name, tensor in saved.items()}:
        raise LaminarError(
            "L604",
            f"{what} has {_words(own)}, and its snapshot {_words(saved)}",
            hint="laminar build --force trains this layer from its start",
        )
    for name, tensor in own.items():
        tensor.copy_(saved[name])


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _words(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in sorted(tensors.items())) or "no state"
