"""Gradients from given gradients, without torch's symbolic shapes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from laminar.train import engine

PROBE = """
import sys
import torch
from laminar.train.engine import give_back
w = torch.ones(3, requires_grad=True)
give_back([(w * 2).sum()], [torch.tensor(0.5)])
assert w.grad.tolist() == [1.0, 1.0, 1.0]
print("sympy" in sys.modules)
"""


@pytest.mark.parametrize("inner", [True, False])
def test_gradients_are_those_of_torch(inner: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not inner:
        monkeypatch.setattr(engine, "_RUN", None)

    def roots(w: torch.Tensor) -> list[torch.Tensor]:
        return [w.sin(), (w * w).sum()]

    grads = [torch.tensor([1.0, -2.0, 3.0]), torch.tensor(0.25)]
    ours, theirs = (torch.tensor([0.5, 1.0, -1.0], requires_grad=True) for _ in range(2))
    for _ in range(2):  # they are added to what is there
        engine.give_back(roots(ours), grads)
        torch.autograd.backward(roots(theirs), grads)
    assert ours.grad is not None and theirs.grad is not None
    assert torch.equal(ours.grad, theirs.grad)


def test_nothing_is_loaded_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
