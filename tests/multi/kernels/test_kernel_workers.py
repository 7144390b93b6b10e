"""Kernels in the processes of several workers: the layer of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.stack.api import Stack

STACK = """\
[stack]
name = "team"

[data.digits]
source = "digits"
limit = 300

[[layer]]
name = "base"
model = "nets:net"
data = "digits"
train = {{ epochs = 1, batch = 50, lr = 0.01, seed = 0, threads = 1{more} }}
"""
NETS = """\
import laminar
import torch
from torch import nn

leaky = laminar.kernel("leaky.c")


def net(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), leaky.module(slope=torch.tensor(0.1)), nn.Linear(24, classes))
"""
LEAKY = """\
void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    y[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}
"""


@pytest.mark.usefixtures("warm_workers")
def test_two_workers_train_what_one_does(tmp_path: Path) -> None:
    losses = []
    for name, more in (("one", ""), ("two", ', strategy = { kind = "sync", workers = 2 }')):
        root = tmp_path / name
        root.mkdir()
        (root / "laminar.toml").write_text(STACK.format(more=more))
        (root / "nets.py").write_text(NETS)
        (root / "leaky.c").write_text(LEAKY)
        (built,) = Stack.load(root / "laminar.toml").build().layers
        losses.append(built.metrics["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
