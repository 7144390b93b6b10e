"""One build of one layer on Fashion-MNIST in a folder of its own, and what its run tells. Used by the benchmarks of strategies."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar.core.events import read

STACK = """\
[stack]
name = "bench"

[data.garments]
source = "{source}"

[[layer]]
name = "base"
model = "{model}"
args = {args}
data = "garments"
train = {{ {train} }}
"""
MODELS = {
    "mlp": ("laminar:mlp", "{ hidden = [128] }"),
    "cnn": ("laminar:convnet", "{ channels = [16, 32], norm = false }"),
    "cnn-wide": ("laminar:convnet", "{ channels = [16, 32], hidden = [256], norm = false }"),  # 1.6 MB
}


@dataclass(frozen=True)
class Told:
    """The events of a run."""

    events: list[dict[str, Any]]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def samples_per_second(self) -> float:
        """Of an epoch of training, testing left out: the median over the epochs but the first."""
        rates = [epoch["samples_per_second"] for epoch in self.all("epoch")]
        return statistics.median(rates[1:] or rates)

    @property
    def samples_per_second_with_tests(self) -> float:
        """From the end of the first test to that of the last: to compare who tests between epochs with who tests meanwhile."""
        epochs, (start,) = self.all("epoch"), self.all("start")
        return float(start["samples"] * (len(epochs) - 1) / (epochs[-1]["t"] - epochs[0]["t"]))

    @property
    def accuracy(self) -> float:
        return float(self.all("end")[-1]["metrics"]["accuracy"])


def build(
    model: str, train: str, *words: str, code: str = "", args: str = "{}", source: str = "fashion-mnist", before: tuple[str, ...] = ()
) -> Told:
    """`model`: a name of MODELS, or a factory of `code`, the text of models.py. `words`: of the command line; `before` it: a prefix."""
    factory, settings = MODELS.get(model, (model, args))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(STACK.format(model=factory, args=settings, train=train, source=source))
        if code:
            (folder / "models.py").write_text(code)
        subprocess.run([*before, sys.executable, "-m", "laminar", "build", "-q", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        return Told(list(read(events)))
