"""Optimizers: torch's own update rules, called without the bookkeeping that torch.optim's classes do at every step.

    sgd      momentum (Polyak 1964), nesterov (Sutskever et al., ICML 2013)
    isgd     sgd, with further steps on some batches (isgd.py)
    adam     Kingma & Ba, arXiv 1412.6980
    adamw    Loshchilov & Hutter, arXiv 1711.05101
    adagrad  Duchi et al., JMLR 2011
    lars     lars.py, ours
    lamb     lamb.py, ours

The functional form takes lists of tensors. State is made when the optimizer is, one tensor per parameter and slot, named by the
parameter: so a checkpoint is those tensors and nothing else, and a small step costs two thirds of what `torch.optim.Adam.step` costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from laminar.core.errors import LaminarError
from laminar.train.lamb import lamb
from laminar.train.lars import Norms, lars, norms_alone
from laminar.train.recipe import Recipe
from laminar.train.strides import in_order_of, is_dense

_SLOTS: Final = {
    "sgd": ("momentum",),
    "isgd": ("momentum",),
    "adam": ("mean", "square", "count"),
    "adamw": ("mean", "square", "count"),
    "adagrad": ("square", "count"),
    "lars": ("momentum",),
    "lamb": ("mean", "square", "count"),
}

SLOTS: Final = frozenset(slot for slots in _SLOTS.values() for slot in slots)

Update = Callable[[list[Tensor], list[Tensor], list[list[Tensor]], float], None]


@final
class Optimizer:
    """Trains `params`. A parameter without a gradient is left alone, as torch.optim leaves it."""

    def __init__(self, recipe: Recipe, params: Mapping[str, nn.Parameter], norms: Norms = norms_alone) -> None:
        self.params = dict(params)
        self._list: list[Tensor] = list(self.params.values())
        self.slots = new_state(recipe, self._list)
        self._state = list(self.slots.values())
        self._update = update_rule(recipe, self._list, norms)
        # Only of these a gradient can have other strides, and only when it was not autograd that put it there. Ordinary models have none.
        self._permuted = [i for i, p in enumerate(self._list) if not p.is_contiguous()]

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self._list if p.grad is not None]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        grads = [p.grad for p in self._list]
        for i in self._permuted:
            if (grad := grads[i]) is not None:
                grads[i] = in_order_of(self._list[i], grad)
        update_those(self._update, self._list, grads, self._state, lr)

    def zero_grad(self) -> None:
        for p in self._list:
            p.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The state by slot and parameter: `mean/features.0.weight`."""
        return {f"{slot}/{name}": tensor for slot, tensors in self.slots.items() for name, tensor in zip(self.params, tensors, strict=True)}

    @torch.no_grad()
    def load(self, saved: Mapping[str, Tensor]) -> None:
        own = self.tensors()
        refuse_other_state(own, saved)
        for name, tensor in own.items():
            tensor.copy_(saved[name])


def update_those(update: Update, params: list[Tensor], grads: Sequence[Tensor | None], state: list[list[Tensor]], lr: float) -> None:
    """Those that have a gradient. Of the others not even the state changes."""
    have = [i for i, grad in enumerate(grads) if grad is not None]
    given = [grad for grad in grads if grad is not None]
    if len(have) == len(grads):
        update(params, given, state, lr)
    elif have:
        update([params[i] for i in have], given, [[tensors[i] for i in have] for tensors in state], lr)


def refuse_other_state(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """L604 unless a checkpoint has the very state that this optimizer has."""
    if own.keys() != saved.keys():
        odd = sorted(own.keys() ^ saved.keys())[0]
        raise LaminarError(
            "L604",
            f"the checkpoint's optimizer state does not fit: '{odd}' is in only one of checkpoint and recipe",
            hint="laminar build --force trains this layer from its start",
        )


def slots_of(recipe: Recipe) -> tuple[str, ...]:
    """The names of what an optimizer remembers of each parameter; `count` is a single number, the others are as large as it."""
    return _SLOTS[recipe.optimizer] if recipe.optimizer not in ("sgd", "isgd") or recipe.momentum else ()


def new_state(recipe: Recipe, params: Sequence[Tensor]) -> dict[str, list[Tensor]]:
    """What an optimizer remembers, by slot: one tensor for each parameter, all zero."""
    # The count is float32 because the fused kernels want it so.
    return {
        slot: [torch.zeros((), device=p.device) if slot == "count" else torch.zeros_like(p, requires_grad=False) for p in params]
        for slot in slots_of(recipe)
    }


def update_rule(recipe: Recipe, params: Sequence[Tensor], norms: Norms = norms_alone) -> Update:
    """The rule for `params`, or some of them, with everything bound that does not change from step to step. `norms`: of whole tensors, for
    rules that go by them."""
    # The fused kernels take no notice of strides. A view with gaps stays one, as somebody may look at the same memory: it is left to the
    # others, which are slower and right.
    fused = all(p.is_floating_point() and p.layout == torch.strided and is_dense(p) for p in params)
    settings = recipe.settings()
    fixed: dict[str, Any] = {
        "fused": fused,
        "foreach": False if fused else None,
        "maximize": False,
        "weight_decay": settings["weight_decay"],
    }

    if recipe.optimizer == "lars":

        def by_lars(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
            lars(params, grads, state[0], lr=lr, norms=norms, **settings)

        return by_lars

    if recipe.optimizer == "lamb":

        def by_lamb(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
            lamb(params, grads, *state, lr=lr, norms=norms, **settings)

        return by_lamb

    # On CPU the kernels behind torch's rules are called at once: sorting tensors by device and dtype takes longer than a small step.
    direct = fused and all(p.device.type == "cpu" for p in params)

    if recipe.optimizer in ("sgd", "isgd"):
        fixed |= {"momentum": settings["momentum"], "nesterov": settings["nesterov"], "dampening": 0.0}

        def by_sgd(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
            # the list is torch's to write in; the momenta themselves are changed in place
            sgd(params, grads, list(state[0]) if state else [None] * len(params), lr=lr, **fixed)

        return by_sgd

    fixed["eps"] = settings["eps"]
    if recipe.optimizer == "adagrad":

        def by_adagrad(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
            square, count = state
            adagrad(params, grads, square, count, lr=lr, lr_decay=0.0, **fixed)

        def at_once(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
            square, count = state
            torch._foreach_add_(count, 1)
            torch._fused_adagrad_(
                params, grads, square, count, lr=lr, lr_decay=0.0, weight_decay=fixed["weight_decay"], eps=fixed["eps"], maximize=False
            )

        return at_once if direct else by_adagrad

    fixed["beta1"], fixed["beta2"] = settings["betas"]
    rule = adam if recipe.optimizer == "adam" else adamw

    def by_adam(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
        mean, square, count = state
        rule(params, grads, mean, square, [], count, lr=lr, amsgrad=False, **fixed)

    kernel: Any = torch._fused_adam_ if recipe.optimizer == "adam" else torch._fused_adamw_
    settled = {name: fixed[name] for name in ("beta1", "beta2", "weight_decay", "eps", "maximize")}

    def by_kernel(params: list[Tensor], grads: list[Tensor], state: list[list[Tensor]], lr: float) -> None:
        mean, square, count = state
        torch._foreach_add_(count, 1)
        kernel(params, grads, mean, square, [], count, lr=lr, amsgrad=False, **settled)

    return by_kernel if direct else by_adam
