"""Engine: gradients from the gradients of what was computed, by torch's engine itself.

`torch.autograd.backward(roots, grads)` compares shapes by torch's symbolic ones, and loads them for that, sympy and all: 0.27 s of a core
in the first step of every process that is given gradients, as each member of a team and each stage is, and 13 us of every later step.
Whoever calls this knows that shapes fit: a share for a number, and what another stage computed for what this one gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def _inner() -> Callable[..., Any] | None:
    """None where torch has it no more: then there is only the way round."""
    from torch.autograd import graph

    return getattr(graph, "_engine_run_backward", None)


_RUN = _inner()


def give_back(roots: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
    """Add to the `grad` of every leaf below `roots`. Each gradient has the shape of its root."""
    if _RUN is None:
        torch.autograd.backward(list(roots), list(grads))
        return
    _RUN(tuple(roots), tuple(grads), False, False, (), allow_unreachable=True, accumulate_grad=True)
