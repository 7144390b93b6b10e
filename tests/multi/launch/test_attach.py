"""A build on a cluster outlives its terminal, is watched from another one, and is taken over when its chief is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.launch import attach
from tests.multi.launch.cluster_project import ClusterProject

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_what_a_failed_test_has_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def start(project: ClusterProject, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "laminar", "build", *words],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=os.environ | (environment or {}),
    )
    STARTED.append(process)
    return process


def until_it_trains(process: subprocess.Popen[str]) -> None:
    """An epoch has been told: there is a chief, and a checkpoint soon."""
    assert process.stderr is not None
    for line in process.stderr:
        if "epoch 1/" in line:
            return
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_a_hang_up_is_survived_and_the_build_watched_to_its_end(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()
    first = start(project, "--on", "agents", "--workers", "2")
    until_it_trains(first)
    first.send_signal(signal.SIGHUP)
    (run,) = attach.runs(project.open().open_store())
    assert (run.layer, run.pid, run.under_way()) == ("base", first.pid, True)
    second = start(project, "--attach", run.name[:8])
    until_it_trains(second)
    project.slow.unlink()
    out, error = second.communicate(timeout=100)
    assert (second.returncode, out.splitlines()[-1]) == (0, f"base: run {run.name} is done; `laminar show base` says what came of it"), (
        error
    )
    first.communicate(timeout=100)
    assert first.returncode == 0
    assert attach.runs(project.open().open_store()) == []
    with pytest.raises(LaminarError, match="no run 'base' on a cluster is under way; none is"):
        attach.find(project.open().open_store(), "base")


def test_whoever_attaches_after_the_chief_was_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()
    first = start(project, "--on", "agents", "--workers", "2")
    until_it_trains(first)
    while not list(project.folder.glob(".laminar/runs/*/checkpoint.json")):
        assert first.poll() is None
    first.kill()
    first.communicate()
    project.slow.unlink()
    changed = start(project, "--attach", "base", "--strategy", "averaging")
    _, error = changed.communicate(timeout=100)
    assert changed.returncode == 2 and "or the options have changed, and another layer would be trained" in error
    second = start(project, "--attach", "base")  # where and by how many it is trained is known
    _, error = second.communicate(timeout=100)
    assert second.returncode == 0, error
    assert "is gone: going on from the last checkpoint" in error
    assert "base resume: goes on after step" in error
    assert len(project.losses()) == 40
    refs = project.open().open_store().refs
    assert project.provenance(refs.get(refs.names()[0]) or "")["on"] == {"launcher": "agents", "hosts": [os.uname().nodename], "workers": 2}


def test_sigterm_is_taken_as_ctrl_c_and_nothing_is_left(tmp_path: Path) -> None:
    (folder := tmp_path / "temporary").mkdir()
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()
    process = start(project, "--on", "agents", "--workers", "2", environment={"TMPDIR": str(folder)})
    until_it_trains(process)
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on from the last checkpoint" in error
    assert list(project.folder.glob(".laminar/runs/*/checkpoint.json"))
    assert list(folder.glob("laminar*")) == []


def test_watching_ends_when_the_build_gives_up(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    told: list[str] = []
    with attach.watched(folder, "base", lambda _: None, {"on": "agents"}) as tell:
        run = attach.Run("r", folder, "base", os.getpid(), os.uname().nodename, attach._began(os.getpid()) or 0.0, {})
        events = attach.follow(run)
        assert next(events)["event"] == "layer"
        tell({"event": "step", "step": 1})
        tell({"event": "step", "step": 2})
        tell({"event": "epoch", "epoch": 0})
        told += [next(events)["event"], next(events)["event"]]
        assert not run.given_up()
    assert told == ["step", "epoch"], "of steps that came together only the last"
    assert run.given_up()
    gone = attach.Run("r", folder, "base", 2**22 + 1, os.uname().nodename, 1.0, {})
    assert [event["event"] for event in attach.follow(gone)] == ["layer"]
