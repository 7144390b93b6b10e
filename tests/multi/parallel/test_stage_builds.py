"""laminar build with a pipeline or with branches: the layer of one process, from workers that have some of its operators."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.multi.parallel.frozen_project import top_losses
from tests.multi.parallel.test_mesh_builds import losses
from tests.multi.parallel.test_sync_builds import alive, built, events, laminar, project, start, wait_for_step
from tests.thinned import thinned

DEEP = "{ hidden = [24, 24, 24] }"
FOUR = 'kind = "pipeline", stages = 4, microbatches = 5'
TWO = 'kind = "pipeline", stages = 2, microbatches = 5, schedule = "zero-bubble"'
CROSSED = 'kind = "pipeline", stages = 2, microbatches = 4, mesh = { cols = 2 }, split = { hidden = "cols" }'

WIDE = """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.paths = nn.ModuleList([nn.Sequential(nn.Conv2d(4, 4, k, padding=k // 2, bias=False), nn.BatchNorm2d(4)) for k in (1, 3, 5)])
        self.head = nn.Linear(12, classes)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        return self.head(torch.cat([path(x) for path in self.paths], 1).mean((2, 3)))


def wide(classes):
    return Wide(classes)
"""


def staged(folder: Path, strategy: str, *, epochs: int = 4, more: str = "") -> Path:
    return project(folder, epochs=epochs, args=DEEP, more=f", strategy = {{ {strategy} }}{more}")


@pytest.mark.parametrize(
    "strategy",
    thinned([CROSSED, f'{TWO}, link = "gloo"', TWO, 'kind = "pipeline", stages = 4, workers = 2, schedule = "interleaved"'], keep=2),
)
def test_the_layer_is_that_of_one_process(tmp_path: Path, strategy: str) -> None:
    more = ", clip = 0.5"
    alone, cut = project(tmp_path / "alone", args=DEEP, more=more), staged(tmp_path / "cut", strategy, more=more)
    one, many = built(alone), built(cut, cold=strategy == TWO)
    assert losses(cut) == pytest.approx(losses(alone), abs=1e-5)
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-4)
    assert many["key"] == one["key"]
    workers = events(cut, "worker")
    assert [w["rank"] for w in workers] == list(range(4 if strategy == CROSSED else 2))
    assert not any(alive(w["pid"]) for w in workers)
    assert built(cut, "--strategy", "solo")["action"] == "cached"
    assert laminar(cut, "verify").returncode == 0


def test_branches(tmp_path: Path) -> None:
    alone, wide = (tmp_path / name for name in ("alone", "wide"))
    project(alone, model="models:wide", args="{ }")
    project(wide, model="models:wide", args="{ }", more=', strategy = { kind = "branches", lanes = 2 }')
    for folder in (alone, wide):
        (folder / "models.py").write_text(WIDE)
    one, many = built(alone), built(wide)
    assert losses(wide) == pytest.approx(losses(alone), abs=1e-5)
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-4)
    assert many["key"] == one["key"]
    assert laminar(wide, "verify").returncode == 0


@pytest.mark.parametrize("strategy", [FOUR, 'kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" }'])
def test_what_is_shown_is_what_is_sent(tmp_path: Path, strategy: str) -> None:
    folder = staged(tmp_path / "p", strategy, epochs=1)
    stack = folder / "laminar.toml"
    stack.write_text(stack.read_text().replace("limit = 700", "limit = 50"))  # one step
    shown = laminar(folder, "show", "base", "--split", "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    workers = found["workers"]
    if found["stages"]:
        assert [stage["lane"] for stage in found["stages"]] == [0, 1, 2, 3]
        assert 0 < found["idle"] < 1
        sent = sum(stage["values"] + stage["gradients"] + stage["inside"] for stage in found["stages"])
    else:
        sent = workers * found["sent_per_step"]
    assert "of the model's numbers" in laminar(folder, "show", "base", "--split").stdout
    asked = laminar(folder, "show", "base", "--split", "--strategy", "pipeline:stages=3", "--workers", "3", "--json")
    assert json.loads(asked.stdout)["workers"] == 3
    assert laminar(folder, "show", "base", "--strategy", "pipeline").returncode == 2  # without --split
    built(folder)
    (epoch,) = events(folder, "epoch")
    assert epoch["bytes"] == sent  # what is told at the end of a step counts in the next
    assert len(epoch["busy"]) == workers and all(0 <= part <= 1 for part in epoch["busy"])


def test_a_picture_of_the_last_step(tmp_path: Path) -> None:
    folder = staged(tmp_path / "p", TWO)
    (said,) = [note for note in built(folder)["notes"] if "idle" in note]
    (picture,) = folder.glob(".laminar/runs/*/stages.svg")
    assert str(picture) in said
    bars = [bar.text for bar in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert len(bars) == 2 * 5 * 3  # forward, inputs and weights of five micro-batches in each stage
    assert sum("weights of micro-batch 3 in stage 1" in str(bar) for bar in bars) == 1


@pytest.mark.slow
def test_a_run_of_four_goes_on_with_two(tmp_path: Path) -> None:
    """As if nothing had happened, to the last bit. Against one process only for a while: it adds up in another order, and what that
    rounds otherwise grows a thousandfold in some hundred steps of Adam once the loss is small, on one machine sooner than on another."""
    alone, whole, cut = project(tmp_path / "alone", args=DEEP, epochs=5), tmp_path / "whole", tmp_path / "cut"
    staged(whole, TWO, epochs=30), staged(cut, FOUR, epochs=30)
    process = start(cut, "build", "-q")
    wait_for_step(cut, process, 20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    stack = cut / "laminar.toml"
    stack.write_text(stack.read_text().replace(FOUR, TWO))
    built(alone), built(whole), built(cut)
    assert losses(cut) == losses(whole)
    assert losses(cut)[:70] == pytest.approx(losses(alone), abs=1e-5)
    (resumed,) = events(cut, "resume")
    assert resumed["step"] >= 20


def interrupted(folder: Path, step: int) -> None:
    """Begun or gone on with, and ended by Ctrl-C once it has come so far."""
    process = start(folder, "build", "-q")
    wait_for_step(folder, process, step)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.parametrize(
    "strategy", thinned(['kind = "branches", lanes = 2', 'kind = "pipeline", stages = 2, microbatches = 5, batch_norm = "each"'])
)
def test_how_often_it_was_interrupted_changes_no_bit(tmp_path: Path, strategy: str) -> None:
    """From one checkpoint, once at a stretch and once in pieces: who has which operator is kept beside it."""
    stretch, pieces = tmp_path / "stretch", tmp_path / "pieces"
    project(stretch, model="models:wide", args="{ }", epochs=30, more=f", strategy = {{ {strategy} }}")
    (stretch / "models.py").write_text(WIDE)
    interrupted(stretch, 20)
    shutil.copytree(stretch, pieces)
    interrupted(pieces, 150)
    one, many = built(stretch), built(pieces)
    assert len(events(pieces, "resume")) == 2 and len(events(stretch, "resume")) == 1
    assert losses(pieces) == losses(stretch)
    assert many["id"] == one["id"]


@pytest.mark.parametrize("rank", thinned([1, 0]))
def test_a_killed_worker_is_replaced(tmp_path: Path, rank: int) -> None:
    cut = staged(tmp_path / "cut", TWO, epochs=40, more=", checkpoint_seconds = 0.1")
    process = start(cut, "build", "--json", "-q")
    pid = wait_for_step(cut, process, 20)[rank]["pid"]
    os.kill(pid, signal.SIGKILL)
    out, error = process.communicate(timeout=100)
    assert process.returncode == 0, error
    (layer,) = json.loads(out)["layers"]
    assert any(f"worker {rank} (process {pid}) was ended by SIGKILL" in note and "with 2 workers" in note for note in layer["notes"])
    steps = [event["step"] for event in events(cut, "step")]
    assert steps == list(range(len(steps)))


@pytest.mark.parametrize(
    ("keep", "cut_at"), thinned([("always", 'cut = ["features.conv1"]'), ("never", "stages = 2"), ("always", "stages = 2")])
)
def test_a_frozen_bottom_stays_as_it_is(tmp_path: Path, keep: str, cut_at: str) -> None:
    alone, one = top_losses(tmp_path / "alone", keep)
    cut, many = top_losses(tmp_path / "cut", keep, f'{{ kind = "pipeline", {cut_at}, microbatches = 4 }}')
    assert cut == pytest.approx(alone, abs=1e-5)
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-4)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ('kind = "pipeline", stages = 3, workers = 2', ["stages is 3 for 2 workers", "interleaved"]),
        ('kind = "pipeline", stages = 3, cut = ["head"]', ["strategy.stages is 3", "make 2"]),
        ('kind = "pipeline", cut = ["hed"]', ["'hed'", "did you mean 'head'"]),
        ('kind = "pipeline", stages = 20', ["cannot be cut into 20 stages", "or fewer"]),
        ('kind = "pipeline", stages = 2, microbatches = 51', ["a batch has 50 rows", "microbatches = 50"]),
        ('kind = "pipeline", stages = 2, schedule = "2f2b"', ["2f2b"]),
        ('kind = "pipeline", stages = 2, mesh = { lanes = 2 }', ["'lanes'"]),
        (
            'kind = "pipeline", stages = 2, mesh = { cols = 2 }, module = { "head" = { vocab = "cols" } }',
            ["'head' has no dimension 'vocab'", "classes: 10", '"head" = { classes = "cols" }'],
        ),
        ('kind = "branches"', ["no branches side by side", "pipeline"]),
    ],
)
def test_what_cannot_be_is_told_before_any_process_starts(tmp_path: Path, strategy: str, said: list[str]) -> None:
    done = laminar(staged(tmp_path / "p", strategy), "build", "-q")
    assert done.returncode == 2, done.stderr
    for words in said:
        assert words in done.stderr, done.stderr
    assert not list((tmp_path / "p").glob(".laminar/runs/*/events.jsonl"))
