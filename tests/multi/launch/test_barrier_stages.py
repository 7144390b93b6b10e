"""Builds whose agents are ended together when one of them is lost, as the tasks of a barrier stage are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laminar.launch import patience
from tests.cluster.processes import parents
from tests.multi.launch.barrier_agents import BarrierAgents
from tests.multi.launch.cluster_project import ClusterProject, notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents are killed")
WORKERS = 3
Event = dict[str, Any]


def killer(project: ClusterProject, launcher: BarrierAgents, slot: int) -> Callable[[Event], None]:
    """Kills an agent at the first checkpoint. Training is slow until then."""
    project.slow.touch()

    def hear(event: Event) -> None:
        if event["event"] == "checkpoint" and project.slow.exists():
            project.slow.unlink()
            launcher.agents.processes[slot].kill()

    return hear


def sizes(project: ClusterProject) -> list[int]:
    """Workers of each team, in their order."""
    found: list[int] = []
    for event in project.told:
        if event["event"] == "worker" and event["role"] == "worker":
            found = [*found, 1] if event["rank"] == 0 else [*found[:-1], found[-1] + 1]
    return found


@pytest.mark.parametrize("slot", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_only_the_one_that_was_lost_is_missed(tmp_path: Path, slot: int) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), BarrierAgents()
    report = project.build(launcher, "sync", WORKERS, on_event=killer(project, launcher, slot))
    assert f"worker {slot} (process " in notes(report) and notes(report).count("was lost with its machine's agent") == 1
    assert "with 2 workers" in notes(report)
    assert sizes(project) == [3, 2]
    assert len(project.losses()) == 40, "no step twice, none missing"
    assert report.layers[0].metrics["accuracy"] > 0.85


def test_an_elastic_training_waits_for_a_stage_that_starts_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a larger team may be waited for: without them, it would be none."""
    monkeypatch.setattr(patience, "AGAIN", 0.5)
    project, launcher = ClusterProject(tmp_path / "p"), BarrierAgents(pause=1.0)
    report = project.build(launcher, "sync:elastic=true", WORKERS, on_event=killer(project, launcher, 1))
    assert "with 3 workers" in notes(report)
    assert sizes(project)[0] == 3 and len(sizes(project)) == 2
    assert len(project.losses()) == 40


def test_an_elastic_training_goes_on_with_as_many_as_there_is_room_for(tmp_path: Path) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), BarrierAgents(room=2)
    report = project.build(launcher, "sync:elastic=true", WORKERS, on_event=killer(project, launcher, 1))
    assert sizes(project) == [3, 2]
    assert "2 workers of 3 came back" in notes(report)
    assert len(project.losses()) == 40


@pytest.mark.slow
def test_one_that_has_no_worker_of_the_team_takes_nobody_with_it(tmp_path: Path) -> None:
    """After a loss there is one agent more than workers. The stage ends with it, too."""
    project, launcher = ClusterProject(tmp_path / "p"), BarrierAgents(own=False)
    project.edit("epochs = 4", "epochs = 40")
    workers: dict[int, int] = {}
    killed: list[int] = []

    def kill(event: Event) -> None:
        if event["event"] == "worker" and event["role"] == "worker":
            workers[event["rank"]] = event["pid"]
        if event["event"] == "step" and len(killed) < 2 and len(sizes(project)) == len(killed) + 1:
            known = parents()
            at_work = {known.get(pid) for pid in workers.values()} if killed else set()
            idle = next(process for process in launcher.agents.processes.values() if process.pid not in at_work)
            killed.append(idle.pid)
            idle.kill()
            workers.clear()

    report = project.build(launcher, "sync", WORKERS, on_event=kill)
    assert len(killed) == 2
    assert sizes(project) == [3, 2, 2], notes(report)
    assert len(project.losses()) == 400
