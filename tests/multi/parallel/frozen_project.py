"""A stack of two layers, the second on a frozen bottom with batch norms, for tests of strategies that split the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laminar.core.events import read
from tests.multi.parallel.test_sync_builds import laminar

STACK = """\
[stack]
name = "frozen"

[data.digits]
source = "digits"
limit = 400

[[layer]]
name = "base"
model = "laminar:convnet"
args = {{ channels = [4, 8], hidden = [16] }}
data = "digits"
train = {{ epochs = 1, batch = 50, lr = 0.01, seed = 0, threads = 1 }}

[[layer]]
name = "top"
from = "base"
freeze = ["features"]
data = "digits"
train = {{ epochs = 3, batch = 50, lr = 0.01, seed = 1, threads = 1, keep_features = "{keep}", strategy = {strategy} }}
"""


def top_losses(folder: Path, keep: str, strategy: str = '"solo"') -> tuple[list[float], dict[str, Any]]:
    """Of every step of the layer on the frozen bottom, and what its training told at the end."""
    folder.mkdir()
    (folder / "laminar.toml").write_text(STACK.format(keep=keep, strategy=strategy))
    done = laminar(folder, "build", "-q")
    assert done.returncode == 0, done.stderr
    assert laminar(folder, "verify").returncode == 0
    told = list(read(max((folder / ".laminar/runs").glob("*/events.jsonl"), key=lambda path: path.stat().st_mtime_ns)))
    return [event["loss"] for event in told if event["event"] == "step"], dict(next(one for one in told if one["event"] == "end"))
