"""What a layer's code reads in a worker, when training is well under way, is in the layer's key as if one process had read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.stack.build import Built
from tests.multi.launch.cluster_project import ClusterProject

LATE = """\
import os

from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Late(nn.Sequential):
    \"\"\"Reads a file in its third training step.\"\"\"

    steps = 0

    def forward(self, x):
        self.steps += self.training
        if self.training and self.steps == 3:
            with open(os.path.join(HERE, "scale.txt")) as file:
                x = x * float(file.read())
        return super().forward(x)


def net(classes, input_shape):
    return Late(nn.Linear(input_shape[0], 16), nn.ReLU(), nn.Linear(16, classes))
"""


def late_project(folder: Path) -> ClusterProject:
    project = ClusterProject(folder)
    (project.folder / "models.py").write_text(LATE)
    (project.folder / "scale.txt").write_text("2.0")
    return project


def layer(project: ClusterProject, strategy: str, workers: int) -> Built:
    (built,) = project.build(None, strategy, workers).layers
    return built


@pytest.mark.parametrize("strategy", ["sync", "downpour", "averaging:every=4"])
def test_a_file_that_only_workers_read_is_in_the_key(tmp_path: Path, strategy: str) -> None:
    project = late_project(tmp_path / "p")
    first = layer(project, strategy, 2)
    record = project.open().open_store().record(first.key)
    assert record is not None and "file:scale.txt" in record.inputs["seen"]
    assert layer(project, strategy, 2).action == "cached"
    (project.folder / "scale.txt").write_text("3.0")
    again = layer(project, strategy, 2)
    assert again.action == "built" and again.key != first.key


def test_one_process_and_two_workers_see_the_same(tmp_path: Path) -> None:
    alone, together = late_project(tmp_path / "alone"), late_project(tmp_path / "together")
    assert layer(alone, "solo", 1).key == layer(together, "sync", 2).key
