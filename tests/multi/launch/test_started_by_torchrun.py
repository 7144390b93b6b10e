"""The same command, started once for each rank: by torchrun, or by whoever sets ranks and a token."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from laminar.core.events import read
from tests import warm
from tests.multi.launch.cluster_project import ClusterProject, many_epochs


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TORCHELASTIC_"))}


def test_torchrun(tmp_path: Path) -> None:
    """Rank 0 builds, rank 1 is its agent; the layer is that of local processes."""
    here, there = ClusterProject(tmp_path / "here"), ClusterProject(tmp_path / "there")
    words = ["--standalone", "--nproc-per-node", "2", "-m", "laminar", "build", "-q", "--json", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words], cwd=there.folder, env=clean(), capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    (layer,) = json.loads(done.stdout)["layers"]
    assert layer["id"] == here.build(None, "sync").layers[0].id
    assert there.provenance(layer["id"])["on"]["launcher"] == "env"


def test_ranks_by_hand_and_nothing_to_do(tmp_path: Path) -> None:
    """As under Slurm: rank 0 listens where all know. When every layer is there already, the others are told so and leave."""
    project = ClusterProject(tmp_path / "p")
    project.build(None, "sync")
    ranks = ranks_of(project, 2)
    said = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "0 built, 1 layer reused" in said[0][0]
    assert said[1] == ("", "")
    assert not any("ours" in text for pair in said for text in pair)


def ranks_of(project: ClusterProject, count: int, *words: str, workers: int | None = None) -> list[subprocess.Popen[str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LAMINAR_TOKEN": "ours"}
    return [
        warm.Popen(
            [sys.executable, "-m", "laminar", "build", "--on", "env", "--workers", str(workers or count), *words],
            cwd=project.folder,
            env=clean() | common | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def events(project: ClusterProject, kind: str) -> list[dict[str, Any]]:
    return [event for path in project.folder.glob(".laminar/runs/*/events.jsonl") for event in read(path) if event["event"] == kind]


def after_steps(project: ClusterProject, ranks: list[subprocess.Popen[str]]) -> None:
    while not events(project, "step"):
        assert all(rank.poll() is None for rank in ranks)
        time.sleep(0.05)


# tests/warm.py starts processes in Laminar's place, and lies where code of the user's could.
STARTED_WARM = "its code starts a program (python)"


def slow_project(folder: Path) -> ClusterProject:
    project = ClusterProject(folder)
    project.edit("checkpoint_seconds = 0.2", "checkpoint_seconds = 600.0")
    project.slow.touch()
    return project


def test_a_rank_that_is_told_to_end_leaves_in_order_and_the_others_go_on_from_that_step(tmp_path: Path) -> None:
    """Kubernetes drains a node: SIGTERM, and half a minute."""
    project = slow_project(tmp_path / "p")
    ranks = ranks_of(project, 2, "-q", "--json")
    after_steps(project, ranks)
    ranks[1].send_signal(signal.SIGTERM)
    assert ranks[1].communicate(timeout=60)[1] == ""
    assert ranks[1].returncode == 0
    project.slow.unlink()
    out, error = ranks[0].communicate(timeout=100)
    assert ranks[0].returncode == 0, error
    (layer,) = json.loads(out)["layers"]
    (note,) = [note for note in layer["notes"] if STARTED_WARM not in note]
    assert "worker 1 (process " in note
    assert "was told to leave: its machine is about to end" in note
    kept = next(event["step"] for event in events(project, "checkpoint") if event["why"] == "interrupted")
    assert kept > 0
    assert f"training went on from step {kept} with 1 worker" in note
    assert [event["step"] for event in events(project, "step")] == list(range(40)), "no step twice, none missing"


@pytest.mark.slow
def test_all_ranks_are_told_to_end_and_the_step_under_way_is_kept(tmp_path: Path) -> None:
    """A job is deleted: all pods hear it at once, and none may end before the checkpoint is written."""
    project = slow_project(tmp_path / "p")
    ranks = ranks_of(project, 2)
    after_steps(project, ranks)
    for rank in reversed(ranks):
        rank.send_signal(signal.SIGTERM)
    said = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [130, 0], said
    assert "what was trained is kept" in said[0][1]
    (kept,) = [event["step"] for event in events(project, "checkpoint")]
    assert kept == len(events(project, "step")) > 0


def until_an_evaluator_has_tested(project: ClusterProject, ranks: list[subprocess.Popen[str]], evaluators: int = 1) -> None:
    """Until so many have come, and an epoch was tested since."""
    before: int | None = None
    while True:
        assert all(rank.poll() is None for rank in ranks), [rank.communicate() for rank in ranks]
        tested = sum(event.get("by") == "evaluator" for event in events(project, "epoch"))
        if before is None and len(pids_of_evaluators(project)) >= evaluators:
            before = tested
        if before is not None and tested > before:
            return
        time.sleep(0.05)


def pids_of_evaluators(project: ClusterProject) -> list[int]:
    return [event["pid"] for event in events(project, "worker") if event["role"] == "evaluator"]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def slow_epochs(folder: Path) -> ClusterProject:
    project = many_epochs(folder)
    project.slow.touch()
    return project


@pytest.mark.slow
def test_torchrun_with_a_rank_for_the_evaluator(tmp_path: Path) -> None:
    """Two workers and three ranks: the last one tests, and what is learned is what was learned without it."""
    here, there = many_epochs(tmp_path / "here"), slow_epochs(tmp_path / "there")
    words = ["--standalone", "--nproc-per-node", "3", "-m", "laminar", "build", "-q", "--json", "--workers", "2", "--evaluator"]
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    with subprocess.Popen(command, cwd=there.folder, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as torchrun:
        until_an_evaluator_has_tested(there, [torchrun])
        (evaluator,) = pids_of_evaluators(there)
        assert b"RANK=2" in Path(f"/proc/{parent(evaluator)}/environ").read_bytes().split(b"\0")
        there.slow.unlink()
        out, error = torchrun.communicate(timeout=100)
    assert torchrun.returncode == 0, error
    (layer,) = json.loads(out)["layers"]
    assert layer["id"] == here.build(None, "sync").layers[0].id
    assert there.provenance(layer["id"])["on"] == {"launcher": "env", "hosts": [socket.gethostname()], "workers": 2}
    assert [event["epoch"] for event in events(there, "epoch")] == list(range(60))


@pytest.mark.slow
def test_the_rank_of_an_evaluator_may_be_lost(tmp_path: Path) -> None:
    """Another is started beside the chief, and no worker is disturbed."""
    project = slow_epochs(tmp_path / "p")
    ranks = ranks_of(project, 3, "-q", "--json", "--evaluator", workers=2)
    until_an_evaluator_has_tested(project, ranks)
    assert parent(pids_of_evaluators(project)[0]) == ranks[2].pid
    ranks[2].kill()
    ranks[2].communicate()
    until_an_evaluator_has_tested(project, ranks[:2], evaluators=2)
    assert parent(pids_of_evaluators(project)[1]) == ranks[0].pid
    project.slow.unlink()
    out, error = ranks[0].communicate(timeout=100)
    assert ranks[0].returncode == 0, error
    (note,) = json.loads(out)["layers"][0]["notes"]
    assert note.startswith("evaluator 0 (process ") and note.endswith("; it was started again")
    assert ranks[1].communicate(timeout=60) == ("", "")
    assert [event["epoch"] for event in events(project, "epoch")] == list(range(60))


@pytest.mark.slow
def test_as_many_ranks_as_workers_have_the_evaluator_beside_the_chief(tmp_path: Path) -> None:
    project = slow_epochs(tmp_path / "p")
    ranks = ranks_of(project, 2, "-q", "--json", "--evaluator", "--strategy", "downpour")
    until_an_evaluator_has_tested(project, ranks)
    assert parent(pids_of_evaluators(project)[0]) == ranks[0].pid
    project.slow.unlink()
    said = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert json.loads(said[0][0])["layers"][0]["notes"] == []
