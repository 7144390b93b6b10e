"""The two processes of a node that do a task: the one that opens its data is there only while it is needed, and its troubles are told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from laminar.core import digest
from laminar.data.spec import DataSpec, SampleSpec
from laminar.grid.describe import version_of
from laminar.grid.node import child
from laminar.grid.node.computer import Computer
from laminar.grid.node.computers import IDLE, Computers
from laminar.grid.node.home import Home
from laminar.grid.node.limits import Limits
from laminar.grid.node.memory_limit import CODE
from laminar.grid.node.supplies import Supplies
from laminar.grid.wire.messages import About
from laminar.train.on_grid import Grid
from tests.torch.grid.test_node_worker import change_in, job, node, task

PATIENCE = 120.0
SAMPLED = DataSpec(source="digits", sample=SampleSpec(per_class=20))
linux = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


class Node:
    """The processes of a node with a task of a run on its disk, and a clock that stands still."""

    def __init__(self, folder: Path, source: str = "digits", limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        made, self.described = job(folder, Grid(local_steps=2), SAMPLED)
        self.version = version_of(made)
        self.home, _ = node(folder, self.described, self.version, samples=[])
        self.task = task(self.described, self.version, steps=2)
        if source != "digits":  # a server may send what it likes
            about = msgspec.json.decode(self.described.about, type=About)
            text = msgspec.json.encode(msgspec.structs.replace(about, data=about.data | {"source": source}))
            self.home.keep_file(digest.of_bytes(text), text)
            self.task = msgspec.structs.replace(self.task, about=digest.of_bytes(text))
        self.now = 0.0
        self.computers = Computers(self.home, limits, clock=lambda: self.now)
        self.opener = self.computers._opener

    def ask(self, sample: int = 7) -> None:
        self.computers.ask({"do": msgspec.to_builtins(msgspec.structs.replace(self.task, sample=sample))})

    def answer(self) -> dict[str, Any]:
        """As the keeper waits for it, which is told once that there is none yet."""
        return self.computers.answer(PATIENCE) or self.computers.answer(PATIENCE) or {}

    def opened(self) -> set[Path]:
        return set((self.home.root / "opened").iterdir())


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(**given: Any) -> Node:
        made.append(Node(tmp_path, **given))
        return made[-1]

    yield make
    for one in made:
        one.computers.end()


def test_data_are_opened_once_by_a_process_that_ends_when_it_is_idle(make: Callable[..., Node], tmp_path: Path) -> None:
    here = make()
    here.ask(7)
    assert here.answer()["samples"] == 64
    first = here.opener.pid
    assert first is not None and here.computers.pids == [here.computers.pid, first]
    here.ask(8)
    assert here.answer()["samples"] == 64 and here.opener.pid == first and len(here.opened()) == 2
    here.now = IDLE + 1
    here.ask(7)
    assert here.opener.pid is None and here.answer()["samples"] == 64  # these are on the disk
    elsewhere, worker = node(tmp_path / "elsewhere", here.described, here.version, samples=[7])
    worker.do(msgspec.structs.replace(here.task, sample=7))
    assert change_in(here.home, here.described)[0] == pytest.approx(change_in(elsewhere, here.described)[0], abs=1e-5)  # by other threads


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("python:data:make", "L504", "runs code of the project"),
        ("index:http://127.0.0.1:9/index.json", "L112", "--allow-private"),
        ("index:", "L504", "a place on this machine"),
    ],
)
def test_what_is_wrong_with_data_is_told_with_its_code(make: Callable[..., Node], source: str, code: str, said: str) -> None:
    here = make(source=source)
    here.ask()
    told = here.answer()
    assert told["code"] == code and said in told["error"]
    assert here.computers.pid is None and here.opened() == set()  # what computes was not even started


def test_a_description_that_is_none_is_an_answer_and_no_end_of_the_node(make: Callable[..., Node]) -> None:
    here = make()
    text = b'{"data": 5}'
    here.home.keep_file(digest.of_bytes(text), text)
    here.task = msgspec.structs.replace(here.task, about=digest.of_bytes(text))
    here.ask()
    assert "ValidationError" in here.answer()["error"] and here.computers.pids == []


@linux
@pytest.mark.parametrize("which", ["opener", "worker"])
def test_a_process_that_is_killed_costs_the_task_and_leaves_nothing_behind(make: Callable[..., Node], which: str) -> None:
    here = make()
    here.ask()
    if which == "worker":
        assert here.computers.answer(PATIENCE) is None  # the data are there
    process = here.opener if which == "opener" else here.computers._worker
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    told = here.computers.answer(PATIENCE)
    assert told is not None and told["code"] == "died" and "-9" in told["error"]
    assert here.opened() == set()  # perhaps it died of them
    here.ask()
    assert here.answer()["samples"] == 64


@linux
def test_what_is_started_while_the_owner_is_there_is_stopped_at_once(make: Callable[..., Node]) -> None:
    """The data were ready, and the owner came before the keeper heard of it."""
    here = make()
    here.ask()
    while not here.opened() or any(path.name.startswith(".") for path in here.opened()):
        os.sched_yield()
    here.computers._resting = True
    assert here.computers.answer(PATIENCE) is None and here.computers.pid is not None
    process = psutil.Process(here.computers.pid)
    while process.status() != psutil.STATUS_STOPPED:
        os.sched_yield()
    here.computers.rest(False)
    assert here.answer()["samples"] == 64


@linux
def test_both_are_stopped_while_the_owner_is_there_and_ended_with_a_reason(make: Callable[..., Node]) -> None:
    here = make()
    here.ask()
    assert here.computers.answer(PATIENCE) is None
    both = [psutil.Process(pid) for pid in here.computers.pids]
    here.computers.rest(True)
    assert len(both) == 2
    for one in both:
        while one.status() != psutil.STATUS_STOPPED:
            os.sched_yield()
    here.computers.end("the machine has less free memory than 256 MB")
    told = here.computers.answer(PATIENCE)
    assert told == {"error": "the machine has less free memory than 256 MB", "code": "died"}
    here.ask(9)
    here.computers.end("too much", CODE)  # while data are opened
    assert here.computers.answer(PATIENCE) == {"error": "too much", "code": CODE} and here.computers.pids == []


def test_the_memory_of_both_counts_and_the_idle_one_goes_first(make: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    here = make(limits=Limits(memory=1000))
    ended: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(Computer, "memory", lambda self: 400 if self is here.opener else 700)
        patched.setattr(Computer, "end", lambda self, *_: ended.append("opener" if self is here.opener else "worker"))
        here.computers._waiting = {"do": {}}
        assert here.computers.memory() == 1100 and ended == []  # it has work to do: the keeper ends it, with a reason
        here.computers._waiting = None
        assert here.computers.memory() == 700 and ended == ["opener"]


@linux
def test_neither_has_the_owners_variables_and_only_one_the_ways_into_the_network(
    make: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "LAMINAR_JOIN_TOKEN", "HTTPS_PROXY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "of the owner")
    here = make()
    here.ask()
    assert here.answer()["samples"] == 64
    names = {}
    for process in (here.computers._worker, here.opener):
        lines = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        names[process is here.opener] = {line.partition(b"=")[0] for line in lines if b"of the owner" in line}
    assert names == {False: set(), True: {b"HTTPS_PROXY"}}


def test_a_file_of_the_folder_a_node_is_started_in_is_no_library(
    make: Callable[..., Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('this is the random.py of a project')\n")
    monkeypatch.chdir(tmp_path)
    here = make()
    here.ask()
    assert here.answer()["samples"] == 64


def test_a_process_that_mostly_waits_rests_by_the_time_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of two processors: a second of each is followed by a second of rest, less what was waited already."""
    now, used, slept = [100.0], [5.0], list[float]()
    monkeypatch.setattr(child.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(child.time, "process_time", lambda: used[0])
    monkeypatch.setattr(child.time, "sleep", slept.append)
    of_processors, of_time = child.Pace(0.5, threads=2), child.Pace(0.5)
    for passed, computed in ((1.0, 2.0), (1.0, 0.0), (3.0, 2.0)):
        now[0], used[0] = now[0] + passed, used[0] + computed
        of_processors.pause()
        of_time.pause()
    assert slept == [1.0, 1.0, 0.0, 1.0, 0.0, 3.0]


class Line:
    """A server that has these files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.sent = files, list[str]()

    def file(self, sha256: str) -> bytes:
        self.sent.append(sha256)
        return self.files[sha256]


def test_a_graph_that_is_damaged_is_fetched_again_though_the_process_that_found_it_may_not_delete_it(make: Callable[..., Node]) -> None:
    here = make()
    graph = here.home.root / "files" / msgspec.json.decode(here.described.about, type=About).graphs["train"]
    graph.write_bytes(b"damaged")
    here.ask()
    told = here.answer()
    assert told["code"] == "L303"
    line = Line(here.described.files)
    supplies = Supplies(here.home, line)  # type: ignore[arg-type]
    supplies.forget()  # as the keeper does then
    supplies.provide(msgspec.structs.replace(here.task, version=_named(here)))
    assert line.sent == [graph.name]
    here.ask()
    assert here.answer()["samples"] == 64


def _named(here: Node) -> Any:
    return msgspec.structs.replace(here.task.version, sha256=digest.of_bytes(here.version))


def test_a_node_that_starts_trusts_no_data_from_before(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "opened" / "half").mkdir()
    home.sweep()
    assert list((tmp_path / "opened").iterdir()) == []
