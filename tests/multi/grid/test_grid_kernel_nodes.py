"""A layer with a kernel on a grid: nodes that have the kernel's file do its tasks, others are told what they lack; no text is sent."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.multi.grid.served import commands

STACK = """\
[stack]
name = "grid"

[data.digits]
source = "digits"

[[layer]]
name = "net"
model = "models:net"
data = "digits"
train = { epochs = 4, batch = 32, optimizer = "sgd", lr = 0.1, seed = 0, threads = 1 }
"""
MODELS = """\
from torch import nn

import laminar

leaky = laminar.kernel("leaky.c")


def net(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), leaky.module(slope=0.1), nn.Linear(32, classes))
"""
LEAKY = """\
void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""


def test_tasks_go_to_the_node_that_has_the_kernel(tmp_path: Path) -> None:
    project, folder = tmp_path / "project", tmp_path / "kernels"
    project.mkdir()
    folder.mkdir()
    for name, text in (("laminar.toml", STACK), ("models.py", MODELS), ("leaky.c", LEAKY)):
        (project / name).write_text(text)
    shutil.copy(project / "leaky.c", folder)
    (project / "other").mkdir()
    (project / "other" / "leaky.c").write_text(LEAKY.replace("slope * v", "v"))  # of the same name, and not the same
    with commands(project) as grid:
        grid.serve()
        lacking = grid.join("lacks", "--kernels", str(project / "other"))
        words = ["grid", "train", "net", "--rounds", "2", "--workers", "1", "--local-steps", "5", "--replicate", "never", "--json"]
        train = grid._start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        waits = next(line for line in train.stderr if "waiting" in line and "kernel" in line)
        assert "its only node here lacks the kernel leaky.c (sha256 " in waits and "laminar grid join --kernels DIR" in waits
        told = next(line for line in lacking.stderr if "needs the kernel" in line)
        assert "leaky.c (sha256 " in told and "laminar grid join --kernels DIR, with leaky.c in DIR" in told
        grid.join("has", "--kernels", str(folder))
        out, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors
        assert json.loads(out)["layers"][0]["action"] == "built"
        done = {node["name"]: node for node in json.loads(grid.run("grid", "nodes", "--json").stdout)}
        assert done["has"]["valid"] >= 2 and done["lacks"]["valid"] == done["lacks"]["lost"] == 0
        status = json.loads(grid.run("grid", "status", "--json").stdout)["runs"][0]
        assert status["failed"] == 0 and status["results"] == {"valid": status["answers"]}  # nothing went back and forth
        ((sha256, stem),) = status["kernels"].items()
        assert stem == "leaky" and done["has"]["facts"]["kernels"] == [sha256] and done["lacks"]["facts"]["kernels"] != [sha256]
        kept = [path.read_bytes() for path in (project / "has" / "files").iterdir()]
        assert not any(b"slope * v" in data for data in kept)
