"""laminar build by averaging, downpour and quorum: real processes, whoever of them is killed, stopped, interrupted or joins."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.core.events import read
from tests import warm
from tests.thinned import thinned

STACK = """\
[stack]
name = "team"

[data.digits]
source = "digits"
limit = {limit}

[[layer]]
name = "base"
model = "models:{model}"
args = {{ }}
data = "digits"
train = {{ epochs = {epochs}, batch = {batch}, optimizer = "adam", lr = 0.01, seed = 0, threads = 1, weight_decay = 0.01{more} }}
"""

MODELS = """\
import os
import time

import torch
from torch import nn


HERE = os.path.dirname(os.path.abspath(__file__))


class Net(nn.Module):
    \"\"\"Batch statistics, and an unused parameter. Slow until there is a file "fast", and broken once there is one "bad-PID".\"\"\"

    def __init__(self, classes, slow=False):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(64, 24), nn.BatchNorm1d(24), nn.Linear(24, classes)
        self.unused = nn.Parameter(torch.ones(7))
        self.slow = slow

    def forward(self, x):
        out = self.head(torch.relu(self.norm(self.body(x.flatten(1)))))
        if self.training and self.slow and not os.path.exists(os.path.join(HERE, "fast")):
            time.sleep(0.1)
        if self.training and self.slow and os.path.exists(os.path.join(HERE, f"bad-{os.getpid()}")):
            return out * float("nan")
        return out


def net(classes):
    return Net(classes)


def slow(classes):
    return Net(classes, slow=True)
"""


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_what_a_failed_test_has_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


class Project:
    def __init__(self, folder: Path, *, model: str = "net", epochs: int = 6, batch: int = 25, limit: int = 700, more: str = "") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        if model == "slow":
            more += ", checkpoint_seconds = 0.2"  # events are on disk when a checkpoint is
        (folder / "laminar.toml").write_text(STACK.format(model=model, epochs=epochs, batch=batch, limit=limit, more=more))
        (folder / "models.py").write_text(MODELS)

    def start(self, *words: str, cold: bool = False) -> subprocess.Popen[str]:
        process = (subprocess.Popen if cold else warm.Popen)(
            [sys.executable, "-m", "laminar", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        STARTED.append(process)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, error = process.communicate(timeout=200)
        return subprocess.CompletedProcess(words, process.returncode, out, error)

    def build(self, *words: str, cold: bool = False) -> dict[str, Any]:
        return built(self.start("build", "-q", "--json", *words, cold=cold))

    def events(self, kind: str) -> list[dict[str, Any]]:
        files = list((self.folder / ".laminar/runs").glob("*/events.jsonl"))
        return [event for event in read(files[0]) if event["event"] == kind] if files else []

    def notes(self) -> list[str]:
        found: list[str] = json.loads(self.run("show", "base", "--json").stdout)["notes"]
        return found

    def processes(self, role: str) -> dict[int, int]:
        """The newest process of each rank."""
        return {event["rank"]: event["pid"] for event in self.events("worker") if event["role"] == role}

    def hurry(self) -> None:
        (self.folder / "fast").touch()

    def until(self, process: subprocess.Popen[str], found: Callable[[], bool]) -> None:
        """Looked at from time to time, as long as the build goes on."""
        while not found():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                raise AssertionError(process.communicate())

    def steps(self) -> int:
        return max((event["step"] for event in self.events("step")), default=-1)

    def check(self, epochs: int) -> None:
        """The history is whole: every epoch once, in order; no step twice; and the store is as it was written."""
        assert [event["epoch"] for event in self.events("epoch")] == list(range(epochs))
        steps = [event["step"] for event in self.events("step")]
        assert steps == sorted(set(steps)) and all("staleness" in event for event in self.events("step"))
        assert len(self.events("end")) == 1
        gone([event["pid"] for event in self.events("worker")])
        assert not list((self.folder / ".laminar/runs").glob("*/apart"))
        assert self.run("verify").returncode == 0


def built(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    return dict(json.loads(out)["layers"][0])


def gone(pids: list[int]) -> None:
    """All of them have ended, or do so now."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                pass


STRATEGIES = {
    "downpour": "downpour:shards=2,n_push=2,n_fetch=2",
    "quorum": "quorum:quorum=0.5",
    "averaging": "averaging:every=2",
}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_every_strategy_builds(tmp_path: Path, kind: str) -> None:
    project = Project(tmp_path / "p", more=", target = { accuracy = 0.5 }" if kind == "quorum" else "")
    done = project.build("--strategy", STRATEGIES[kind], "--workers", "2", cold=kind == "downpour")
    assert done["metrics"]["accuracy"] > 0.5
    project.check(len(project.events("epoch")) if kind == "quorum" else 6)
    assert sorted(project.processes("worker")) == [0, 1]
    assert sorted(project.processes("server")) == ([0, 1] if kind == "downpour" else [0])
    assert project.events("end")[0]["why"].startswith("target reached" if kind == "quorum" else "all epochs")
    assert any("target reached" in note for note in done["notes"]) == (len(project.events("epoch")) < 6)
    first, *_ = project.events("epoch")
    assert 0 < first["seconds"] < first["t"] - project.events("start")[0]["t"]  # starting is no training
    assert first["team"]["bytes"] > 0
    computing, waiting = (project.events("end")[0]["team"][name] for name in ("computing", "waiting"))
    # Who comes late may find everything done, and where gradients travel beside computing nobody need wait.
    assert computing.keys() == waiting.keys() and set() < computing.keys() <= {"0", "1"}
    assert sum(computing.values()) > 0
    assert all(seconds >= 0 for seconds in (*computing.values(), *waiting.values()))
    from laminar.stack.api import Stack

    unused = Stack.load(project.folder / "laminar.toml").layer("base").state_dict()["unused"]
    assert unused.tolist() == [1.0] * 7  # no gradient, no decay


def test_there_are_no_more_servers_than_tensors(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.build("--strategy", "downpour:shards=9", "--workers", "2")
    assert any("shards = 9, but the layer trains 7 tensors, which are not cut: 7 parameter servers" in note for note in done["notes"])
    assert sorted(project.processes("server")) == list(range(7))


@pytest.mark.parametrize(("kind", "elastic"), thinned([("downpour", True), ("averaging", False), ("quorum", True)]))
def test_a_worker_and_a_server_are_killed(tmp_path: Path, kind: str, elastic: bool) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=30)
    process = project.start("build", "--json", "--strategy", STRATEGIES[kind], "--workers", "2", *(["--elastic"] if elastic else []))
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    worker = project.processes("worker")[1]
    os.kill(worker, signal.SIGKILL)
    project.until(process, lambda: bool(project.events("note")) and (not elastic or project.processes("worker")[1] != worker))
    server = project.processes("server")[0]
    os.kill(server, signal.SIGKILL)
    project.until(process, lambda: project.processes("server")[0] != server)
    project.hurry()
    assert built(process)["metrics"]["accuracy"] > 0.8
    project.check(30)
    notes = project.notes()
    assert len(notes) == 2, notes
    assert f"worker 1 (process {worker}) was ended by SIGKILL" in notes[0] and ("started again" in notes[0]) == elastic
    assert f"server 0 (process {server}) was ended by SIGKILL" in notes[1] and "from its snapshot" in notes[1]


@pytest.mark.slow
def test_a_worker_and_a_server_that_are_stopped_are_named_and_dropped(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=30)
    process = project.start("build", "--json", "--strategy", "quorum:quorum=0.5,timeout=4", "--workers", "2")
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    worker, server = project.processes("worker")[1], project.processes("server")[0]
    os.kill(worker, signal.SIGSTOP)
    project.until(process, lambda: bool(project.events("note")))
    os.kill(server, signal.SIGSTOP)
    project.until(process, lambda: project.processes("server")[0] != server)
    project.hurry()
    assert built(process)["metrics"]["accuracy"] > 0.8
    project.check(30)
    notes = project.notes()
    assert "worker 1 said nothing for 4 s, and was ended" in notes
    assert f"server 0 (process {server}) said nothing for 4 s, and was ended" in notes


@pytest.mark.parametrize(
    "strategy",
    [
        "averaging:every=end",
        pytest.param("downpour:shards=2,n_push=2", marks=pytest.mark.slow),
        pytest.param("quorum:compress=topk", marks=pytest.mark.slow),
        pytest.param("averaging:every=7", marks=pytest.mark.slow),
    ],
)
def test_interrupted_killed_and_completed(tmp_path: Path, strategy: str) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=30)
    words = ["build", "--json", "--strategy", strategy, "--workers", "2"]
    process = project.start(*words)
    project.until(process, lambda: len(project.processes("worker")) == 2 and work_is_done(project))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    gone([event["pid"] for event in project.events("worker")])
    assert project.events("checkpoint")[-1]["why"] == "interrupted"
    assert not list((project.folder / ".laminar/runs").glob("*/apart/join.json"))

    assert "resumes from its checkpoint" in project.run("status", *words[2:]).stdout
    process = project.start(*words)
    project.until(process, lambda: len(project.events("resume")) == 1 and len(project.processes("worker")) == 2)
    pids = [event["pid"] for event in project.events("worker")]
    process.kill()
    process.communicate()
    gone(pids)

    project.hurry()
    done = project.build("--strategy", strategy, "--workers", "2")
    assert done["metrics"]["accuracy"] > 0.8
    assert project.events("resume")
    epochs = [event["epoch"] for event in project.events("epoch")]
    assert epochs == ([29] if "end" in strategy else list(range(30)))
    assert project.run("verify").returncode == 0


def work_is_done(project: Project) -> bool:
    """Some steps; or, where there is one at the end only, a worker's own checkpoint."""
    return project.steps() > 5 or bool(list((project.folder / ".laminar/runs").glob("*/apart/worker-*")))


def test_a_worker_joins_and_its_pushes_are_used(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=40)
    process = project.start("build", "--json", "--strategy", "downpour:shards=2,n_push=2", "--workers", "1")
    project.until(process, lambda: len(project.processes("worker")) == 1)
    (invitation,) = (project.folder / ".laminar/runs").glob("*/apart/join.json")
    assert invitation.stat().st_mode & 0o777 == 0o600
    guest = project.start("join")
    project.until(process, lambda: 1 in project.processes("worker"))
    assert project.processes("worker")[1] == guest.pid
    project.until(process, lambda: any(event.get("worker") == "1" for event in project.events("step")))
    with project.start("join") as another:
        project.until(process, lambda: 2 in project.processes("worker"))
        another.kill()
    project.until(process, lambda: any("worker 2, which had joined, left at step" in event["why"] for event in project.events("note")))
    os.kill(project.processes("worker")[0], signal.SIGKILL)  # the one who came goes on alone
    project.hurry()
    out, error = guest.communicate(timeout=200)
    assert guest.returncode == 0, error
    said = re.fullmatch(r"worker 1 of run \w+: (\d+) batches, (\d+) pushes; all epochs done\n", out)
    assert said is not None and int(said[1]) >= int(said[2]) > 5, out
    assert error.startswith("worker 1 of run")
    assert built(process)["metrics"]["accuracy"] > 0.8
    project.check(40)
    none = project.run("join")
    assert none.returncode == 2 and "error L006: no training under way" in none.stderr


def test_when_the_last_worker_leaves_that_had_joined_the_training_is_not_over(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=40)
    words = ["build", "--json", "--strategy", "downpour:n_push=2", "--workers", "1"]
    process = project.start(*words)
    project.until(process, lambda: len(project.processes("worker")) == 1)
    guest = project.start("join")
    project.until(process, lambda: any(event.get("worker") == "1" for event in project.events("step")))
    os.kill(project.processes("worker")[0], signal.SIGKILL)
    project.until(process, lambda: any("worker 0" in event["why"] for event in project.events("note")))
    guest.send_signal(signal.SIGINT)
    out, _ = guest.communicate(timeout=60)
    assert guest.returncode == 130 and out.endswith("; it was told to leave\n")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 6 and not project.events("end"), out
    found = re.search(
        r"no worker is left: worker 0 .* at step \d+; the others go on; worker 1, which had joined, left at step \d+\n", error
    )
    assert found, error

    for number, end in ((1, signal.SIGINT), (2, signal.SIGKILL)):  # and now it is the build that goes
        process = project.start(*words)
        project.until(process, lambda number=number: len(project.events("resume")) == number)
        guest = project.start("join")
        project.until(process, lambda guest=guest: project.processes("worker").get(1) == guest.pid)
        process.send_signal(end)
        process.communicate(timeout=60)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[end]
        out, error = guest.communicate(timeout=30)  # of the 60 seconds that a server would have to come back
        assert guest.returncode == 0 and re.search("; (the training has ended|interrupted)\n$", out), (out, error)


def test_workers_that_die_at_once_are_all_named(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=60)
    process = project.start("build", "-q", "--strategy", "averaging:every=3", "--workers", "2")
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    workers = project.processes("worker")
    process.send_signal(signal.SIGSTOP)  # so that it hears of both at once
    for pid in workers.values():
        os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 6 and "error L608" in error and "no worker is left" in error
    (failed,) = project.events("failed")
    for rank, pid in workers.items():
        assert f"worker {rank} (process {pid}) was ended by SIGKILL" in error
        assert f"worker {rank} (process {pid}) was ended by SIGKILL" in failed["why"]


def test_ctrl_c_does_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=30)
    words = ["--strategy", "averaging:every=2,timeout=3", "--workers", "2"]
    process = project.start("build", "-q", *words)
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    os.kill(project.processes("server")[0], signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error, error
    gone([event["pid"] for event in project.events("worker")])
    project.hurry()
    assert project.build(*words)["metrics"]["accuracy"] > 0.8
    assert project.events("resume")
    project.check(30)


def test_a_worker_with_nan_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=60)
    process = project.start("build", "-q", "--strategy", "averaging:every=3", "--workers", "2")
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    (project.folder / f"bad-{project.processes('worker')[1]}").touch()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 6
    assert "error L601" in error and "worker 1: the loss is nan" in error
    (failed,) = project.events("failed")
    assert "worker 1: the loss is nan" in failed["why"] and failed["step"] == project.steps() + 1 and failed["lr"] == 0.01
    gone([event["pid"] for event in project.events("worker")])


@pytest.mark.parametrize(
    ("strategy", "workers", "said"),
    [
        ("quorum", 26, "which 26 workers cannot share"),
        ("averaging", 29, "an epoch has 28 batches for 29 workers"),
        ("downpour", 701, "there are 700 samples for 701 workers"),
    ],
)
def test_what_cannot_be_run_is_told(tmp_path: Path, strategy: str, workers: int, said: str) -> None:
    from laminar.stack.build import build
    from laminar.stack.choose_strategy import with_strategy
    from laminar.stack.project import open_project

    project = open_project(Project(tmp_path / "p").folder)
    with pytest.raises(LaminarError, match=said) as caught:
        build(with_strategy(project.need_file(), strategy, workers), project.open_store())
    assert caught.value.code == "L004" and caught.value.exit_code == 2 and caught.value.hint


def test_a_port_in_use_and_an_unknown_strategy_are_told(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with taken_port() as port:
        done = project.run("build", "-q", "--strategy", f"downpour:port={port}", "--workers", "2")
    assert done.returncode == 4
    assert "error L405" in done.stderr and f"server 0: cannot listen on 127.0.0.1:{port}: it is in use" in done.stderr
    assert "Traceback" not in done.stderr
    done = project.run("build", "-q", "--strategy", "downpur", "--workers", "2")
    assert done.returncode == 2 and "did you mean 'downpour'" in done.stderr


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


REGRESSION = """\
[stack]
name = "numbers"

[data.line]
source = "npz:line.npz"

[[layer]]
name = "base"
model = "models:line"
args = {{ }}
data = "line"
train = {{ epochs = 3, batch = 20, lr = 0.01, seed = 0, threads = 1 }}

[[layer]]
name = "head"
from = "base"
freeze = ["body"]
data = "line"
train = {{ epochs = 12, batch = 20, lr = 0.02, seed = 1, threads = 1, keep_features = "always", strategy = "{kind}" }}
"""

LINE = """\
from torch import nn


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(5, 16), nn.Tanh()), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.body(x))


def line(**_):
    return Line()
"""


@pytest.mark.parametrize(
    "kind", ["quorum", pytest.param("downpour", marks=pytest.mark.slow), pytest.param("averaging", marks=pytest.mark.slow)]
)
def test_regression_and_kept_features_of_a_frozen_part(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 5)).astype(np.float32)
    np.savez(tmp_path / "line.npz", x=x, y=(x[:, :1] - x[:, 1:2]).astype(np.float32))
    (tmp_path / "laminar.toml").write_text(REGRESSION.format(kind=kind))
    (tmp_path / "models.py").write_text(LINE)
    done = warm.run([sys.executable, "-m", "laminar", "build", "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    base, head = json.loads(done.stdout)["layers"]
    assert head["metrics"]["loss"] < base["metrics"]["loss"] and head["metrics"]["r2"] > 0.5
    assert "kept" in head["features"]


@pytest.mark.slow
def test_two_builds_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    other = Project(tmp_path / "q", more=", label_smoothing = 0.01")
    builds = [one.start("build", "--json", "--strategy", "downpour", "--workers", "2") for one in (project, project, other)]
    layers = [built(process) for process in builds]
    assert layers[0]["id"] == layers[1]["id"] != layers[2]["id"]
    assert {layer["action"] for layer in layers[:2]} == {"built", "cached"}
