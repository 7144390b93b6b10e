"""Shared fixtures: a small stack that builds in a second, and a check that no child process is left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import warm

# The same examples every time, however long one of them waits for a core: as Hypothesis itself has it where it knows that it is in CI.
hypothesis.settings.register_profile("laminar", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("laminar")

# Tests run side by side on few cores: one thread each, and nothing of the user's own settings.
os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in ("LAMINAR_STORE", "LAMINAR_DATA", "LAMINAR_DEBUG", "LAMINAR_FEATURES_BUDGET", "LAMINAR_DATA_MEMORY"):
    os.environ.pop(name, None)

STACK = """\
# A small stack.
[stack]
name = "digits"

[data.even]
source = "digits"
classes = [0, 2, 4, 6, 8]
limit = 300

[data.odd]
source = "digits"
classes = [1, 3, 5, 7, 9]   # the others
limit = 300

[[layer]]
name = "strokes"
model = "models:convnet"
args = { channels = [4, 8], classes = 5 }
data = "even"
train = { epochs = 2, batch = 64, optimizer = "adam", lr = 0.01, seed = 0, threads = 1 }

[[layer]]
name = "head"
from = "strokes"
freeze = ["features"]            # stays as it is
replace = { head = "models:head" }
data = "odd"
train = { epochs = 2, batch = 64, optimizer = "adam", lr = 0.01, seed = 0, threads = 1 }   # quick
"""

MODELS = """\
from torch import nn

from parts.blocks import block


class ConvNet(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        before = [1, *channels[:-1]]
        self.features = nn.Sequential(*[block(a, b) for a, b in zip(before, channels)], nn.Flatten())
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(channels[-1] * (8 // 2 ** len(channels)) ** 2, classes))

    def forward(self, x):
        return self.head(self.features(x))


def convnet(channels, classes):
    return ConvNet(channels, classes)


def head(old, classes):
    return nn.Sequential(nn.Dropout(0.1), nn.Linear(old[1].in_features, classes))
"""

BLOCKS = """\
from torch import nn

from parts.activation import activation


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), activation(), nn.MaxPool2d(2))
"""

ACTIVATION = """\
from torch import nn


def activation():
    return nn.ReLU()
"""


@dataclass(frozen=True)
class Example:
    """A project folder, with the edits tests make to it."""

    root: Path

    @property
    def toml(self) -> Path:
        return self.root / "laminar.toml"

    def edit(self, name: str, old: str, new: str, count: int = 1) -> None:
        text = (self.root / name).read_text()
        assert old in text, f"{old!r} is not in {name}"
        (self.root / name).write_text(text.replace(old, new, count))

    def build(self, *layers: str, **options: Any) -> dict[str, Any]:
        """{"strokes": Built, "head": Built}"""
        from laminar.stack.api import Stack

        return {built.name: built for built in Stack.load(self.toml).build(*layers, **options).layers}

    def actions(self, *layers: str, **options: Any) -> dict[str, str]:
        return {name: built.action for name, built in self.build(*layers, **options).items()}

    def store(self) -> Any:
        from laminar.stack.project import open_project

        return open_project(self.root).open_store()

    def cli(self, *words: str, check: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        return cli(*words, cwd=self.root, check=check, **options)


LOADS_TORCH = ("build", "demo", "doctor", "evaluate", "export", "import", "predict")  # the other verbs start as fast by themselves


def cli(
    *words: str, cwd: Path, check: int | None = 0, env: dict[str, str] | None = None, timeout: float = 240, cold: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `laminar` as a user would; `check` is the exit code expected; `cold`: torch is not loaded yet, either."""
    run = subprocess.run if cold or words[0] not in LOADS_TORCH else warm.run
    done = run(
        [sys.executable, "-m", "laminar", *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if check is not None:
        assert done.returncode == check, f"laminar {' '.join(words)} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def write_example(root: Path) -> Example:
    (root / "parts").mkdir(parents=True, exist_ok=True)
    (root / "laminar.toml").write_text(STACK)
    (root / "models.py").write_text(MODELS)
    (root / "parts" / "__init__.py").write_text("")
    (root / "parts" / "blocks.py").write_text(BLOCKS)
    (root / "parts" / "activation.py").write_text(ACTIVATION)
    return Example(root)


@pytest.fixture
def example(tmp_path: Path) -> Example:
    """The small stack, not built."""
    return write_example(tmp_path / "project")


@pytest.fixture(scope="session")
def _built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = write_example(tmp_path_factory.mktemp("built") / "project")
    example.build()
    return example.root


@pytest.fixture
def built(_built_once: Path, tmp_path: Path) -> Example:
    """The small stack, built; each test has a copy of its own."""
    import shutil

    shutil.copytree(_built_once, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    return Example(tmp_path / "project")


@pytest.fixture
def warm_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of builds in this process start with torch loaded (warm.py)."""
    monkeypatch.setattr(subprocess, "Popen", warm.Popen)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Torch tests on one thread each, whatever was set before."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


def children() -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


@pytest.fixture(autouse=True)
def _no_process_left_behind() -> Iterator[None]:
    before = children()
    yield
    left = {pid for pid in children() - before if not warm.ended(pid)}
    assert not left, f"processes left behind: {left}"


CliRunner = Callable[..., subprocess.CompletedProcess[str]]
