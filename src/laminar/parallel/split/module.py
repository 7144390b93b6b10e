"""The module that a worker trains: the split programs of the model in both modes, and the worker's parts of its tensors.

The model itself stays where it was made, with parts in the place of whole tensors: so the loop trains and keeps those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from laminar.parallel.split.dims import Dims
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.place import Placed
from laminar.parallel.split.program import Program
from laminar.parallel.split.whole import Parts


@final
class SplitModule(nn.Module):
    """`rows`, of the whole batch, are told before each call."""

    def __init__(self, training: Program, judging: Program, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._programs = {True: training, False: judging}
        self._tensors = dict(tensors)
        self.rows = 0

    def forward(self, *inputs: Tensor) -> Tensor:
        program = self._programs[self.training]
        (found,) = program.run(dict(zip(program.inputs, inputs, strict=True)), self._tensors, self.rows).values()
        return found


@torch.no_grad()
def split_model(model: nn.Module, training: Placed, judging: Placed, here: Here) -> tuple[SplitModule, Parts, dict[str, tuple[str, ...]]]:
    """The model with parts in place of its tensors; and which gradients are to be added up along which axes."""
    layouts: dict[str, Dims] = {**judging.layouts, **training.layouts}
    parts = Parts(layouts, here)
    tensors: dict[str, Tensor] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if parts.splits(name):
            tensor.data = parts.own(name, tensor.data).clone()
        tensors[name] = tensor
    constants = {**training.traced.constants, **judging.traced.constants}
    tensors |= {name: parts.own(name, tensor) for name, tensor in constants.items()}
    programs = Program(training, here), Program(judging, here)
    return SplitModule(*programs, tensors), parts, programs[0].deferred
