"""What the owner allows of memory is a limit: a task that needs more fails, is given back with the reason, and its run is left alone."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from laminar.grid.describe import Described, describe, version_of
from laminar.grid.node import memory_limit
from laminar.grid.node.computers import Computers
from laminar.grid.node.home import Home
from laminar.grid.node.keeper import Keeper
from laminar.grid.node.limits import Limits
from laminar.grid.node.memory_limit import MemoryLimit, data_limit, is_shortage, job_object
from laminar.grid.node.too_large import TooLarge
from laminar.grid.wire import model_bytes
from laminar.grid.wire.messages import Ask, Task, Verdict, Version, Work
from laminar.model.freeze import freeze
from laminar.train.job import Job
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

ALLOWED = 640 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")


class Wide(nn.Module):
    """As wide as one likes, with few parameters."""

    def __init__(self, times: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.times = times
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return self.head(x) + 0.0 * x.repeat(1, self.times).exp().sum(1, keepdim=True)


def on_disk(home: Home, name: str, times: int, folder: Path, result: int) -> Task:
    """A run's files and first version on the node's disk, and a task of it."""
    spec, model = DataSpec(source="digits"), Wide(times)
    recipe = Recipe(epochs=1, batch=32, optimizer="sgd", lr=0.1, strategy=Grid(local_steps=2))
    job = Job("net", model, open_data(spec, folder), recipe, freeze(model, []), folder)
    described: Described = describe(job, name, spec, [])
    for sha256, data in described.files.items():
        home.keep_file(sha256, data)
    first = version_of(job)
    home.keep_version(name, 0, first)
    version = Version(number=0, sha256=model_bytes.digest(first), size=len(first))
    about = described.about_sha256
    where = {"sample": None, "epoch": 0, "first": 0, "steps": 2, "seed": 1, "progress": 0.0, "lease": 60.0}
    return Task(result=result, task=result, run=name, about=about, version=version, **where)  # type: ignore[arg-type]


class Server:
    """Gives out what it has, writes down what it is asked, and ends the node when it has nothing."""

    after = memoryview(b"")

    def __init__(self, tasks: list[Task], stop: threading.Event) -> None:
        self.tasks, self.stop = tasks, stop
        self.asked: list[Ask] = []
        self.answers: list[int] = []

    def work(self, asked: Ask) -> Work:
        self.asked.append(asked)
        if not self.tasks:
            self.stop.set()
            return Work()
        return Work(tasks=[self.tasks.pop(0)])

    def answer(self, result: int, data: bytes, asked: Ask | None = None) -> Verdict:
        self.answers.append(result)
        return Verdict(result=result, state="returned", work=None if asked is None else self.work(asked))

    def custody(self, run: str) -> None:
        return None


@linux
def test_a_task_that_needs_too_much_is_given_back_and_its_run_left_alone(tmp_path: Path) -> None:
    home, stop = Home(tmp_path / "home"), threading.Event()
    large, small = on_disk(home, "large", 100_000, tmp_path, 1), on_disk(home, "small", 10, tmp_path, 2)  # 819 MB a batch, and 80 kB
    server, told = Server([large, small], stop), list[str]()
    assert home.key  # as whoever has joined has one
    keeper = Keeper(home, server, Limits(memory=ALLOWED), "n", told.append, stop=stop)  # type: ignore[arg-type]
    assert keeper.run() == 1
    assert server.answers == [2]
    assert server.asked[0].without == [] and server.asked[1].without == ["large"] == server.asked[2].without
    assert server.asked[1].cannot == [(1, "it needs more than the 640 MB of memory that the owner allows")]
    assert any("640 MB" in line for line in told)
    assert TooLarge(home.root, ALLOWED).runs == ["large"]  # also after a reboot
    assert TooLarge(home.root, 2 * ALLOWED).runs == TooLarge(home.root, None).runs == []  # whoever allows more tries again


@linux
def test_the_process_lives_on_and_stays_below_what_is_allowed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    large, small = on_disk(home, "large", 100_000, tmp_path, 1), on_disk(home, "small", 10, tmp_path, 2)
    computer = Computers(home, Limits(memory=ALLOWED))
    try:
        said: list[dict[str, Any]] = []
        most, pids = 0, set()
        for task in (large, small):
            computer.ask({"do": msgspec.to_builtins(task)})
            while (answer := computer.answer(0.02)) is None:
                most = max(most, computer.memory())
            said.append(answer)
            pids.add(computer.pid)
    finally:
        computer.end()
    assert said[0]["code"] == "memory" and said[1]["samples"] == 64
    assert len(pids) == 1 and 0 < most <= ALLOWED


def test_what_is_mapped_and_not_there_is_not_counted() -> None:
    assert data_limit(1000, mapped=500, there=300, stacks=0) == 1200
    assert data_limit(1000, mapped=500, there=300, stacks=64) == 1264
    assert data_limit(1000, mapped=5000, there=2000, stacks=0) == 5000  # there is nothing left to give


def test_a_shortage_is_told_from_other_errors() -> None:
    assert is_shortage(MemoryError()) and is_shortage(np._core._exceptions._ArrayMemoryError((1,), np.dtype(float)))  # type: ignore[attr-defined]
    assert is_shortage(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    assert not is_shortage(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) and not is_shortage(ValueError())
    assert MemoryLimit(None, 1).said(MemoryError()) == "it needs more memory than the machine has"
    assert MemoryLimit(None, 1).said(ValueError()) is None


class Kernel32:
    """As far as a job object needs it."""

    def __init__(self, *, refuses: str = "") -> None:
        self.done: list[Any] = []

        def function(name: str, value: int) -> Any:
            def call(*words: Any) -> int:
                self.done.append((name, words))
                return 0 if name == refuses else value

            return call

        self.CreateJobObjectW, self.GetCurrentProcess = function("create", 77), function("process", -1)
        self.SetInformationJobObject, self.AssignProcessToJobObject = function("set", 1), function("assign", 1)


def test_windows_gets_a_job_object() -> None:
    windows = type("windows", (), {"kernel32": Kernel32()})
    assert job_object(ALLOWED, windows) == 77
    (_, (job, kind, pointer, size)) = windows.kernel32.done[1]
    assert (job, kind, size) == (77, 9, 144)  # as Windows wants it, with 64 bits
    assert pointer._obj.process_memory == ALLOWED and pointer._obj.basic.flags == 0x100
    assert windows.kernel32.done[-1] == ("assign", (77, -1))
    for refuses in ("create", "set", "assign"):
        assert job_object(ALLOWED, type("windows", (), {"kernel32": Kernel32(refuses=refuses)})) is None
    assert ctypes.sizeof(memory_limit._Basic) == 64
