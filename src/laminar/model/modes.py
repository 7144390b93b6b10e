"""Modes: whatever is done to a model's training and eval modes for a while, each of its modules is as it was afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def keeping_modes(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        model.train(modes[0][1])  # for models that choose a graph in train() and eval()
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside."""
    with keeping_modes(model):
        model.eval()
        yield
