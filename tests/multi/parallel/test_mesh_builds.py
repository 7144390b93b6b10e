"""laminar build with a mesh: the layer of one process, from workers of which none has the whole model."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.multi.parallel.frozen_project import top_losses
from tests.multi.parallel.test_sync_builds import alive, built, events, laminar, project, start, wait_for_step
from tests.thinned import thinned

SQUARE = 'kind = "mesh", mesh = { rows = 2, cols = 2 }, split = { batch = "rows", hidden = "cols" }'
TWO = 'kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" }'


def mesh_project(folder: Path, strategy: str, *, epochs: int = 4, more: str = "", **other: Any) -> Path:
    return project(folder, epochs=epochs, more=f", strategy = {{ {strategy} }}{more}", **other)


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events(folder, "step")]


@pytest.mark.parametrize("strategy", thinned([SQUARE, f'{TWO}, link = "gloo"']))
def test_the_layer_is_that_of_one_process(tmp_path: Path, strategy: str) -> None:
    more = ", clip = 0.5"
    alone, split = project(tmp_path / "alone", more=more), mesh_project(tmp_path / "split", strategy, more=more)
    one, many = built(alone), built(split, cold=strategy != SQUARE)
    assert losses(split) == pytest.approx(losses(alone), abs=1e-5)
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-4)
    assert many["key"] == one["key"]  # so it is reused, however it was trained
    workers = events(split, "worker")
    assert [w["rank"] for w in workers] == list(range(4 if strategy == SQUARE else 2))
    assert not any(alive(w["pid"]) for w in workers)
    assert built(split, "--strategy", "solo")["action"] == "cached"
    assert laminar(split, "verify").returncode == 0
    assert laminar(split, "evaluate", "base", "--data", "digits").returncode == 0


@pytest.mark.parametrize("optimizer", ["lars", "lamb"])
def test_rules_that_go_by_the_norms_of_whole_tensors(tmp_path: Path, optimizer: str) -> None:
    more = ", trust = 1.0" if optimizer == "lars" else ""
    alone = project(tmp_path / "alone", optimizer=optimizer, more=more)
    split = mesh_project(tmp_path / "split", SQUARE, optimizer=optimizer, more=more)
    built(alone), built(split)
    assert losses(split) == pytest.approx(losses(alone), abs=1e-5)
    assert losses(split)[-1] < losses(split)[0]


def test_a_run_of_four_goes_on_with_two(tmp_path: Path) -> None:
    epochs = 100  # some 3 s from step 20 on, so that the run does not end before the signal on a machine that stalls
    alone, split = project(tmp_path / "alone", epochs=epochs), mesh_project(tmp_path / "split", SQUARE, epochs=epochs)
    process = start(split, "build", "-q")
    wait_for_step(split, process, 20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    stack = split / "laminar.toml"
    stack.write_text(stack.read_text().replace(SQUARE, TWO))
    built(alone), built(split)
    assert losses(split) == pytest.approx(losses(alone), abs=1e-4)
    (resumed,) = events(split, "resume")
    assert resumed["step"] >= 20


@pytest.mark.parametrize("rank", thinned([3, 0]))
def test_a_killed_worker_is_replaced(tmp_path: Path, rank: int) -> None:
    split = mesh_project(tmp_path / "split", SQUARE, epochs=40, more=", checkpoint_seconds = 0.1")
    process = start(split, "build", "--json", "-q")
    pid = wait_for_step(split, process, 20)[rank]["pid"]
    os.kill(pid, signal.SIGKILL)
    out, error = process.communicate(timeout=100)
    assert process.returncode == 0, error
    (layer,) = json.loads(out)["layers"]
    assert any(f"worker {rank} (process {pid}) was ended by SIGKILL" in note and "with 4 workers" in note for note in layer["notes"])
    steps = [event["step"] for event in events(split, "step")]
    assert steps == list(range(len(steps)))


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ('kind = "mesh", mesh = { cols = 5 }, split = { hidden = "cols" }', ["its hidden of size 24", "24 / 5 = 4.8", "cols = 4 in mesh"]),
        ('kind = "mesh", mesh = { cols = 2 }, split = { batch = "cols", hidden = "cols" }', ["batch", "hidden", "both on axis 'cols'"]),
        (
            'kind = "mesh", mesh = { cols = 2 }, split = { vocab = "cols" }',
            ["no tensor of this model has a dimension 'vocab'", "hidden: 24"],
        ),
        ('kind = "mesh", mesh = { cols = 2 }, split = { hiden = "cols" }', ["'hiden'", "did you mean 'hidden'"]),
        ('kind = "mesh", mesh = { cols = 2 }, split = { hidden = "rows" }', ["'rows'", "no axis of the mesh (cols = 2)"]),
        ('kind = "mesh", mesh = { cols = 2 }, split = { }, module = { "hed" = { } }', ['module."hed"', "did you mean 'head'"]),
        (
            'kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" }, module = { "head" = { height = "cols" } }',
            ["'head' has no dimension 'height'", "classes: 10; hidden: 24", '"head" = { hidden = "cols" }'],
        ),
        ('kind = "mesh", mesh = { cols = 2 }, workers = 3', ["strategy.workers is 3", "the mesh has 2 = 2"]),
        ('kind = "mesh", mesh = { }', ["strategy.mesh has no axis"]),
        ('kind = "mesh"', ["mesh"]),
    ],
)
def test_what_cannot_be_is_told_before_any_process_starts(tmp_path: Path, strategy: str, said: list[str]) -> None:
    done = laminar(mesh_project(tmp_path / "p", strategy), "build", "-q")
    assert done.returncode == 2, done.stderr
    for words in said:
        assert words in done.stderr, done.stderr
    assert not list((tmp_path / "p").glob(".laminar/runs/*/events.jsonl"))


@pytest.mark.parametrize("keep", thinned(["always", "never"]))
def test_a_frozen_bottom_stays_as_it_is(tmp_path: Path, keep: str) -> None:
    alone, one = top_losses(tmp_path / "alone", keep)
    split, many = top_losses(
        tmp_path / "split", keep, '{ kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols", channels = "cols" } }'
    )
    assert split == pytest.approx(alone, abs=1e-5)
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-4)
