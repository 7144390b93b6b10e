"""A project with something to look at: branches, several workers, versions, a rollback, a tag, a stale layer and one never built.

Made by real commands, for the tests of the dashboard and for its pictures (tests/make_screenshots.py).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests import warm

STACK = """\
[stack]
name = "digits"

[data.even]
source = "digits"
classes = [0, 2, 4, 6, 8]
limit = {samples}

[data.odd]
source = "digits"
classes = [1, 3, 5, 7, 9]
limit = {samples}

[data.all]
source = "digits"
limit = {samples}

[[layer]]
name = "strokes"
model = "models:convnet"
args = {{ channels = [8, 16], classes = 5 }}
data = "even"
train = {{ epochs = {epochs}, batch = 32, optimizer = "adam", lr = 0.004, seed = 0, threads = 1 }}

[[layer]]
name = "odd"
freeze = ["features"]
replace = {{ head = "models:head" }}
data = "odd"
train = {{ epochs = {epochs}, batch = 32, optimizer = "adam", lr = 0.01, seed = 0, threads = 1 }}

[[layer]]
name = "ten"
from = "strokes"
replace = {{ head = "models:head" }}
data = "all"
train.epochs = {epochs}
train.batch = 32
train.optimizer = "adam"
train.lr = 0.004
train.seed = 0
train.threads = 1
train.strategy = {{ kind = "downpour", workers = 2 }}

[[layer]]
name = "fine"
from = "odd"
data = "odd"
train = {{ epochs = {epochs}, batch = 32, optimizer = "sgd", lr = 0.02, seed = 0, threads = 1 }}

[[layer]]
name = "together"
from = "ten"
data = "all"
train.epochs = {epochs}
train.batch = 32
train.optimizer = "adam"
train.lr = 0.002
train.seed = 0
train.threads = 1
train.strategy = {{ kind = "sync", workers = 2 }}
"""

NEVER = """
[[layer]]
name = "later"
from = "together"
freeze = ["features"]
data = "even"
train = {{ epochs = {epochs}, batch = 32, lr = 0.001, seed = 0 }}
"""

SWEEP = """\
name = "rate"
question = "Which rate learns most?"
layer = "strokes"
repeats = 3
measures = ["seconds", "accuracy", "loss", "overfit"]
benchmark = { lr = 0.004 }

[axes]
lr = [0.001, 0.004, 0.016, 0.064]
"""

MODELS = """\
from torch import Tensor, nn


class ConvNet(nn.Module):
    def __init__(self, channels: list[int], classes: int) -> None:
        super().__init__()
        first, second = channels
        self.features = nn.Sequential(
            nn.Conv2d(1, first, 3, padding=1), nn.BatchNorm2d(first), nn.ReLU(), nn.MaxPool2d(2),
            Residual(first), nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(second * 4, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.inner(x))


def convnet(channels: list[int], classes: int) -> nn.Module:
    return ConvNet(channels, classes)


def head(old: nn.Linear, classes: int) -> nn.Module:
    return nn.Linear(old.in_features, classes)
"""


def laminar(folder: Path, *words: str, timeout: float = 200) -> None:
    done = warm.run([sys.executable, "-m", "laminar", *words], cwd=folder, capture_output=True, timeout=timeout)
    assert done.returncode == 0, f"laminar {' '.join(words)}: {done.stderr.decode()}"


def make(folder: Path, *, epochs: int = 3, samples: int = 200) -> Path:
    """The folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    text = STACK.format(epochs=epochs, samples=samples)
    stack = folder / "laminar.toml"
    (folder / "models.py").write_text(MODELS)
    stack.write_text(text)
    laminar(folder, "build")
    laminar(folder, "tag", "strokes", "strokes:v1")
    stack.write_text(text.replace("lr = 0.01,", "lr = 0.02,"))
    laminar(folder, "build", "odd")
    laminar(folder, "rollback", "odd")
    stack.write_text(text.replace("lr = 0.02,", "lr = 0.05,") + NEVER.format(epochs=epochs))
    return folder


def add_more(folder: Path) -> None:
    """What takes minutes: an experiment, a plan that is tried, and kernels."""
    (folder / "sweep.toml").write_text(SWEEP)
    laminar(folder, "experiment", "run", "sweep.toml", "--quiet", "--even-if-busy", timeout=900)
    laminar(folder, "plan", "strokes", "--try", "3", "--even-if-busy", "-q", timeout=600)
    for name in ("leaky.c", "convolution.c"):
        shutil.copy(Path(__file__).parents[1] / "examples" / "kernels" / name, folder / name)
