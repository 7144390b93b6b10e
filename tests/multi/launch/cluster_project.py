"""A project whose training can be held up, for builds on a cluster; and what is asked of such builds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laminar.core.events import read
from laminar.launch.on_cluster import OnCluster
from laminar.launch.protocol import Launcher
from laminar.stack.build import BuildReport, build
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.project import Project, open_project

STACK = """\
[stack]
name = "there"

[data.points]
source = "npz:points.npz"

[[layer]]
name = "base"
model = "models:net"
data = "points"
train = { epochs = 4, batch = 40, optimizer = "sgd", lr = 0.1, seed = 0, threads = 1, checkpoint_seconds = 0.2 }
"""
TOP = """
[[layer]]
name = "top"
from = "base"
freeze = ["0"]
data = "points"
train = { epochs = 1, batch = 40, optimizer = "sgd", lr = 0.1, seed = 0, threads = 1 }
"""
MODELS = """\
import os
import time

from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Net(nn.Sequential):
    \"\"\"Slow while there is a file "slow".\"\"\"

    def forward(self, x):
        if self.training and os.path.exists(os.path.join(HERE, "slow")):
            time.sleep(0.05)
        return super().forward(x)


def net(classes, input_shape):
    return Net(nn.Linear(input_shape[0], 16), nn.ReLU(), nn.Linear(16, classes))
"""


class ClusterProject:
    def __init__(self, folder: Path, *, layers: int = 1) -> None:
        import numpy as np

        folder.mkdir(parents=True)
        self.folder = folder
        (folder / "laminar.toml").write_text(STACK + (TOP if layers > 1 else ""))
        (folder / "models.py").write_text(MODELS)
        random = np.random.default_rng(0)
        y = random.integers(0, 3, 500)
        x = random.normal(size=(500, 8)).astype("float32")
        x[np.arange(500), y] += 3
        np.savez(folder / "points.npz", x_train=x[:400], y_train=y[:400], x_test=x[400:], y_test=y[400:])
        self.told: list[dict[str, Any]] = []

    def open(self) -> Project:
        return open_project(self.folder)

    def edit(self, old: str, new: str) -> None:
        text = (self.folder / "laminar.toml").read_text()
        assert old in text
        (self.folder / "laminar.toml").write_text(text.replace(old, new))

    @property
    def slow(self) -> Path:
        return self.folder / "slow"

    def build(
        self, launcher: Launcher | None, strategy: str, workers: int = 2, *, on_event: Callable[[dict[str, Any]], None] | None = None
    ) -> BuildReport:
        """`on_event` hears what happens while it happens."""
        project = self.open()
        file = with_strategy(project.need_file(), strategy, workers)

        def emit(event: dict[str, Any]) -> None:
            self.told.append(event)
            if on_event is not None:
                on_event(event)

        if launcher is None:
            return build(file, project.open_store(), emit=emit)
        with OnCluster(launcher) as on:
            return build(file, project.open_store(), emit=emit, how=on)

    def losses(self) -> list[float]:
        (events,) = self.folder.glob(".laminar/runs/*/events.jsonl")
        return [event["loss"] for event in read(events) if event["event"] == "step"]

    def provenance(self, id: str) -> dict[str, Any]:
        return self.open().open_store().layer(id).provenance

    def leftovers(self) -> list[str]:
        """What is in the run's folder but should not be."""
        known = {"events.jsonl", "run.json", "features", "finished", "tensorboard", "stages.svg"}
        return [path.name for path in self.folder.glob(".laminar/runs/*/*") if path.name not in known]


def notes(report: BuildReport) -> str:
    return json.dumps([layer.notes for layer in report.layers])


def many_epochs(folder: Path) -> ClusterProject:
    """Enough of them for an evaluator to come while they are slow."""
    project = ClusterProject(folder)
    project.edit("epochs = 4", "epochs = 60")
    project.edit("checkpoint_seconds = 0.2", "checkpoint_seconds = 60.0")
    return project


def all_epochs(project: ClusterProject) -> list[int]:
    return [event["epoch"] for event in project.told if event["event"] == "epoch"]


class Evaluated:
    """Hears a build on, and lets it hurry once the evaluator has tested so many epochs."""

    def __init__(self, project: ClusterProject, wanted: int = 2, on_tested: Callable[[], None] = lambda: None) -> None:
        self._project, self._wanted, self._on_tested = project, wanted, on_tested
        self.evaluators: list[dict[str, Any]] = []
        self.by: list[str | None] = []
        project.slow.touch()

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "worker" and event["role"] == "evaluator":
            self.evaluators.append(event)
        if event["event"] == "epoch":
            self.by.append(event.get("by"))
            if event.get("by") == "evaluator":
                self._on_tested()
            if self.by.count("evaluator") == self._wanted:
                self._project.slow.unlink(missing_ok=True)
