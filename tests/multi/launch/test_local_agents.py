"""Builds on agents: what a cluster does to them, with processes of this machine in the place of one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.launch import agent, switchboard
from laminar.launch.local_agents import LocalAgents
from laminar.launch.on_cluster import OnCluster
from laminar.launch.protocol import Call, Launcher, Trouble
from laminar.launch.staff import ClusterStaff
from laminar.launch.switchboard import Switchboard
from laminar.testing.launcher_contract import LauncherContract
from tests.cluster.processes import command, parents
from tests.multi.launch.cluster_project import ClusterProject, notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class TestLocalAgents(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return LocalAgents()


class NeverThere:
    """A launcher whose engine does not come up."""

    name = "never"
    host = "127.0.0.1"
    fixed: int | None = None
    own = whole = False

    def __init__(self) -> None:
        self.asked, self.off = threading.Event(), threading.Event()

    def begin(self) -> None: ...

    def start(self, agents: int, call: Call, *, together: bool) -> None:
        self.asked.set()
        assert self.off.wait(60.0), "nobody has called it off"
        raise LaminarError("L407", "called off")

    def call_off(self) -> None:
        self.off.set()

    def trouble(self) -> list[Trouble]:
        return []

    def comes_back(self) -> bool:
        return False

    def most(self) -> int | None:
        return None

    def stop(self) -> None: ...


def test_ctrl_c_while_an_engine_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    launcher = NeverThere()
    recipe = ClusterProject(tmp_path / "p").open().need_file().spec.layer[0].train
    with pytest.raises(KeyboardInterrupt), OnCluster(launcher) as on:
        on.soon(msgspec.structs.replace(recipe, strategy="sync"))
        launcher.asked.wait()
        raise KeyboardInterrupt
    assert launcher.off.is_set()


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that see nothing of this machine's files, as on another one."""
    monkeypatch.setattr(ClusterStaff, "one_machine", property(lambda _: False))
    monkeypatch.setattr(ClusterStaff, "_see", lambda self, _store: {a.slot: False for a in self._board.here})


@pytest.mark.slow
def test_a_build_on_neighbours_is_the_one_of_local_processes(tmp_path: Path) -> None:
    here, there = ClusterProject(tmp_path / "here"), ClusterProject(tmp_path / "there")
    one, other = here.build(None, "sync"), there.build(LocalAgents(), "sync")
    assert [layer.key for layer in one.layers] == [layer.key for layer in other.layers], "where it ran is no part of the key"
    assert [layer.id for layer in one.layers] == [layer.id for layer in other.layers], "to the bit: they meet in shared memory"
    on = there.provenance(other.layers[0].id)["on"]
    assert on == {"launcher": "agents", "hosts": [os.uname().nodename], "workers": 2}
    assert "on" not in here.provenance(one.layers[0].id)
    assert there.leftovers() == []


@pytest.mark.parametrize("there", [True, False])
def test_workers_of_a_cluster_of_our_own_are_forked_and_others_are_started(tmp_path: Path, there: bool) -> None:
    launcher, project = LocalAgents(), ClusterProject(tmp_path / "p")
    launcher.own = there
    project.slow.touch()
    seen: list[str] = []

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "worker":
            seen.append(command(parents()[event["pid"]]))
        if event["event"] == "step":
            project.slow.unlink(missing_ok=True)

    project.build(launcher, "sync", on_event=look)
    module = "laminar.parallel.nursery" if there else "laminar.launch.agent"
    assert len(seen) == 2 and all(f" -m {module} " in words for words in seen), seen


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("strategy", ["sync", pytest.param("averaging", marks=pytest.mark.slow), "downpour"])
def test_a_build_far_away_gets_its_project_sent(tmp_path: Path, strategy: str) -> None:
    project = ClusterProject(tmp_path / "p", layers=2 if strategy == "sync" else 1)  # the second stands on what is sent from the store
    report = project.build(LocalAgents(), strategy)
    assert all(layer.metrics["accuracy"] > 0.85 for layer in report.layers), report
    assert project.leftovers() == []


WIDE = """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self, size, classes):
        super().__init__()
        self.one, self.two, self.head = nn.Linear(size, 8), nn.Linear(size, 8), nn.Linear(16, classes)

    def forward(self, x):
        return self.head(torch.cat([torch.relu(self.one(x)), torch.tanh(self.two(x))], 1))


def net(classes, input_shape):
    return Wide(input_shape[0], classes)
"""


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize(
    "strategy", ["pipeline", 'mesh:mesh={ cols = 2 },split={ hidden = "cols" }', pytest.param("branches:lanes=2", marks=pytest.mark.slow)]
)
def test_a_model_is_split_far_away(tmp_path: Path, strategy: str) -> None:
    here, there = ClusterProject(tmp_path / "here"), ClusterProject(tmp_path / "there")
    if strategy.startswith("branches"):
        for project in (here, there):
            (project.folder / "models.py").write_text(WIDE)
    one, other = here.build(None, "solo", 1), there.build(LocalAgents(), strategy)
    assert there.losses() == pytest.approx(here.losses(), abs=1e-5)
    assert [layer.key for layer in one.layers] == [layer.key for layer in other.layers]
    assert there.leftovers() == []


@pytest.mark.slow
def test_a_lost_agent_of_a_pipeline_is_replaced_and_it_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), LocalAgents()
    project.edit("epochs = 4", "epochs = 60")
    killed: list[int] = []

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "checkpoint" and not killed:
            killed.append(launcher.processes[1].pid)
            launcher.processes[1].kill()

    report = project.build(launcher, "pipeline", on_event=kill)
    assert killed
    assert "training went on from step" in notes(report)
    assert "with 2 workers" in notes(report)
    assert len(project.losses()) == 600, "no step twice, none missing"


def test_an_agent_that_is_killed_in_the_middle_is_named_and_sync_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), LocalAgents()
    project.slow.touch()

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "checkpoint" and project.slow.exists():
            project.slow.unlink()
            launcher.processes[1].kill()

    report = project.build(launcher, "sync", on_event=kill)
    assert "training went on from step" in notes(report)
    assert "with 1 worker" in notes(report)
    assert "worker 1 (process " in notes(report)
    assert os.uname().nodename in notes(report)
    assert "exit code -9" in notes(report)
    steps = [event["step"] for event in project.told if event["event"] == "epoch"]
    assert steps == sorted(set(steps))
    assert len(project.losses()) == 40, "no step twice, none missing"


@pytest.mark.slow
def test_an_agent_that_is_killed_is_not_missed_by_downpour(tmp_path: Path) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), LocalAgents()
    project.slow.touch()

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "worker" and event["role"] == "worker" and event["rank"] == 1:
            launcher.processes[1].kill()
            project.slow.unlink()

    report = project.build(launcher, "downpour", on_event=kill)
    assert "the others go on" in notes(report)
    assert report.layers[0].metrics["accuracy"] > 0.85


def test_an_agent_that_comes_while_files_are_sent_gets_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what it sees of this machine, so it would get neither the project nor a way to it."""
    monkeypatch.setattr(ClusterStaff, "_see", lambda _self, _store: {0: True})
    project = ClusterProject(tmp_path / "p")
    project.build(LocalAgents(), "sync")
    assert len(project.losses()) == 40


def test_ctrl_c_keeps_the_checkpoint_here_and_the_next_build_goes_on(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "epoch" and project.slow.exists():
            project.slow.unlink()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        project.build(LocalAgents(), "sync", on_event=interrupt)
    assert list(project.folder.glob(".laminar/runs/*/checkpoint.json"))
    before = len(project.losses())
    report = project.build(LocalAgents(), "sync")
    assert any(event["event"] == "resume" and event["step"] >= before for event in project.told)
    assert report.layers[0].metrics["accuracy"] > 0.85
    assert len(project.losses()) == 40


def test_a_broken_line_is_mended_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ClusterProject(tmp_path / "p")
    boards: list[Switchboard] = []
    enter = Switchboard.__enter__
    monkeypatch.setattr(Switchboard, "__enter__", lambda self: (boards.append(self), enter(self))[1])
    monkeypatch.setattr(switchboard, "BACK", 60.0)
    cuts: list[int] = []

    def cut(event: dict[str, Any]) -> None:
        if event["event"] == "epoch":
            for one in boards[0].here:
                if one.caller is not None:
                    with contextlib.suppress(OSError):  # of two epochs heard at once: it is cut, and nobody has looked since
                        one.caller.socket.shutdown(2)
                        cuts.append(event["epoch"])

    report = project.build(LocalAgents(), "sync", on_event=cut)
    assert cuts
    assert notes(report) == "[[]]"
    assert len(project.losses()) == 40


def test_an_agent_that_is_stopped_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchboard, "SILENCE", 1.5)
    monkeypatch.setattr(switchboard, "BACK", 0.2)
    launcher = LocalAgents()
    with Switchboard(launcher, 2) as board:
        board.room(2)
        launcher.processes[0].send_signal(signal.SIGSTOP)
        while not board.agents[0].lost:
            board.turn(0.1)
        launcher.processes[0].send_signal(signal.SIGCONT)
        assert "it was not heard of for" in board.agents[0].lost
        assert not board.agents[1].lost


def test_another_version_is_turned_away_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with Switchboard(LocalAgents(), 1) as board:
        monkeypatch.setattr(board, "_version", "9.9")
        with pytest.raises(LaminarError, match=r"0 workers of 1 .*Laminar .* but 9\.9 here"):
            board.room(1)


def test_agents_that_cannot_start_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Switchboard(LocalAgents(), 2) as board, pytest.raises(LaminarError, match="its agent ended with exit code 1"):
        board.room(2)


def test_a_wrong_token_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "PATIENCE", 0.5)
    with Switchboard(LocalAgents(), 1) as board:
        board.room(1)
        address = board._hub.address
        assert "did not answer" in _serve_while(board, address)
        assert len(board.here) == 1


def _serve_while(board: Switchboard, address: str) -> str:
    import threading

    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(agent.serve(address, "guess", 0)))
    thread.start()
    while thread.is_alive():
        board.turn(0.1)
    return said[0]


def test_agents_end_with_a_chief_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from laminar.launch.local_agents import LocalAgents\n"
        "from laminar.launch.switchboard import Switchboard\n"
        "launcher = LocalAgents()\n"
        "with Switchboard(launcher, 1) as board:\n"
        "    board.room(1)\n"
        "    print(launcher.processes[0].pid, flush=True)\n"
        "    while True: board.turn(1)\n"
    )
    chief = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert chief.stdout is not None
    pid = int(chief.stdout.readline())
    watch = os.pidfd_open(pid)
    chief.kill()
    chief.communicate()
    import select

    assert select.select([watch], [], [], 20)[0], "the agent outlives its chief"
    os.close(watch)


@pytest.mark.slow
def test_kept_features_are_computed_once_where_all_see_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ClusterProject(tmp_path / "p", layers=2)
    project.edit("epochs = 1, batch", 'epochs = 1, keep_features = "always", batch')
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))  # where agents have their workspaces
    seen: list[tuple[Path, bool, bool]] = []

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "epoch" and event["layer"] == "top":
            for rows in (tmp_path / "t").glob("laminar-agent-*/store/features/*/t0.bin"):
                index = rows.with_name("index.json")
                own = project.folder / ".laminar/features" / rows.parent.name
                seen.append((rows.resolve(), rows.is_symlink(), index.read_bytes() == (own / "index.json").read_bytes()))

    report = project.build(LocalAgents(), "sync", on_event=look)
    (kept,) = (project.folder / ".laminar/features").glob("*/t0.bin")
    assert seen == [(kept.resolve(), True, True)] * 2, "nobody has added a row"
    assert "computed for 500 samples" in report.layers[1].features
    here = ClusterProject(tmp_path / "here", layers=2)
    here.edit("epochs = 1, batch", 'epochs = 1, keep_features = "always", batch')
    assert [layer.id for layer in here.build(None, "sync").layers] == [layer.id for layer in report.layers]


def test_the_call_does_not_show_its_token() -> None:
    assert "secret" not in repr(Call("127.0.0.1:1", "secret"))
