"""Checks at the entrances: gradients to encode, tensors to decode into, states from a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.compress.layout import Layout


def check_flat(flat: Tensor, layout: Layout, what: str) -> None:
    """A mistake of the caller, hence ValueError."""
    good = flat.dtype == torch.float32 and flat.device.type == "cpu" and flat.shape == (layout.numel,) and flat.is_contiguous()
    if not good:
        raise ValueError(
            f"{what} is {flat.dtype} {list(flat.shape)} on {flat.device}, but must be contiguous float32 [{layout.numel}] on the CPU"
        )


def norm_of(flat: Tensor) -> float:
    norm = float(torch.linalg.vector_norm(flat))
    return norm if math.isfinite(norm) else float(torch.linalg.vector_norm(flat, dtype=torch.float64))  # only the sum of squares was not


def check_gradient(grad: Tensor, layout: Layout) -> float:
    """The norm of a gradient that is fit to be encoded. L601, naming the tensor, if it is not finite."""
    check_flat(grad, layout, "the gradient")
    norm = norm_of(grad)
    if math.isfinite(norm):
        return norm
    for part in layout.parts:
        bad = part.numel - int(torch.isfinite(part.of(grad)).sum())
        if bad:
            raise LaminarError(
                "L601",
                f"the gradient of '{part.name}' is not finite: {bad} of {part.numel} values are NaN or infinite",
                hint="lower lr in train, or set clip = 1.0",
            )
    return norm  # of finite values it is finite


def load_state(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Copy what was saved; nothing of it is taken if anything does not fit."""
    if own.keys() != saved.keys():
        odd = sorted(own.keys() ^ saved.keys())[0]
        raise _unfit(f"'{odd}' is in only one of checkpoint and compressor")
    for name, tensor in own.items():
        then = saved[name]
        if then.shape != tensor.shape or then.dtype != tensor.dtype:
            raise _unfit(f"'{name}' is {then.dtype} {list(then.shape)} there and {tensor.dtype} {list(tensor.shape)} here")
        if not bool(torch.isfinite(then).all()):
            raise _unfit(f"'{name}' has values that are not finite")
    for name, tensor in own.items():
        tensor.copy_(saved[name])


def _unfit(why: str) -> LaminarError:
    return LaminarError(
        "L604", f"the checkpoint's residual does not fit: {why}", hint="laminar build --force trains this layer from its start"
    )
