"""Strides: where in memory the elements of a parameter lie, of which torch's fused kernels know nothing.

They walk through parameter, gradient and state as through four rows of numbers, in the order of memory. So a parameter may be in any order
(`channels_last`, a transposed weight) as long as it fills its memory and gradient and state are in the same order. State is, since
`zeros_like` keeps strides, and so is what autograd gives. What a team sums up, what was sparse, and what somebody else has put into `grad`
is contiguous, and is brought into the parameter's order where that is another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laminar.core.errors import LaminarError


def is_dense(tensor: Tensor) -> bool:
    """Has every place of its memory one element, whatever their order? False for a view with gaps, such as `w[:, ::2]`."""
    return tensor.is_contiguous() or bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def in_order_of(parameter: Tensor, grad: Tensor) -> Tensor:
    """The gradient, with the strides of its parameter."""
    return grad if grad.stride() == parameter.stride() else torch.empty_like(parameter, requires_grad=False).copy_(grad)


def refuse_shared_places(params: Mapping[str, Tensor]) -> None:
    """L606 for a parameter with several elements in one place, as `expand` makes it: none could be changed without the others."""
    for name, parameter in params.items():
        if parameter.layout == torch.strided and not is_dense(parameter) and _places(parameter) < parameter.numel():
            raise LaminarError(
                "L606",
                f"the parameter '{name}' of shape {list(parameter.shape)} has strides {list(parameter.stride())}, so several of its "
                "elements are in one place of memory, but each must have its own to be trained",
                hint=f"nn.Parameter(….clone()) for '{name}' in the model, or train what was expanded, and expand it in forward()",
            )


def _places(tensor: Tensor) -> int:
    """How many places of memory it has elements in."""
    found = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            found = (found.unsqueeze(-1) + stride * torch.arange(size)).flatten()
    return len(torch.unique(found))
