"""Builds with an evaluator: the same layers, tested by a process of its own, which may die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from laminar.core.events import read
from laminar.launch.local_agents import LocalAgents
from laminar.launch.staff import ClusterStaff
from tests.multi.launch.cluster_project import ClusterProject, Evaluated, all_epochs, many_epochs, notes
from tests.multi.parallel.test_sync_builds import SLOW, built, hurry, project, start

EPOCHS = 40


def made(folder: Path) -> Path:
    """Its training is slow until `hurry`."""
    project(folder, epochs=EPOCHS, model="models:slow", args="{ }")
    (folder / "models.py").write_text(SLOW)
    return folder


def heard(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for path in folder.glob(".laminar/runs/*/events.jsonl") for event in read(path) if event["event"] == kind]


def evaluators(folder: Path) -> list[int]:
    return [event["pid"] for event in heard(folder, "worker") if event["role"] == "evaluator"]


def until_tested(folder: Path, process: subprocess.Popen[str], evaluator: int) -> None:
    """Until the n-th evaluator has come, and an epoch was tested since."""
    before: int | None = None
    while True:
        assert process.poll() is None, process.communicate()
        tested = [event["epoch"] for event in heard(folder, "epoch") if event.get("by") == "evaluator"]
        if before is None and len(evaluators(folder)) >= evaluator:
            before = len(tested)
        if before is not None and len(tested) > before:
            return
        time.sleep(0.05)


def done(folder: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    hurry(folder)
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    return dict(json.loads(out)["layers"][0])


def test_sync_learns_the_same_and_an_evaluator_that_is_killed_is_missed_by_nobody(tmp_path: Path) -> None:
    plain, folder = made(tmp_path / "a"), made(tmp_path / "b")
    hurry(plain)
    without = built(plain, "--strategy", "sync", "--workers", "2")
    process = start(folder, "build", "-q", "--json", "--workers", "2", "--evaluator")
    until_tested(folder, process, 1)
    os.kill(evaluators(folder)[0], signal.SIGKILL)
    until_tested(folder, process, 2)
    layer = done(folder, process)
    assert (layer["key"], layer["id"]) == (without["key"], without["id"])
    assert layer["metrics"]["loss"] == pytest.approx(without["metrics"]["loss"])
    (note,) = layer["notes"]
    assert note.startswith("evaluator 0 (process ") and note.endswith(" was ended by SIGKILL; it was started again")
    epochs = heard(folder, "epoch")
    assert [event["epoch"] for event in epochs] == list(range(EPOCHS)), "in their order, whoever tested them; what it died over, too"
    assert [event["test"] for event in epochs] == [pytest.approx(event["test"]) for event in heard(plain, "epoch")]
    workers = {event["pid"] for event in heard(folder, "worker") if event["role"] == "worker"}
    assert len(workers) == 2 and not workers & set(evaluators(folder)), "no worker was disturbed"


@pytest.mark.parametrize("words", [("--strategy", "averaging:outer=nesterov,every=4"), ("--strategy", "sync", "--compress", "dgc")])
def test_of_one_worker_it_tests_what_one_process_learns(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It has the key of that, where an outer step or compressed gradients would learn something else."""
    alone = built(project(tmp_path / "a", optimizer="sgd"))
    layer = built(project(tmp_path / "b", optimizer="sgd"), *words, "--workers", "1", "--evaluator")
    assert layer["key"] == alone["key"]
    assert layer["metrics"]["loss"] == pytest.approx(alone["metrics"]["loss"], rel=1e-4)


@pytest.mark.parametrize("strategy", ["downpour", pytest.param("quorum", marks=pytest.mark.slow)])
def test_training_apart_has_one_too(tmp_path: Path, strategy: str) -> None:
    folder = made(tmp_path / "p")
    process = start(folder, "build", "-q", "--json", "--strategy", f"{strategy}:evaluator=true", "--workers", "2")
    until_tested(folder, process, 1)
    os.kill(evaluators(folder)[0], signal.SIGKILL)
    until_tested(folder, process, 2)
    layer = done(folder, process)
    assert [event["epoch"] for event in heard(folder, "epoch")] == list(range(EPOCHS))
    assert layer["metrics"]["accuracy"] > 0.6
    assert "was ended by SIGKILL; it was started again" in str(layer["notes"])


@pytest.mark.slow
def test_on_a_cluster_it_has_an_agent_of_its_own_whose_loss_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterStaff, "one_machine", property(lambda _: False))  # they meet over the network
    project, launcher = many_epochs(tmp_path / "p"), LocalAgents()
    lost: list[int] = []

    def lose() -> None:
        if not lost:
            assert sorted(launcher.processes) == [0, 1, 2]
            lost.append(launcher.processes[2].pid)
            launcher.processes[2].kill()

    watcher = Evaluated(project, wanted=3, on_tested=lose)
    report = project.build(launcher, "sync:evaluator=true", on_event=watcher)
    assert "evaluator 0 (process " in notes(report)
    assert "training went on from step" not in notes(report), "no worker was disturbed"
    assert len(watcher.evaluators) == 2, "the second one is beside the chief"
    assert report.layers[0].metrics["accuracy"] > 0.85
    assert project.provenance(report.layers[0].id)["on"]["workers"] == 2
    assert all_epochs(project) == list(range(60))
    assert project.leftovers() == []


def test_one_worker_on_a_cluster_learns_what_one_process_does(tmp_path: Path) -> None:
    alone, away = ClusterProject(tmp_path / "a"), ClusterProject(tmp_path / "b")
    (one,) = alone.build(None, "solo", 1).layers
    (layer,) = away.build(LocalAgents(), "averaging:outer=nesterov,every=4", 1).layers
    assert layer.key == one.key
    assert layer.metrics["loss"] == pytest.approx(one.metrics["loss"], rel=1e-4)
    assert away.provenance(layer.id)["on"]["workers"] == 1
