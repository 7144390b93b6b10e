"""laminar build --strategy sync of models with batch norms: the layer of one process, also when a worker is killed between two of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.multi.parallel.test_sync_builds import built, events, hurry, laminar, project, start, wait_for_step
from tests.thinned import thinned

NORMED = """\
import os
import time

from torch import nn


class Normed(nn.Module):
    \"\"\"Takes its time between two batch norms until there is a file "fast".\"\"\"

    def __init__(self, classes):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.second = nn.Sequential(nn.Linear(96, 24), nn.BatchNorm1d(24, momentum=None), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        x = self.first(x)
        if self.training and not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fast")):
            time.sleep(0.02)
        return self.second(x)


class Contrast(Normed):
    def forward(self, x):
        x = self.first(x)
        return self.second(x - x.mean(0))


def normed(classes):
    return Normed(classes)


def contrast(classes):
    return Contrast(classes)
"""


def normed_project(folder: Path, *, model: str = "normed", epochs: int = 2, more: str = "") -> Path:
    made = project(folder, epochs=epochs, optimizer="sgd", model=f"models:{model}", args="{ }", more=more)
    (made / "models.py").write_text(NORMED)
    return made


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events(folder, "step")]


@pytest.mark.parametrize("link", thinned(["gloo", "memory"]))
def test_a_build_is_that_of_one_process_and_shares_its_key(tmp_path: Path, link: str) -> None:
    one, three = (normed_project(tmp_path / name) for name in ("one", "three"))
    hurry(one), hurry(three)
    alone, together = built(one), built(three, "--strategy", f"sync:link={link}", "--workers", "3")
    assert alone["key"] == together["key"]
    first, several = losses(one), losses(three)
    assert len(first) == len(several) >= 20
    assert max(abs(a - b) for a, b in zip(first, several, strict=True)) < 1e-4
    assert together["metrics"]["loss"] == pytest.approx(alone["metrics"]["loss"], abs=1e-4)
    own = built(three, "--strategy", f"sync:link={link},batch_norm=worker", "--workers", "3")
    assert own["key"] != alone["key"]
    assert abs(own["metrics"]["loss"] - alone["metrics"]["loss"]) > 1e-3


@pytest.mark.parametrize(("link", "words"), thinned([("gloo", []), ("memory", []), ("memory", ["--elastic"]), ("gloo", ["--elastic"])]))
def test_a_worker_killed_between_two_batch_norms_changes_nothing(tmp_path: Path, link: str, words: list[str]) -> None:
    one, three = (normed_project(tmp_path / name, epochs=4, more=", checkpoint_seconds = 0.1") for name in ("one", "three"))
    hurry(one)
    alone = built(one)
    process = start(three, "build", "-q", "--strategy", f"sync:link={link},timeout=20", "--workers", "3", *words)
    pid = wait_for_step(three, process, 8)[1]["pid"]
    os.kill(pid, signal.SIGKILL)
    hurry(three)
    _, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert len(losses(one)) == len(losses(three))
    assert max(abs(a - b) for a, b in zip(losses(one), losses(three), strict=True)) < 1e-3
    (last,) = (event["test"]["loss"] for event in events(three, "epoch")[-1:])
    assert last == pytest.approx(alone["metrics"]["loss"], abs=1e-3)
    notes = [event["why"] for event in events(three, "note")]
    assert any(f"worker 1 (process {pid}) was ended by SIGKILL" in why for why in notes), notes


def test_a_model_that_mixes_rows_is_refused_or_has_the_number_of_workers_in_its_key(tmp_path: Path) -> None:
    folder = normed_project(tmp_path / "contrast", model="contrast", epochs=1)
    done = laminar(folder, "build", "-q", "--strategy", "sync", "--workers", "2")
    assert done.returncode == 2
    assert "error L012" in done.stderr and "the model's own forward (Contrast) changes its outputs for other rows" in done.stderr
    assert 'mixed_rows = "worker"' in done.stderr
    key = built(folder, "--strategy", "sync:mixed_rows=worker", "--workers", "2")["key"]
    notes = json.loads(laminar(folder, "show", "base", "--json").stdout)["notes"]
    said = "the rows of a batch depend on each other (the model's own forward (Contrast) changes its outputs for other rows"
    assert any(note.startswith(said) and note.endswith("and each of 2 workers used its own rows only") for note in notes), notes
    planned = json.loads(laminar(folder, "status", "--json", "--strategy", "sync:mixed_rows=worker", "--workers", "3").stdout)
    assert key not in json.dumps(planned)
