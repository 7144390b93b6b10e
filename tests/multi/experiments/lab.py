"""A small project with two layers, and experiments in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laminar.experiments.prepare import Prepared, prepare
from laminar.experiments.record import Trial
from laminar.experiments.run import run
from laminar.experiments.spec import Sweep
from laminar.experiments.trial_process import TrialProcess
from laminar.stack.project import open_project
from laminar.store.store import Store

STACK = """
[stack]
name = "small"

[data.all]
source = "digits"
limit = 120

[[layer]]
name = "base"
model = "models:net"
args = { width = 8 }
data = "all"
train = { epochs = 1, batch = 60, threads = 1 }

[[layer]]
name = "head"
freeze = ["features"]
replace = { head = "models:head" }
data = "all"
train = { epochs = 1, batch = 60, threads = 1 }
"""
MODELS = """
import os, signal
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.features(x))


def net(width=8):
    return Net(width)


def head(old, bomb=0):
    if bomb == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if bomb == 2:
        raise ValueError("no such head")
    return nn.Linear(old.in_features, 10)
"""


class Lab:
    """A project, and experiments in it."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        (root / "laminar.toml").write_text(STACK)
        (root / "models.py").write_text(MODELS)
        self.project = open_project(root)
        self.store: Store = self.project.open_store()

    def prepared(self, **given: Any) -> Prepared:
        return prepare(
            Sweep(**({"name": "x", "repeats": 1, "timed": False} | given)), open_project(self.project.root).need_file(), self.store
        )

    def run(self, emit: Any = None, *, at_once: int = 1, trainer: Any = TrialProcess, on: str | None = None, **given: Any) -> list[Trial]:
        how = {name: given.pop(name) for name in ("clock", "fill", "begun") if name in given}
        one = self.prepared(**given)
        tell = emit or (lambda _: None)
        return run(one.description, one.sweep, one.file, self.store, tell, at_once=at_once, trainer=trainer, on=on, **how)
