"""Builds on a real standalone cluster of Spark, one master and four workers, whose executors are killed in every phase; and on our own.

First those that open a session of their own; then those that find one, as in a notebook, which takes all cores of the cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.launch import spark_feed, spark_session, spark_watch
from laminar.launch.protocol import Call, Launcher
from laminar.launch.spark import SparkLauncher
from laminar.launch.spark_session import Session, open_session
from laminar.launch.switchboard import Switchboard
from laminar.stack.build import Built
from laminar.testing import spark_cluster
from laminar.testing.launcher_contract import LauncherContract
from laminar.testing.spark_cluster import SparkCluster
from tests import warm
from tests.cluster.kills import PHASES, START, Kill, slow_down, unhurt
from tests.cluster.processes import all_gone, below, command, parents, when_it_runs
from tests.conftest import children
from tests.multi.launch.cluster_project import ClusterProject, Evaluated, all_epochs, many_epochs, notes

SLOWER = float(os.environ.get("LAMINAR_TEST_SLOWER", "1"))  # how much slower this machine is than an idle one with two cores
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(80 * SLOWER, func_only=True),
    pytest.mark.skipif(not spark_cluster.there(), reason="needs Spark, Java and Linux"),
]
WORKERS = 4
HOST = os.uname().nodename
Event = dict[str, Any]


@pytest.fixture(scope="module")
def one_cluster() -> Iterator[SparkCluster]:
    with SparkCluster(WORKERS) as cluster:
        yield cluster


@pytest.fixture
def cluster(one_cluster: SparkCluster) -> SparkCluster:
    while len(one_cluster.executors()) < WORKERS:
        one_cluster.add_worker()
    one_cluster.wait_for_workers()
    return one_cluster


@pytest.fixture(autouse=True)
def _no_process_left_behind(cluster: SparkCluster) -> Iterator[None]:
    """As everywhere, but for workers that were added in the place of lost ones."""
    before = children()
    yield
    left = {pid for pid in children() - before if not warm.ended(pid)}
    assert not left, f"processes left behind: {left}"


# Sessions of our own


def test_a_command_on_spark_shows_nothing_of_spark_and_leaves_nothing(tmp_path: Path, cluster: SparkCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    words = ["build", "--json", "-q", "--on", cluster.master, "--strategy", "averaging", "--workers", str(WORKERS)]
    chief = subprocess.Popen(
        [sys.executable, "-m", "laminar", *words], cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen: set[int] = set()
    while chief.poll() is None:
        seen |= below(chief.pid) | below(*(pid for pids in cluster.executors().values() for pid in pids))
        time.sleep(0.2)
    out, error = chief.communicate()
    assert chief.returncode == 0, error
    assert error == ""
    (layer,) = json.loads(out)["layers"]
    assert layer["metrics"]["accuracy"] > 0.75
    assert project.provenance(layer["id"])["on"] == {"launcher": "spark", "hosts": [HOST], "workers": WORKERS}
    assert len(seen) > 2 * WORKERS
    assert all_gone(seen, 10 * SLOWER)


@pytest.mark.parametrize("embedded", [True, False])
def test_a_chief_that_is_killed_leaves_no_process(tmp_path: Path, cluster: SparkCluster, embedded: bool) -> None:
    project = ClusterProject(tmp_path / "p")
    project.slow.touch()
    words = ["build", "-q", "--on", "spark" if embedded else cluster.master, "--strategy", "sync", "--workers", "2"]
    chief = subprocess.Popen([sys.executable, "-m", "laminar", *words], cwd=project.folder)
    try:
        while not list(project.folder.glob(".laminar/runs/*/checkpoint.json")):
            assert chief.poll() is None
            time.sleep(0.05)
        left = below(chief.pid) | below(*(pid for pids in cluster.executors().values() for pid in pids))
        assert len(left) > 6
        listening = _listening(left)
    finally:
        chief.kill()
        chief.wait()
    assert all_gone(left, 15 * SLOWER), [command(pid) for pid in left & parents().keys()]
    assert listening and all(address.startswith("0100007F") or "FFFF00000100007F" in address for address in listening), listening


def test_ctrl_c_while_spark_starts_is_heard_at_once(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "p")
    words = [sys.executable, "-m", "laminar", "build", "-q", "--on", "spark", "--strategy", "sync", "--workers", "2"]
    chief = subprocess.Popen(words, cwd=project.folder, stderr=subprocess.PIPE, text=True)
    left = when_it_runs("SparkSubmit", chief)
    chief.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, error = chief.communicate(timeout=60 * SLOWER)
    assert chief.returncode == 130 and error.startswith("interrupted: "), error
    assert time.monotonic() - began < 5 * SLOWER
    assert all_gone(left, 10 * SLOWER), [command(pid) for pid in left & parents().keys()]


def test_a_session_that_dies_is_an_error_within_seconds(tmp_path: Path) -> None:
    project, launcher = ClusterProject(tmp_path / "p"), SparkLauncher("local-cluster[2,1,1024]")
    project.slow.touch()
    killed: list[float] = []

    def kill(event: Event) -> None:
        if event["event"] == "epoch" and not killed:
            killed.append(time.monotonic())
            assert launcher._session is not None
            launcher._session._gateway.proc.kill()

    with pytest.raises(LaminarError, match="Spark") as caught:
        project.build(launcher, "sync", on_event=kill)
    assert caught.value.code in ("L406", "L608")
    assert time.monotonic() - killed[0] < 30 * SLOWER
    assert list(project.folder.glob(".laminar/runs/*/checkpoint.json")), "the next build goes on from it"


def test_something_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "MASTER", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(LaminarError, match="did not answer in 3 s") as caught:
        open_session(f"spark://127.0.0.1:{silent.getsockname()[1]}", 2)
    assert caught.value.code == "L407"
    assert spark_session.active() is None


# One kill each, in every phase, and how soon training goes on


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Of a training that nobody hurts."""
    return unhurt(tmp_path_factory.mktemp("unhurt") / "p", 3)


WALK = [(what, phase, "sync") for what in ("executor", "rank") for phase in PHASES]
ELASTIC = [("executor", phase, "sync:elastic=true") for phase in PHASES]


def walked(
    project: ClusterProject, cluster: SparkCluster, launcher: SparkLauncher, losses: list[float], what: str, phase: str, strategy: str
) -> None:
    """A build of three workers in which one is killed once; whole in the end, by as many workers as there should be."""

    def strike(pid: int) -> None:
        os.kill(pid if what == "rank" else executor_of(cluster, pid)[0], signal.SIGKILL)

    kill = Kill(project, phase, strike)
    at_start = (what, phase) == ("executor", START)
    on: Launcher = WhileStarting(launcher, cluster, kill.struck) if at_start else launcher
    report = project.build(on, strategy, 3, on_event=kill)
    kill.check(report, losses, SLOWER)
    if not at_start:
        assert "worker 1 (process " in notes(report) and HOST in notes(report), notes(report)
        how = "was ended by SIGKILL" if what == "rank" else "was lost with its machine's agent: executor "
        assert notes(report).count(how) == 1, notes(report)
        assert f"with {3 if 'elastic' in strategy else 2} workers" in notes(report), notes(report)


@pytest.mark.parametrize(("what", "phase", "strategy"), [*WALK, *ELASTIC])
def test_a_kill_in_a_session_of_our_own(
    tmp_path: Path, cluster: SparkCluster, losses: list[float], what: str, phase: str, strategy: str
) -> None:
    walked(ClusterProject(tmp_path / "p"), cluster, SparkLauncher(cluster.master), losses, what, phase, strategy)


# A session that is there already


@pytest.fixture(scope="module")
def one_session(one_cluster: SparkCluster) -> Iterator[Session]:
    session = open_session(one_cluster.master, WORKERS)
    yield session
    session.close()


@pytest.fixture
def session(one_session: Session, cluster: SparkCluster) -> Session:
    """With all its executors, and none of them at work."""
    store = one_session.context._jsc.sc().statusStore()
    until = time.monotonic() + 60 * SLOWER
    while time.monotonic() < until:
        there = store.executorList(True)
        cores = [there.apply(i).totalCores() - there.apply(i).activeTasks() for i in range(there.size())]
        if sum(cores) == WORKERS:
            return one_session
        time.sleep(0.1)
    raise AssertionError(f"free cores: {cores}")


class TestSpark(LauncherContract):
    @pytest.fixture
    def launcher(self, session: Session) -> Launcher:
        return SparkLauncher()


CROSSED = 'pipeline:stages=2,mesh={ rows = 2 },split={ batch = "rows" }'  # four workers


@pytest.fixture(scope="module", params=["sync", "averaging", "downpour", CROSSED])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ClusterProject, Built]:
    project = ClusterProject(tmp_path_factory.mktemp("local") / "here")
    return request.param, project, project.build(None, request.param, WORKERS).layers[0]


def test_what_is_learned_is_what_local_processes_learn(tmp_path: Path, session: Session, local: tuple[str, ClusterProject, Built]) -> None:
    strategy, here, one = local
    there = ClusterProject(tmp_path / "there")
    (other,) = there.build(SparkLauncher(), strategy, WORKERS).layers
    assert one.key == other.key, "where it ran is no part of the key"
    assert other.metrics["accuracy"] >= one.metrics["accuracy"] - 0.05
    assert other.metrics["accuracy"] > 0.8
    if strategy not in ("averaging", "downpour"):
        assert there.losses() == pytest.approx(here.losses(), abs=1e-5)
        assert len(there.losses()) == 40
    assert there.provenance(other.id)["on"] == {"launcher": "spark", "hosts": [HOST], "workers": WORKERS}
    assert "on" not in here.provenance(one.id)
    assert there.leftovers() == []
    assert not session.context._jsc.sc().isStopped(), "it is not ours"


@pytest.mark.parametrize("strategy", ["sync", "downpour"])
def test_an_evaluator_tests_epochs(tmp_path: Path, session: Session, cluster: SparkCluster, strategy: str) -> None:
    """Where a lost task is the loss of all (sync: a barrier stage), it is beside the chief; else in an executor."""
    project = many_epochs(tmp_path / "p")
    of_executors: list[bool] = []

    def look() -> None:
        known = {pid for pids in cluster.executors().values() for each in pids for pid in below(each)}
        of_executors.append(heard.evaluators[0]["pid"] in known)

    heard = Evaluated(project, wanted=2, on_tested=look)
    (layer,) = project.build(SparkLauncher(), f"{strategy}:evaluator=true", 3, on_event=heard).layers
    assert of_executors[0] == (strategy == "downpour")
    assert all_epochs(project) == list(range(60))
    assert layer.metrics["accuracy"] > 0.85
    assert layer.notes == []


def test_too_many_workers_are_told_with_what_there_is(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_watch, "ROOM", 2.0)
    with (
        Switchboard(SparkLauncher(), WORKERS + 2, starting=20.0) as board,
        pytest.raises(LaminarError, match=r"4 workers of 6 came .*worker \d: the cluster has 4 free cores, 6 are needed") as caught,
    ):
        board.room(WORKERS + 2)
    assert caught.value.code == "L406"


def test_the_token_is_nowhere_to_be_read(session: Session) -> None:
    with Switchboard(SparkLauncher(), 2) as board:
        board.room(2)
        assert board._token not in " ".join(command(pid) for pid in parents())
        tracker = session.context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        assert stages and board._token not in str(stages)
        assert session._folder is not None
        assert board._token not in (session._folder / "log").read_text()


# Executors that die


def executor_of(cluster: SparkCluster, pid: int) -> tuple[int, int]:
    """The executor that a process belongs to, and its worker's number."""
    known, executors = parents(), {pid: number for number, pids in cluster.executors().items() for pid in pids}
    while pid not in executors:
        pid = known[pid]
    return pid, executors[pid]


def an_executor_with_an_agent(cluster: SparkCluster) -> int:
    while True:
        for pids in cluster.executors().values():
            for pid in pids:
                if len([child for child in below(pid) if "pyspark.daemon" in command(child)]) > 1:
                    return pid


class WhileStarting:
    """A launcher that loses an executor when the first agent's process is there."""

    name = "spark"
    fixed: int | None = None
    own = False
    whole = True

    def __init__(self, inner: SparkLauncher, cluster: SparkCluster, on_kill: Callable[[], None] = lambda: None) -> None:
        self._inner, self._cluster, self._on_kill = inner, cluster, on_kill
        self.begin, self.host, self.trouble = inner.begin, inner.host, inner.trouble
        self.comes_back, self.most, self.stop, self.call_off = inner.comes_back, inner.most, inner.stop, inner.call_off

    def start(self, agents: int, call: Call, *, together: bool) -> None:
        self._inner.start(agents, call, together=together)
        os.kill(an_executor_with_an_agent(self._cluster), signal.SIGKILL)
        self._on_kill()


def killer(
    project: ClusterProject, cluster: SparkCluster, when: Callable[[Event], bool], *, daemon: bool = False
) -> Callable[[Event], None]:
    """Kills the executor of worker 1, or the daemon it belongs to, at the first event that is meant. Training is slow until then."""
    slow_down(project, 0.5)
    found: dict[int, tuple[int, int]] = {}  # by rank, while its process is there: at the last epoch it may have done its work
    killed: list[int] = []

    def hear(event: Event) -> None:
        if event["event"] == "worker" and event["role"] == "worker":
            found[event["rank"]] = executor_of(cluster, event["pid"])
        if not killed and 1 in found and when(event):
            executor, number = found[1]
            killed.append(executor)
            if daemon:
                cluster.kill_worker(number)
            else:
                os.kill(executor, signal.SIGKILL)
        elif killed and event["event"] in ("note", "end"):
            project.slow.unlink(missing_ok=True)

    return hear


MOMENTS: dict[str, Callable[[Event], bool]] = {
    "first step": lambda event: event["event"] in ("worker", "step"),
    "middle": lambda event: event["event"] == "epoch" and event["epoch"] >= 1,
    "saving": lambda event: event["event"] == "checkpoint",  # told before its files are with the chief
    "last": lambda event: event["event"] == "epoch" and event["epoch"] == 3,
}


@pytest.mark.parametrize(("what", "phase", "strategy"), [*WALK, *ELASTIC])
def test_a_kill_in_a_session_that_was_there(
    tmp_path: Path, session: Session, cluster: SparkCluster, losses: list[float], what: str, phase: str, strategy: str
) -> None:
    walked(ClusterProject(tmp_path / "p"), cluster, SparkLauncher(), losses, what, phase, strategy)


@pytest.mark.parametrize(
    ("strategy", "phase"),
    [*((strategy, phase) for strategy in ("downpour", "quorum") for phase in ("first step", "middle", "last")), ("averaging", "middle")],
)
def test_nobody_waits_for_a_lost_executor_where_nobody_has_to(
    tmp_path: Path, session: Session, cluster: SparkCluster, strategy: str, phase: str
) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(SparkLauncher(), strategy, 3, on_event=killer(project, cluster, MOMENTS[phase]))
    assert not project.slow.exists(), "it was killed"
    assert report.layers[0].metrics["accuracy"] > (0.8 if strategy != "averaging" else 0.7)
    if phase != "last":
        assert "the others go on" in notes(report), notes(report)
        assert "worker 1 (process " in notes(report) and HOST in notes(report)


def test_an_elastic_training_gets_an_executor_for_a_lost_one(tmp_path: Path, session: Session, cluster: SparkCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(SparkLauncher(), "sync:elastic=true", 3, on_event=killer(project, cluster, MOMENTS["middle"]))
    assert "training went on from step" in notes(report) and "with 3 workers" in notes(report), notes(report)
    assert len(project.losses()) == 40


@pytest.mark.parametrize("strategy", ["sync", "downpour", "quorum"])
def test_an_executor_that_dies_while_agents_start_is_replaced(
    tmp_path: Path, session: Session, cluster: SparkCluster, strategy: str
) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(WhileStarting(SparkLauncher(), cluster), strategy, 3)
    assert report.layers[0].metrics["accuracy"] > 0.8


@pytest.mark.parametrize("strategy", ["sync", "downpour"])
def test_a_whole_machine_may_be_lost(tmp_path: Path, session: Session, cluster: SparkCluster, strategy: str) -> None:
    project = ClusterProject(tmp_path / "p")
    report = project.build(SparkLauncher(), strategy, WORKERS, on_event=killer(project, cluster, MOMENTS["middle"], daemon=True))
    assert HOST in notes(report) and "was lost" in notes(report), notes(report)
    assert ("with 3 workers" if strategy == "sync" else "the others go on") in notes(report)
    assert report.layers[0].metrics["accuracy"] > 0.8
    if strategy == "sync":
        assert len(project.losses()) == 40


def test_an_executor_that_hangs_is_lost_too(tmp_path: Path, session: Session, cluster: SparkCluster) -> None:
    project = ClusterProject(tmp_path / "p")
    slow_down(project, 2.0)
    stopped: set[int] = set()

    def stop(event: Event) -> None:
        if event["event"] == "worker" and event["role"] == "worker" and event["rank"] == 1:
            executor, _ = executor_of(cluster, event["pid"])
            stopped.update(below(executor))
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        elif event["event"] == "note":
            project.slow.unlink(missing_ok=True)

    try:
        report = project.build(SparkLauncher(), "downpour", 3, on_event=stop)
    finally:
        for pid in stopped & parents().keys():
            os.kill(pid, signal.SIGKILL)
    assert "the others go on" in notes(report) and "was not heard of for" in notes(report)


# Fed


FED = """\
[stack]
name = "fed"

[data.cells]
source = "npz:cells.npz"

[[layer]]
name = "base"
model = "laminar:mlp"
args = { hidden = [16] }
data = "cells"
train = { epochs = 4, batch = 40, optimizer = "adam", lr = 0.02, seed = 0, threads = 1 }
"""


@pytest.fixture
def frame(session: Session) -> Any:
    from pyspark.sql import SparkSession

    random = np.random.default_rng(0)
    y = random.integers(0, 3, 400)
    x = random.normal(size=(400, 8))
    x[np.arange(400), y] += 3
    return SparkSession(session.context).createDataFrame([(a.tolist(), float(b)) for a, b in zip(x, y, strict=True)], ["features", "label"])


def test_a_frame_is_fed_and_trained_where_it_is(tmp_path: Path, frame: Any) -> None:
    (tmp_path / "laminar.toml").write_text(FED)
    report = spark_feed.build(tmp_path, frame, data="cells", workers=2, strategy="averaging")
    (layer,) = report.layers
    assert layer.action == "built" and layer.metrics["accuracy"] > 0.85
    again = spark_feed.build(tmp_path, frame.repartition(7), data="cells", workers=2, strategy="averaging")
    assert again.layers[0].action == "cached", "the same rows, however they are spread"
    fewer = spark_feed.build(tmp_path, frame.limit(300), data="cells", workers=2, strategy="averaging")
    assert fewer.layers[0].action == "built"


def test_pairs_and_vectors_are_fed(tmp_path: Path, frame: Any) -> None:
    from pyspark.ml.linalg import Vectors

    one = spark_feed.feed(frame, tmp_path / "one.npz")
    pairs = frame.rdd.map(lambda row: (Vectors.dense(row.features), int(row.label))).repartition(3)
    other = spark_feed.feed(pairs, tmp_path / "other.npz")
    assert (one.rows, one.digest, one.changed) == (400, other.digest, True)
    assert not spark_feed.feed(frame, tmp_path / "one.npz").changed


def test_rows_that_will_not_do_are_told(tmp_path: Path, frame: Any) -> None:
    bad = frame.union(frame.sparkSession.createDataFrame([([1.0] * 8, None)], frame.schema))
    for rows, words in ((bad, "no label"), (frame.withColumnRenamed("label", "labels"), "did you mean 'labels'")):
        with pytest.raises(LaminarError, match=words) as caught:
            spark_feed.feed(rows, tmp_path / "cells.npz")
        assert caught.value.code == "L110"
    assert not (tmp_path / "cells.npz").exists()


def _listening(pids: set[int]) -> set[str]:
    """Addresses (hexadecimal) on which these processes wait for calls."""
    inodes = set()
    for pid in pids:
        try:
            files = list(Path(f"/proc/{pid}/fd").iterdir())
            inodes |= {os.readlink(file)[8:-1] for file in files if os.readlink(file).startswith("socket:[")}
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.add(words[1])
    return found
