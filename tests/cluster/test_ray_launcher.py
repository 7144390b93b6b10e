"""Builds on real Ray clusters of several raylets, which are killed in every phase; and on one of our own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.launch import ray as launcher_module
from laminar.launch.protocol import Call, Launcher
from laminar.launch.ray import RayLauncher
from laminar.stack.build import Built
from laminar.testing.launcher_contract import LauncherContract
from tests.cluster.kills import PHASES, START, Kill, unhurt
from tests.cluster.processes import all_gone, below, command, parents, when_it_runs
from tests.cluster.ray_cluster import ENVIRONMENT
from tests.multi.launch.cluster_project import ClusterProject, Evaluated, all_epochs, many_epochs, notes

SLOWER = float(os.environ.get("LAMINAR_TEST_SLOWER", "1"))  # how much slower this machine is than an idle one with two cores
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(55 * SLOWER, func_only=True),
    pytest.mark.skipif(find_spec("ray") is None or sys.platform != "linux", reason="needs Ray, and looks into /proc"),
]
NODES = 3
Event = dict[str, Any]


# Processes


def agents() -> list[int]:
    """Processes in which Ray runs an agent."""
    return [pid for pid in parents() if command(pid).startswith("ray::LaminarAgent")]


# The cluster


class RayCluster:
    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.cluster.ray_cluster", str(NODES)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._hear()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        self.about: dict[str, Any] = json.loads(self.process.stdout.readline())

    @property
    def alive(self) -> set[int]:
        return set(self.about["raylets"]) & parents().keys()

    def heal(self) -> None:
        assert self.process.stdin is not None
        while len(self.alive) < NODES:
            self.process.stdin.write("add\n")
            self.process.stdin.flush()
            self._hear()

    def raylet_of(self, pid: int) -> int:
        known = parents()
        while pid not in self.about["raylets"]:
            pid = known[pid]
        return pid

    @staticmethod
    def power_cut(raylet: int) -> None:
        """All of a node at once. Where only the raylet is killed, what it has started must find out by itself."""
        for each in [raylet, *(below(raylet) - {raylet})]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def cut_off(self, agent: int) -> None:
        """The node of an agent. Of its raylet alone an agent hears too late to fail."""
        self.power_cut(self.raylet_of(agent))

    def end(self) -> None:
        pids = below(self.process.pid)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            for pid in pids & parents().keys():
                os.kill(pid, signal.SIGKILL)
            self.process.stdout.close()
            self.process.wait()


@pytest.fixture(scope="module")
def one_cluster() -> Iterator[RayCluster]:
    cluster = RayCluster()
    yield cluster
    cluster.end()


@pytest.fixture
def cluster(one_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> RayCluster:
    one_cluster.heal()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return one_cluster


@pytest.fixture
def launcher(cluster: RayCluster) -> RayLauncher:
    return RayLauncher(cluster.about["address"])


class TestRay(LauncherContract):
    @pytest.fixture
    def launcher(self, cluster: RayCluster) -> Launcher:
        return RayLauncher(cluster.about["address"])


class TestEmbeddedRay(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return RayLauncher(None)


# As on this machine


@pytest.fixture(scope="module", params=["sync", "averaging", "downpour", "pipeline", 'mesh:mesh={ cols = 2 },split={ hidden = "cols" }'])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ClusterProject, Built]:
    project = ClusterProject(tmp_path_factory.mktemp("local") / "here")
    return request.param, project, project.build(None, request.param).layers[0]


def test_what_is_learned_is_what_local_processes_learn(
    tmp_path: Path, launcher: RayLauncher, local: tuple[str, ClusterProject, Built]
) -> None:
    strategy, here, one = local
    there = ClusterProject(tmp_path / "there")
    (other,) = there.build(launcher, strategy).layers
    assert one.key == other.key, "where it ran is no part of the key"
    assert other.metrics["accuracy"] >= one.metrics["accuracy"] - 0.05
    assert other.metrics["accuracy"] > 0.85
    if strategy not in ("averaging", "downpour"):
        assert there.losses() == pytest.approx(here.losses(), abs=1e-5)
        assert len(there.losses()) == 40
    assert there.provenance(other.id)["on"] == {"launcher": "ray", "hosts": [os.uname().nodename], "workers": 2}
    assert "on" not in here.provenance(one.id)
    assert there.leftovers() == []
    assert agents() == []


def test_by_its_client_port_as_from_another_machine(tmp_path: Path, cluster: RayCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(RayLauncher(cluster.about["client"]), "sync")
    assert report.layers[0].metrics["accuracy"] > 0.85
    assert len(project.losses()) == 40


# One kill each, in every phase, and how soon training goes on


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Of a training that nobody hurts."""
    return unhurt(tmp_path_factory.mktemp("unhurt") / "p", 2)


@pytest.mark.parametrize("address", ["address", "client"])
@pytest.mark.parametrize(
    ("what", "phase", "strategy"),
    [
        *((what, phase, "sync") for what in ("raylet", "rank") for phase in PHASES),
        *(("raylet", phase, "sync:elastic=true") for phase in PHASES),
    ],
)
def test_a_kill(tmp_path: Path, cluster: RayCluster, losses: list[float], address: str, what: str, phase: str, strategy: str) -> None:
    """From one of the cluster's nodes, and by the client port as from another machine."""
    project, inner = ClusterProject(tmp_path / "p"), RayLauncher(cluster.about[address])

    def strike(pid: int) -> None:
        os.kill(pid if what == "rank" else cluster.raylet_of(pid), signal.SIGKILL)

    def strike_first(pid: int) -> None:
        strike(pid)
        kill.struck()

    kill = Kill(project, phase, strike)
    at_start = (what, phase) == ("raylet", START)
    on: Launcher = WhileStarting(inner, strike_first) if at_start else inner
    report = project.build(on, strategy, on_event=kill)
    kill.check(report, losses, SLOWER)
    if not at_start:
        assert "worker 1 (process " in notes(report) and os.uname().nodename in notes(report), notes(report)
        how = "was ended by SIGKILL" if what == "rank" else "was lost with its machine's agent: "
        assert notes(report).count(how) == 1, notes(report)
        assert f"with {'2 workers' if 'elastic' in strategy else '1 worker'}" in notes(report), notes(report)


# Nodes that die


class WhileStarting:
    """A launcher that loses a node when the first agent's process is there."""

    name = "ray"
    fixed: int | None = None
    own = False
    whole = False

    def __init__(self, inner: RayLauncher, kill: Callable[[int], None]) -> None:
        """`kill`: is told an agent's process."""
        self._inner, self._kill = inner, kill
        self.begin, self.host, self.trouble = inner.begin, inner.host, inner.trouble
        self.comes_back, self.most, self.stop, self.call_off = inner.comes_back, inner.most, inner.stop, inner.call_off

    def start(self, agents_: int, call: Call, *, together: bool) -> None:
        self._inner.start(agents_, call, together=together)
        while not (there := agents()):
            pass
        self._kill(there[0])


def killer(
    project: ClusterProject, cluster: RayCluster, rank: int, when: Callable[[Event], bool], until: str | None = None
) -> Callable[[Event], None]:
    """Kills the node of a worker at the first event that is meant. Training is slow until then, or until another event after it."""
    project.slow.touch()
    raylets: dict[int, int] = {}
    killed: list[int] = []

    def hear(event: Event) -> None:
        if event["event"] == "worker" and event["role"] == "worker":
            raylets[event["rank"]] = cluster.raylet_of(event["pid"])
        if not killed and len(raylets) == 2 and when(event):
            cluster.power_cut(raylets[rank])
            killed.append(rank)
        if killed and until in (None, event["event"]):
            project.slow.unlink(missing_ok=True)

    return hear


MOMENTS: dict[str, Callable[[Event], bool]] = {
    "first step": lambda event: event["event"] in ("worker", "step"),
    "middle": lambda event: event["event"] == "epoch" and event["epoch"] >= 1,
    "saving": lambda event: event["event"] == "checkpoint",  # told before its files are with the chief
}


@pytest.mark.parametrize(("phase", "rank"), [("first step", 1), ("middle", 0), ("saving", 0)])
def test_sync_goes_on_from_the_checkpoint_with_what_is_left(
    tmp_path: Path, launcher: RayLauncher, cluster: RayCluster, phase: str, rank: int
) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(launcher, "sync", on_event=killer(project, cluster, rank, MOMENTS[phase]))
    assert f"worker {rank} (process " in notes(report), notes(report)
    assert os.uname().nodename in notes(report)
    assert "was lost with its machine's agent: " in notes(report)
    assert "training went on from step" in notes(report) and "with 1 worker" in notes(report)
    assert len(project.losses()) == 40, "no step twice, none missing"
    assert report.layers[0].metrics["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("strategy", "phase"), [("downpour", "first step"), ("downpour", "middle"), ("quorum", "middle"), ("averaging", "middle")]
)
def test_nobody_waits_for_a_lost_node_where_nobody_has_to(
    tmp_path: Path, launcher: RayLauncher, cluster: RayCluster, strategy: str, phase: str
) -> None:
    project = ClusterProject(tmp_path / "p")
    project.edit("epochs = 4", "epochs = 40")  # so that the others have something to go on with
    report = project.build(launcher, strategy, on_event=killer(project, cluster, 1, MOMENTS[phase], until="note"))
    assert "the others go on" in notes(report), notes(report)
    assert "worker 1 (process " in notes(report) and os.uname().nodename in notes(report)
    assert report.layers[0].metrics["accuracy"] > 0.85


def test_an_elastic_training_gets_a_spare_node_for_a_lost_one(tmp_path: Path, launcher: RayLauncher, cluster: RayCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(launcher, "sync:elastic=true", on_event=killer(project, cluster, 0, MOMENTS["middle"]))
    assert "training went on from step" in notes(report) and "with 2 workers" in notes(report)
    assert len(project.losses()) == 40
    assert len({event["pid"] for event in project.told if event["event"] == "worker"}) >= 3


def test_an_evaluator_has_a_node_of_its_own_whose_loss_is_nobodys(tmp_path: Path, launcher: RayLauncher, cluster: RayCluster) -> None:
    plain, project = many_epochs(tmp_path / "here"), many_epochs(tmp_path / "there")
    lost: list[int] = []

    def lose() -> None:
        if not lost:
            lost.append(cluster.raylet_of(heard.evaluators[0]["pid"]))
            workers = {cluster.raylet_of(event["pid"]) for event in project.told if event.get("role") == "worker"}
            assert len(workers) == 2 and not workers & set(lost)
            cluster.power_cut(lost[0])

    heard = Evaluated(project, wanted=2, on_tested=lose)
    (layer,) = project.build(launcher, "sync:evaluator=true", on_event=heard).layers
    assert lost
    assert "evaluator 0 (process " in str(layer.notes) and "it was started again" in str(layer.notes)
    assert "training went on from step" not in str(layer.notes)
    assert all_epochs(project) == list(range(60))
    plain.build(None, "sync")
    assert project.losses() == pytest.approx(plain.losses(), abs=1e-5)


def test_a_node_that_dies_while_the_last_snapshot_is_written_changes_nothing(
    tmp_path: Path, launcher: RayLauncher, cluster: RayCluster
) -> None:
    project = ClusterProject(tmp_path / "p")
    last = killer(project, cluster, 1, lambda event: event["event"] == "epoch" and event["epoch"] == 3)
    report = project.build(launcher, "downpour", on_event=last)
    assert not project.slow.exists(), "it was killed"
    assert report.layers[0].metrics["accuracy"] > 0.85


def test_a_node_that_dies_while_agents_start_is_replaced_by_a_spare_one(tmp_path: Path, launcher: RayLauncher, cluster: RayCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(WhileStarting(launcher, cluster.cut_off), "sync")
    assert len({event["pid"] for event in project.told if event["event"] == "worker"}) == 2
    assert report.layers[0].metrics["accuracy"] > 0.85


@pytest.mark.parametrize("strategy", ["sync", "downpour"])
def test_a_node_that_dies_while_agents_start_is_told_where_there_is_no_other(
    tmp_path: Path, launcher: RayLauncher, cluster: RayCluster, strategy: str
) -> None:
    project = ClusterProject(tmp_path / "p")
    began = time.monotonic()
    with pytest.raises(LaminarError, match=r"2 workers of 3 came .*worker \d: .*(node has died|does not reach it)") as caught:
        project.build(WhileStarting(launcher, cluster.cut_off), strategy, NODES)
    assert caught.value.code == "L406"
    assert time.monotonic() - began < 30 * SLOWER
    assert agents() == []


# What cannot be done, and what must not be left


def test_too_many_workers_are_told_with_what_there_is(launcher: RayLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = RayLauncher(launcher._address, placing=1.0)
    with pytest.raises(LaminarError, match=r"no room for 9 workers: 9 CPUs were asked for, .* has 3 CPUs, of which 3 are free") as caught:
        ClusterProject(tmp_path / "p").build(launcher, "sync", 9)
    assert caught.value.code == "L406"


def test_something_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_module, "CONNECTING", 4.0)
    monkeypatch.setattr(launcher_module, "SERVING", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in ("127.0.0.1:{}", "ray://127.0.0.1:{}"):
            launcher = RayLauncher(address.format(silent.getsockname()[1]))
            with pytest.raises(LaminarError) as caught:
                launcher.host  # noqa: B018
            assert caught.value.code == "L407"


def test_a_command_on_ray_shows_nothing_of_ray_and_leaves_nothing(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    words = [sys.executable, "-m", "laminar", "build", "--json", "-q", "--on", "ray", "--strategy", "averaging", "--workers", "2"]
    chief = subprocess.Popen(words, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen: set[int] = set()
    commands: set[str] = set()
    while chief.poll() is None:
        seen |= (now := below(chief.pid))
        commands |= {command(pid) for pid in now}
    out, error = chief.communicate()
    assert chief.returncode == 0, error
    assert error == ""
    (layer,) = json.loads(out)["layers"]
    assert project.provenance(layer["id"])["on"]["launcher"] == "ray"
    assert any(said.startswith("ray::LaminarAgent") for said in commands)
    assert all_gone(seen, 5 * SLOWER)


@pytest.mark.parametrize("embedded", [True, False])
def test_a_chief_that_is_killed_leaves_no_process(tmp_path: Path, cluster: RayCluster, embedded: bool) -> None:
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()
    on = "ray" if embedded else f"ray:{cluster.about['address']}"
    words = [sys.executable, "-m", "laminar", "build", "-q", "--on", on, "--strategy", "sync", "--workers", "2"]
    chief = subprocess.Popen(words, cwd=project.folder)
    try:
        while not list(project.folder.glob(".laminar/runs/*/checkpoint.json")):
            assert chief.poll() is None
        left = below(chief.pid).union(*(below(pid) for pid in agents()))
        assert len(left) > 4
    finally:
        chief.kill()
        chief.wait()
    assert all_gone(left, 25 * SLOWER)


def test_a_ray_that_needs_all_of_its_processes_is_started_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from ray._private.node import Node

    from laminar.launch import ray_driver

    theirs = {name: getattr(Node, name) for name in ray_driver.NOT_USED}
    tried: list[dict[str, Any]] = []

    def init(**options: Any) -> None:
        tried.append({name: getattr(Node, name) for name in ray_driver.NOT_USED})
        if len(tried) == 1:
            raise AttributeError("'NoneType' object has no attribute 'port'")
        assert options == {"address": "local", "num_cpus": 2}

    monkeypatch.setattr(ray, "init", init)
    ray_driver.start_own(num_cpus=2)
    assert not tried[0].items() & theirs.items() and tried[1] == theirs


@pytest.mark.parametrize(("why", "tries"), [("Starting Ray client server failed. See ray_client_server_23000.err", 2), ("refused", 1)])
def test_a_head_whose_server_crashed_is_asked_once_more(monkeypatch: pytest.MonkeyPatch, why: str, tries: int) -> None:
    import ray

    from laminar.launch import ray_driver

    tried: list[str] = []

    def init(*, address: str, **_: Any) -> None:
        tried.append(address)
        raise ConnectionAbortedError(f"Initialization failure from server: RuntimeError: {why}")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(LaminarError, match="the cluster at ray://head:1 cannot be used: Initialization failure"):
        ray_driver.connect("ray://head:1", None)
    assert len(tried) == tries


def test_ctrl_c_while_ray_starts_is_heard_at_once(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    words = [sys.executable, "-m", "laminar", "build", "-q", "--on", "ray", "--strategy", "sync", "--workers", "2"]
    chief = subprocess.Popen(words, cwd=project.folder, stderr=subprocess.PIPE, text=True)
    left = when_it_runs("gcs_server", chief)
    chief.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, error = chief.communicate(timeout=60 * SLOWER)
    assert chief.returncode == 130 and error.startswith("interrupted: "), error
    assert time.monotonic() - began < 5 * SLOWER
    assert all_gone(left, 5 * SLOWER)
    assert not list(project.folder.glob(".laminar/tmp/*"))


# Last, because nothing is left of the cluster


def test_the_head_that_dies_is_an_error_not_the_end_of_our_process(tmp_path: Path, launcher: RayLauncher, cluster: RayCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    project.edit("epochs = 4", "epochs = 400")  # it would go on until Ray's nodes give up
    project.slow.touch()
    killed: list[float] = []

    def kill(event: Event) -> None:
        if event["event"] == "epoch" and not killed:
            killed.append(time.monotonic())
            for pid in below(cluster.process.pid) - {cluster.process.pid}:
                if "gcs_server" in command(pid) or pid == cluster.about["head"]:
                    os.kill(pid, signal.SIGKILL)

    with pytest.raises(LaminarError, match="Ray's driver") as caught:
        project.build(launcher, "sync", on_event=kill)
    assert caught.value.code in ("L406", "L608")
    assert os.uname().nodename in caught.value.message or "worker 0" in caught.value.message
    assert time.monotonic() - killed[0] < 30 * SLOWER
    assert list(project.folder.glob(".laminar/runs/*/checkpoint.json")), "the next build goes on from it"
