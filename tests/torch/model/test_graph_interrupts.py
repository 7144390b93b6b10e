"""Ctrl-C while a model is traced: torch's tracer cannot be interrupted in its middle."""

from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor, nn

from laminar.model.graph_export import traced


class Interrupted(nn.Module):
    """Ctrl-C comes while its forward is traced."""

    def __init__(self, passed: list[str]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.tell = passed.append

    def forward(self, x: Tensor) -> Tensor:
        signal.raise_signal(signal.SIGINT)
        self.tell("went on")
        out: Tensor = self.linear(x)
        return out


def test_ctrl_c_comes_after_the_trace() -> None:
    passed: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        traced(Interrupted(passed), torch.rand(4, 3), training=False)
    assert passed == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
