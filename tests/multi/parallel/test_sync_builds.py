"""laminar build --strategy sync: the same layer from many workers, whoever of them is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from laminar.core.events import read
from tests import warm
from tests.thinned import thinned

STACK = """\
[stack]
name = "team"

[data.digits]
source = "digits"
limit = 700

[[layer]]
name = "base"
model = "{model}"
args = {args}
data = "digits"
train = {{ epochs = {epochs}, batch = 50, optimizer = "{optimizer}", lr = 0.01, seed = 0, threads = 1{more} }}
"""

SLOW = """\
import os
import time

from torch import nn


class Slow(nn.Module):
    \"\"\"Takes its time until there is a file "fast".\"\"\"

    def __init__(self, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        if self.training and not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fast")):
            time.sleep(0.02)
        return self.net(x)


def slow(classes):
    return Slow(classes)
"""

UNEVEN = """\
import time

import torch
from torch import nn


class Uneven(nn.Module):
    \"\"\"Takes its time for the larger share of a batch. A member has a buffer to itself, so nobody stands in for who is slower.\"\"\"

    def __init__(self, classes):
        super().__init__()
        self.register_buffer("own", torch.zeros(1))
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        if self.training and len(x) == 26:
            time.sleep(0.04)
        return self.net(x)


def uneven(classes):
    return Uneven(classes)
"""


def project(
    folder: Path, *, epochs: int = 4, optimizer: str = "adam", more: str = "", model: str = "laminar:mlp", args: str = "{ hidden = [24] }"
) -> Path:
    folder.mkdir(parents=True)
    (folder / "laminar.toml").write_text(STACK.format(epochs=epochs, optimizer=optimizer, more=more, model=model, args=args))
    return folder


def slow_project(folder: Path) -> Path:
    """Its training does not end before `hurry`, and is written down all the time."""
    made = project(folder, epochs=30, more=", checkpoint_seconds = 0.1", model="models:slow", args="{ }")
    (made / "models.py").write_text(SLOW)
    return made


def hurry(folder: Path) -> None:
    (folder / "fast").touch()


def laminar(folder: Path, *words: str, cold: bool = False) -> subprocess.CompletedProcess[str]:
    process = start(folder, *words, cold=cold)
    out, error = process.communicate(timeout=200)
    return subprocess.CompletedProcess(words, process.returncode, out, error)


def start(folder: Path, *words: str, cold: bool = False) -> subprocess.Popen[str]:
    return (subprocess.Popen if cold else warm.Popen)(
        [sys.executable, "-m", "laminar", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def built(folder: Path, *words: str, cold: bool = False) -> dict[str, Any]:
    done = laminar(folder, "build", "-q", "--json", *words, cold=cold)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["layers"][0])


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    (path,) = (folder / ".laminar/runs").glob("*/events.jsonl")
    return [event for event in read(path) if event["event"] == kind]


@pytest.mark.parametrize("link", ["memory", "gloo"])
def test_who_waits_for_a_slower_worker_is_said_to_be_idle(tmp_path: Path, link: str) -> None:
    folder = project(tmp_path / "uneven", epochs=2, model="models:uneven", args="{ }")
    stack = folder / "laminar.toml"
    stack.write_text(stack.read_text().replace("batch = 50", "batch = 51"))  # 25 rows for worker 0, 26 for worker 1
    (folder / "models.py").write_text(UNEVEN)
    built(folder, "--strategy", f"sync:link={link}", "--workers", "2")
    for idle, busy in [event["busy"] for event in events(folder, "epoch")]:
        assert idle + 0.25 < busy  # much more on a machine that has nothing else to do


@pytest.mark.parametrize(("optimizer", "more"), [("adam", ""), ("lamb", ", clip = 0.5")])
def test_the_losses_are_those_of_one_process(tmp_path: Path, optimizer: str, more: str) -> None:
    alone = project(tmp_path / "alone", optimizer=optimizer, more=more)
    three = project(tmp_path / "three", optimizer=optimizer, more=more)
    one, many = built(alone), built(three, "--strategy", "sync", "--workers", "3", cold=optimizer == "adam")
    losses = [[event["loss"] for event in events(folder, "step")] for folder in (alone, three)]
    assert len(losses[0]) == len(losses[1]) >= 50
    assert max(abs(a - b) for a, b in zip(losses[0][:50], losses[1][:50], strict=True)) < 1e-5
    assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], abs=1e-3)
    assert one["key"] == many["key"]  # so it is reused, however it was trained
    workers = events(three, "worker")
    assert [(w["role"], w["rank"]) for w in workers] == [("worker", 0), ("worker", 1), ("worker", 2)]
    assert len({w["pid"] for w in workers}) == 3
    busy = [event["busy"] for event in events(three, "epoch")]
    assert all(len(parts) == 3 and all(0 <= part <= 1 for part in parts) for parts in busy)
    assert not any(alive(w["pid"]) for w in workers)


@pytest.mark.parametrize(("rank", "elastic"), [(1, False), (0, True)])
def test_a_killed_worker_does_not_end_the_training(tmp_path: Path, rank: int, elastic: bool) -> None:
    folder = slow_project(tmp_path / "killed")
    words = ["--strategy", "sync", "--workers", "2", *(["--elastic"] if elastic else [])]
    process = start(folder, "build", "--json", *words)
    pid = wait_for_step(folder, process, 20)[rank]["pid"]
    os.kill(pid, signal.SIGKILL)
    hurry(folder)
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    (layer,) = json.loads(out)["layers"]
    assert layer["metrics"]["accuracy"] > 0.8
    said = json.loads(laminar(folder, "show", "base", "--json").stdout)["notes"]
    assert any(f"worker {rank} (process {pid}) was ended by SIGKILL" in note for note in said), said
    assert any(f"with {2 if elastic else 1} worker" in note for note in said)
    steps = [event["step"] for event in events(folder, "step")]
    assert steps == list(range(len(steps)))
    assert laminar(folder, "verify").returncode == 0


def test_a_team_that_missed_each_other_is_as_many_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from laminar.stack.build import build
    from laminar.stack.choose_strategy import with_strategy
    from laminar.stack.project import open_project

    monkeypatch.setattr("laminar.parallel.sync.chief.MODULE", "tests.multi.parallel.member_that_calls_off")
    folder = project(tmp_path / "p", epochs=1)
    opened = open_project(folder)
    build(with_strategy(opened.need_file(), "sync", 2), opened.open_store())
    why = "all workers stopped waiting for each other, and none was lost; training went on from step 0 with 2 workers"
    assert [event["why"] for event in events(folder, "note")] == [why]
    assert [len(event["busy"]) for event in events(folder, "epoch")] == [2]


@pytest.mark.parametrize("elastic", thinned([False, True]))
@pytest.mark.parametrize("link", ["memory", "gloo"])
def test_workers_killed_at_once_are_one_loss(tmp_path: Path, link: str, elastic: bool) -> None:
    folder = slow_project(tmp_path / "killed")
    process = start(folder, "build", "--json", "--strategy", f"sync:link={link}", "--workers", "4", *(["--elastic"] if elastic else []))
    killed = {rank: wait_for_step(folder, process, 20)[rank]["pid"] for rank in (1, 3)}
    for how in (signal.SIGSTOP, signal.SIGKILL):  # stopped, the second cannot leave because of the first
        for pid in killed.values():
            os.kill(pid, how)
    hurry(folder)
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert json.loads(out)["layers"][0]["metrics"]["accuracy"] > 0.8
    (said,) = [event["why"] for event in events(folder, "note")]
    for rank, pid in killed.items():
        assert f"worker {rank} (process {pid}) was ended by SIGKILL" in said
    assert said.endswith(f"with {4 if elastic else 2} workers")
    assert [len(event["busy"]) for event in events(folder, "epoch")][-1] == (4 if elastic else 2)


def test_ctrl_c_keeps_the_step_and_ends_every_process(tmp_path: Path) -> None:
    folder = slow_project(tmp_path / "stopped")
    process = start(folder, "build", "--strategy", "sync", "--workers", "2")
    workers = wait_for_step(folder, process, 20)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130, error
    assert not any(alive(worker["pid"]) for worker in workers)
    assert events(folder, "checkpoint")[-1]["why"] == "interrupted"
    kept = events(folder, "checkpoint")[-1]["step"]
    hurry(folder)
    again = built(folder)  # by one process, which goes on where the two stopped
    assert again["action"] == "built"
    assert events(folder, "resume")[0]["step"] == kept >= 20


@pytest.mark.slow
def test_a_build_that_ignores_ctrl_c_is_ended_by_sigterm_all_the_same(tmp_path: Path) -> None:
    """What a script starts with & ignores SIGINT, and so did its workers: nobody could stop them, nor end a trial of the planner."""
    folder = slow_project(tmp_path / "background")
    words = [sys.executable, "-m", "laminar", "build", "--strategy", "sync", "--workers", "2"]
    ignores = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignores)
    workers = wait_for_step(folder, process, 10)
    process.terminate()
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130, error
    assert not any(alive(worker["pid"]) for worker in workers)
    assert events(folder, "checkpoint")[-1]["why"] == "interrupted"


@pytest.mark.parametrize("ended", thinned([signal.SIGKILL, signal.SIGINT]))
def test_what_was_said_of_a_lost_worker_is_in_the_history_and_outlives_the_build(tmp_path: Path, ended: signal.Signals) -> None:
    folder = slow_project(tmp_path / "lost")
    process = start(folder, "build", "--strategy", "sync", "--workers", "2")
    pid = wait_for_step(folder, process, 20)[1]["pid"]
    os.kill(pid, signal.SIGKILL)
    while not (again := events(folder, "resume")) or events(folder, "step")[-1]["step"] < again[-1]["step"]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    said = [event["why"] for event in events(folder, "note")]
    assert len(said) == 1 and f"worker 1 (process {pid}) was ended by SIGKILL; training went on from step" in said[0]
    process.send_signal(ended)
    process.communicate(timeout=100)
    hurry(folder)
    layer = built(folder, "--strategy", "sync", "--workers", "2")
    assert layer["notes"] == said
    assert [event["why"] for event in events(folder, "note")] == said, "once"
    assert events(folder, "start") and events(folder, "resume")


def test_when_the_build_is_killed_its_workers_end_too(tmp_path: Path) -> None:
    folder = slow_project(tmp_path / "orphans")
    process = start(folder, "build", "--strategy", "sync", "--workers", "2")
    workers = wait_for_step(folder, process, 10)
    process.kill()
    process.communicate()
    for worker in workers:
        while alive(worker["pid"]):
            pass


@pytest.mark.parametrize(
    ("rows", "does", "code", "said"),
    [
        (16, "return y * float('nan')", "L601", "worker 0: the loss is nan"),
        (17, "return y * float('nan')", "L601", "worker 1: the loss is nan"),
        (17, "raise ValueError('odd')", "L606", "ValueError: odd"),
    ],
)
def test_a_worker_that_fails_is_named(tmp_path: Path, rows: int, does: str, code: str, said: str) -> None:
    folder = project(tmp_path / "fails", model="models:fails", args="{ }")
    (folder / "models.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Fails(nn.Module):\n"
        "    def __init__(self, classes):\n        super().__init__()\n        self.head = nn.Linear(64, classes)\n"
        "    def forward(self, x):\n        y = self.head(x.flatten(1))\n"
        f"        if self.training and len(x) == {rows}:\n            {does}\n        return y\n\n"
        "def fails(classes):\n    return Fails(classes)\n"
    )
    done = laminar(folder, "build", "-q", "--strategy", "sync", "--workers", "3")  # 50 rows: 16, 17, 17
    assert done.returncode == 6
    assert f"error {code}" in done.stderr and said in done.stderr
    (failed,) = events(folder, "failed")
    assert said.removeprefix("worker 0: ") in failed["why"] and failed["step"] == failed["epoch"] == 0 and failed["lr"] > 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--strategy", "snc"], "L008", "did you mean 'sync'"),
        (["--strategy", "solo", "--workers", "3"], "L008", "one worker"),
        (["--strategy", "sync", "--workers", "51"], "L004", "which 51 workers cannot share"),
    ],
)
def test_what_cannot_be_run_is_told(tmp_path: Path, words: list[str], code: str, said: str) -> None:
    done = laminar(project(tmp_path / "bad"), "build", "-q", *words)
    assert done.returncode == 2
    assert f"error {code}" in done.stderr and said in done.stderr and "fix:" in done.stderr


def wait_for_step(folder: Path, process: subprocess.Popen[str], step: int) -> list[dict[str, Any]]:
    """The workers, once the training has come so far."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            raise AssertionError(process.communicate())
        if any((folder / ".laminar/runs").glob("*/events.jsonl")):
            workers = events(folder, "worker")
            if workers and any(event["step"] >= step for event in events(folder, "checkpoint") + events(folder, "step")):
                return workers


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
