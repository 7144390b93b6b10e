"""Optimizers of a parameter server: steps on one flat shard, which knows nothing of the tensors it was cut from.

    adagrad   eta_i = gamma / sqrt(sum of g_i^2), each number its own rate: what Downpour takes (Dean et al., NIPS 2012, 4.1)
    sgd       with momentum
    adam      Kingma & Ba, arXiv 1412.6980

The rules are those of train/optimizers.py, so a server with one worker has the bits of solo. LARS and LAMB are not for shards: they need
the norms of whole tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.restore import restore
from laminar.train.optimizers import new_state, update_rule
from laminar.train.recipe import Recipe

KINDS: Final = ("adagrad", "sgd", "adam", "adamw")


@final
class ServerOptimizer:
    """`recipe` names the optimizer and its settings; the learning rate is given at each step. `like`: the shard, or one of its kind."""

    def __init__(self, recipe: Recipe, like: Tensor) -> None:
        if recipe.optimizer not in KINDS:
            raise ValueError(f'optimizer is "{recipe.optimizer}", but a shard takes {", ".join(KINDS)}: the others need whole tensors')
        self._slots = new_state(recipe, [like])
        self._update = update_rule(recipe, [like])

    @torch.no_grad()
    def step(self, flat_param: Tensor, flat_grad: Tensor, lr: float) -> None:
        """In place."""
        self._update([flat_param], [flat_grad], list(self._slots.values()), lr)

    def state(self) -> dict[str, Tensor]:
        return {slot: tensor for slot, (tensor,) in self._slots.items()}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        restore("the server's optimizer", self.state(), saved)
