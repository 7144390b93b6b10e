"""A buffer row: the buffers of a model as one row of float64 numbers, the form in which workers tell them and have their mean.

A complex number is two of them. Whole numbers are exact up to 2**53; beyond, and for all that nobody has changed, a buffer is left as it
is: most are tables (of positions, of frequencies, masks) that no training touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def count(buffers: Iterable[Tensor]) -> int:
    return sum(buffer.numel() * (2 if buffer.is_complex() else 1) for buffer in buffers)


def row_of(buffers: Sequence[Tensor]) -> Tensor:
    return torch.cat([_flat(buffer) for buffer in buffers]) if buffers else torch.zeros(0, dtype=torch.float64)


def mean(rows: Tensor) -> Tensor:
    """Of rows below each other. Where all say the same it is that, and not what a sum and a division make of it."""
    return torch.where((rows == rows[0]).all(0), rows[0], rows.mean(0))


@torch.no_grad()
def put_back(buffers: Sequence[Tensor], row: Tensor, whole: Tensor | None = None) -> None:
    """`whole`: the row for buffers of whole numbers, if it is another one."""
    at = 0
    for buffer in buffers:
        now = _flat(buffer)
        found = (row if whole is None or not is_whole(buffer) else whole)[at : at + len(now)]
        at += len(now)
        if torch.equal(found, now):
            continue
        if buffer.is_complex():
            buffer.copy_(torch.view_as_complex(found.clone().view(*buffer.shape, 2)))
        else:
            buffer.copy_((found.round() if is_whole(buffer) else found).view(buffer.shape))


def is_whole(buffer: Tensor) -> bool:
    return not (buffer.is_floating_point() or buffer.is_complex())


def _flat(buffer: Tensor) -> Tensor:
    kept = buffer.detach()
    return (torch.view_as_real(kept.resolve_conj()) if buffer.is_complex() else kept).double().reshape(-1)
