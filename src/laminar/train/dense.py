"""Dense gradients: what torch makes sparse (`nn.Embedding(sparse=True)` and its like) is dense by the time that anybody looks at it.

Update rules, shared memory, buckets, packets, clipping and loss scales all take plain tensors. So it is done where a gradient arrives, by
hooks of its parameter, whether a module, a function or an exported graph has made it. A hook that does nothing still costs a third of a
microsecond at every step, so there are two: one that looks at a parameter's first gradient and is gone when that backward pass ends, and,
only where this was sparse, one that makes it dense, and all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn


def make_dense(params: Iterable[nn.Parameter]) -> Callable[[], None]:
    """From now on the gradients of these are dense, until the returned function is called."""
    watches = [_Watch(parameter) for parameter in params]

    def leave() -> None:
        for watch in watches:
            watch.leave()

    return leave


def sparse_gradient(params: Mapping[str, nn.Parameter]) -> str:
    """The name of a parameter that has one all the same, since its first was dense; or ''."""
    return next((name for name, p in params.items() if p.grad is not None and _is_sparse(p.grad)), "")


@final
class _Watch:
    def __init__(self, parameter: nn.Parameter) -> None:
        self._parameter = parameter
        self._first: Any = parameter.register_hook(self._look)  # type: ignore[no-untyped-call]
        self._each: Any = None

    def _look(self, grad: Tensor | None) -> None:
        """At the first one; it cannot be changed before it has arrived. Nor can a hook be taken away while torch goes through them. None:
        whoever computes it (../parallel/split/weight_grads.py) puts it where it belongs, and it is dense."""
        if self._each is None and grad is not None and _is_sparse(grad):
            self._each = self._parameter.register_post_accumulate_grad_hook(_to_dense)  # type: ignore[no-untyped-call]
            hooks: Any = self._parameter._post_accumulate_grad_hooks
            earlier = {name: hook for name, hook in hooks.items() if name != self._each.id}  # as those of buckets, which send it
            for name, hook in earlier.items():  # not move_to_end: torch goes by the order in which a plain dict has them
                del hooks[name]
                hooks[name] = hook
        torch.autograd.Variable._execution_engine.queue_callback(self._looked)

    def _looked(self) -> None:
        self._first.remove()
        if not self._parameter._backward_hooks:  # torch calls also for an empty dict
            self._parameter._backward_hooks = None

    def leave(self) -> None:
        self._looked()
        if self._each is not None:
            self._each.remove()


def _to_dense(parameter: Tensor) -> None:
    if parameter.grad is not None and _is_sparse(parameter.grad):
        parameter.grad = parameter.grad.to_dense()


def _is_sparse(grad: Tensor) -> bool:
    return grad.layout is not torch.strided
