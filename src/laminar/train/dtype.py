"""Dtypes: what a model computes in.

    float32, float64     parameters and arithmetic
    bfloat16, float16    arithmetic of matrix products and convolutions (autocast); parameters and optimizer state stay float32.
                         float16 scales the loss, because small gradients vanish in it (Micikevicius et al., arXiv 1710.03740)

Some processors die by an illegal instruction in half-precision kernels. So those are tried in a child process first, which may die.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.train.recipe import Recipe

HALVES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
MENDS: Final = "ONEDNN_MAX_CPU_ISA"  # oneDNN's limit on the instructions it uses

_TRIAL: Final = """
import sys, torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 64), nn.ReLU(), nn.Linear(64, 10))
with torch.autocast("cpu", dtype=getattr(torch, sys.argv[1])):
    out = model(torch.ones(32, 3, 8, 8))
    loss = nn.functional.cross_entropy(out.float() + (torch.ones(32, 64) @ torch.ones(64, 10)).float(), torch.zeros(32, dtype=torch.int64))
loss.backward()
assert all(torch.isfinite(p.grad).all() for p in model.parameters())
"""


def of_tensors(dtype: str) -> torch.dtype:
    """What parameters and inputs are kept in."""
    return torch.float64 if dtype == "float64" else torch.float32


def prepare(model: nn.Module, recipe: Recipe) -> None:
    """Bring the model's floating-point tensors into the recipe's dtype. Before freezing: frozen tensors may not change later. L605."""
    if recipe.dtype in HALVES:
        probe(recipe.dtype)
    wanted = of_tensors(recipe.dtype)
    if any(t.is_floating_point() and t.dtype != wanted for t in [*model.parameters(), *model.buffers()]):
        model.to(wanted)


def autocast(dtype: str) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=HALVES[dtype]) if dtype in HALVES else contextlib.nullcontext()


def probe(dtype: str) -> None:
    """L605 unless this processor can train in `dtype`."""
    died = _trial(dtype, os.environ.get(MENDS), _TRIAL)
    if died:
        limit = f"{MENDS}=AVX512_CORE_BF16 laminar build, or " if dtype == "bfloat16" else ""
        hint = f'{limit}dtype = "float32" in train'
        raise LaminarError("L605", f"this processor cannot compute in {dtype}: a trial of it {died}", hint=hint)


@functools.cache
def _trial(dtype: str, limit: str | None, program: str) -> str:  # noqa: ARG001 - `limit` is part of what the answer depends on
    """How the trial failed, or nothing."""
    try:
        child = subprocess.run([sys.executable, "-c", program, dtype], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "did not end within 120 s"
    if child.returncode < 0:
        return f"died by {signal.Signals(-child.returncode).name}"
    if child.returncode:
        return f"failed: {(child.stderr.strip().splitlines() or ['no message'])[-1]}"
    return ""


@final
class LossScale:
    """Multiplies the loss before backward and divides the gradients after; halves itself when they overflow, and grows back slowly."""

    GROW_AFTER: Final = 2000  # good steps

    def __init__(self) -> None:
        self.scale = 2.0**16
        self.good = 0

    def backward(self, loss: Tensor) -> None:
        (loss * self.scale).backward()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def unscale(self, gradients: Iterable[Tensor]) -> bool:
        """False: they overflowed, and the step is to be left out."""
        gradients = list(gradients)
        for gradient in gradients:
            gradient.mul_(1 / self.scale)
        if all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            self.good += 1
            if self.good == self.GROW_AFTER:
                self.scale, self.good = self.scale * 2, 0
            return True
        self.scale, self.good = self.scale / 2, 0
        return False
