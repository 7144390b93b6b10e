"""Gradients of weights, apart from those of inputs.

The backward pass of a stage has two halves: gradients of its inputs, for which the stage before waits, and those of its weights, for which
nobody does. Here the second half of a product or convolution goes straight into the weight's `grad` (no copy of it is made for each
micro-batch), either at once or when there is time: the B and W of zero-bubble schedules (Qi et al., arXiv 2401.10241).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from laminar.train.strides import in_order_of

Job = Callable[[], None]

APART: Final = ("linear", "convolution")  # kernels that can leave the gradients of their weights for later


@final
class WeightGradients:
    def __init__(self, *, apart: bool) -> None:
        """`apart`: they are computed when asked for, and not with those of inputs."""
        self.apart = apart
        self._jobs: list[Job] = []

    def add(self, job: Job) -> None:
        if self.apart:
            self._jobs.append(job)
        else:
            job()

    def left(self) -> list[Job]:
        """What the last backward pass has left to do."""
        found, self._jobs = self._jobs, []
        return found


def takes(store: WeightGradients | None, *weights: Tensor | None) -> bool:
    """Can their gradients go that way? Only those of tensors that are kept, not of some that were made of others."""
    return store is not None and torch.is_grad_enabled() and all(w is None or (w.is_leaf and w.requires_grad) for w in weights)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, store: WeightGradients) -> Tensor:
    return cast(Tensor, _Linear.apply(x, weight, bias, store))  # type: ignore[no-untyped-call]


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any], store: WeightGradients) -> Tensor:
    """`how`: stride, padding, dilation, groups; all but the last a list with a number for each dimension."""
    return cast(Tensor, _Convolution.apply(x, weight, bias, how, store))  # type: ignore[no-untyped-call]


@torch.no_grad()
def _into(weight: Tensor, grad: Tensor) -> None:
    if weight.grad is None:
        # of an image in channels_last it is so, too, and its weight need not be, though the kernels of optimizers believe that it is
        weight.grad = in_order_of(weight, grad)
    else:
        weight.grad.add_(grad)


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, store: WeightGradients) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.store = store
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, bias = ctx.saved_tensors

        @torch.no_grad()
        def job() -> None:
            rows, given = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
            if weight.grad is None:
                weight.grad = rows.t() @ given
            else:
                weight.grad.addmm_(rows.t(), given)
            if bias is not None:
                _into(bias, rows.sum(0))

        ctx.store.add(job)
        return grad @ weight if ctx.needs_input_grad[0] else None, None, None, None


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, how: Sequence[Any], store: WeightGradients) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.how, ctx.store = how, store
        stride, padding, dilation, groups = how
        n = weight.ndim - 2
        return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * n, groups)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, bias = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        n = weight.ndim - 2
        sizes = None if bias is None else list(bias.shape)

        def gradients(mask: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(grad, x, weight, sizes, stride, padding, dilation, False, [0] * n, groups, mask)

        @torch.no_grad()
        def job() -> None:
            _, of_weight, of_bias = gradients([False, True, bias is not None])
            _into(weight, of_weight)
            if bias is not None:
                _into(bias, of_bias)

        ctx.store.add(job)
        return gradients([True, False, False])[0] if ctx.needs_input_grad[0] else None, None, None, None, None
