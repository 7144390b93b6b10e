"""What a node deletes of runs that are over, or seem so; and what it never deletes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from laminar.core import digest
from laminar.grid.node.client import Refusal, Unreachable
from laminar.grid.node.home import TAG, Home
from laminar.grid.node.sent import Sent
from laminar.grid.node.supplies import Supplies
from laminar.grid.node.tidy import DAY, LONG, QUIET, Fate, Held, Tidy, fate
from laminar.grid.wire.messages import LARGEST, About, Problem, Task, Version

NOW = 2_000_000_000.0
OLD = NOW - QUIET - 1
GRAPH = b"PK a graph"


class Server:
    """That takes what is handed in, once it can be reached and unless it refuses."""

    def __init__(self) -> None:
        self.has: dict[str, bytes] = {}
        self.away = self.refuses = self.lost_reply = False

    def custody(self, run: str, data: bytes | None = None) -> bytes | None:
        if self.away:
            raise Unreachable("away")
        if data is None:
            return self.has.pop(run, None)
        if self.refuses:
            raise Refusal(404, Problem(error="run", message="it ended long ago"))
        self.has[run] = data
        if self.lost_reply:
            raise Unreachable("the reply got lost")
        return None


def about(run: str) -> About:
    graph = digest.of_bytes(GRAPH)
    return About(
        run=run,
        graphs={"train": graph, "eval": graph},
        parameters={},
        buffers={},
        fixed=None,
        aliases={},
        frozen=[],
        recipe={},
        data={},
        compress={"kind": "topk"},
        gradients=False,
        classes=None,
        sketch=0,
    )


def task(run: str, result: int = 1) -> Task:
    sha256 = digest.of_bytes(msgspec.json.encode(about(run)))
    version = Version(number=0, sha256=digest.of_bytes(b"model"), size=5)
    more = {"sample": None, "epoch": 0, "first": 0, "steps": 1, "seed": 0, "progress": 0.0, "lease": 1.0}
    return Task(result=result, task=1, run=run, about=sha256, version=version, **more)  # type: ignore[arg-type]


class Disk:
    def __init__(self, folder: Path) -> None:
        self.home, self.server = Home(folder), Server()
        self.sent = Sent(self.home)
        self.supplies = Supplies(self.home, self.server)  # type: ignore[arg-type]

    def run(self, name: str, residual: bytes | None = b"kept", at: float = OLD) -> None:
        data, root = msgspec.json.encode(about(name)), self.home.root
        self.home.keep_file(digest.of_bytes(data), data)
        self.home.keep_file(digest.of_bytes(GRAPH), GRAPH)
        self.home.keep_version(name, 0, b"model")
        paths = [root / "files" / digest.of_bytes(data), root / "files" / digest.of_bytes(GRAPH), self.home.version_path(name, 0).parent]
        if residual is not None:
            self.home.residual_path(name).write_bytes(residual)
            paths.append(self.home.residual_path(name))
        for path in paths:
            os.utime(path, (at, at))

    def tidy(self, now: float = NOW) -> None:
        made = Tidy(self.home, self.server, self.sent)  # type: ignore[arg-type]
        made.look(now)
        if made.do(now):
            self.supplies.let_go()

    def left(self) -> set[str]:
        return {path.relative_to(self.home.root).parts[0] for path in self.home.root.rglob("*") if path.is_file()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_run_of_which_nothing_was_heard_goes_and_what_was_kept_back_is_handed_in(disk: Disk) -> None:
    disk.run("over")
    disk.tidy(NOW - 2)
    assert disk.left() == {"files", "versions", "residuals"}  # not yet
    disk.tidy()
    assert disk.left() == set() and disk.server.has == {"over": b"kept"}


def test_what_another_run_needs_stays(disk: Disk) -> None:
    disk.run("over", residual=None)
    disk.run("alive", at=NOW - DAY)
    for path in (disk.home.root / "files").iterdir():
        os.utime(path, (OLD, OLD))
    disk.tidy()
    assert {one.run for one in disk.home.abouts().values()} == {"alive"} and disk.home.has_file(digest.of_bytes(GRAPH))
    assert disk.home.residual_path("alive").exists() and disk.home.newest("alive") == 0 and disk.home.newest("over") is None


def test_what_a_task_under_way_needs_stays_however_old(disk: Disk) -> None:
    disk.run("slow", at=NOW - 10 * LONG)
    disk.home.note_task(task("slow"))
    disk.tidy()
    assert disk.left() == {"files", "versions", "residuals", "tasks"} and not disk.server.has


def test_a_task_makes_a_run_young_again(disk: Disk) -> None:
    now = time.time()
    disk.run("slow", at=now - LONG)
    disk.supplies.provide(task("slow"))
    disk.tidy(now + QUIET - DAY)
    assert disk.left() == {"files", "versions", "residuals"}


def test_answers_that_are_not_settled_keep_their_run_until_long_after(disk: Disk) -> None:
    disk.run("paused")
    disk.home.note_task(task("paused"))
    disk.home.answer_path(1).write_bytes(b"answer")
    disk.sent.add(task("paused"))
    disk.tidy()
    assert disk.left() == {"files", "versions", "residuals", "sent", "answers"} and not disk.server.has
    disk.tidy(NOW + LONG)
    assert "answers" not in disk.left() and len(disk.sent) == 0
    disk.tidy(NOW + LONG)
    assert disk.left() == set()


def test_what_is_too_large_to_be_handed_in_is_kept_longer_with_the_name_of_its_run(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.grid.node.tidy.LARGEST", 100)
    disk.run("large", residual=bytes(101))
    disk.tidy()
    assert disk.left() == {"files", "residuals"} and disk.home.run_of(disk.home.residual_path("large")) == "large"
    disk.tidy(NOW + LONG)
    assert disk.left() == set() and not disk.server.has


def test_of_what_compression_keeps_that_is_handed_in_which_somebody_else_goes_on_with(disk: Disk) -> None:
    v, turn = np.arange(5, dtype=np.float32), np.array(3)
    disk.run("over", residual=save({"v": v, "u": np.ones(5, np.float32), "turn": turn, TAG: np.array(7)}))
    disk.tidy()
    assert disk.server.has == {"over": save({"v": v, "turn": turn})}


def test_without_the_server_nothing_that_it_might_take_is_lost(disk: Disk) -> None:
    disk.run("over")
    disk.server.away = True
    disk.tidy(NOW + LONG)
    assert disk.left() == {"files", "versions", "residuals"}
    disk.server.away = False
    disk.tidy(NOW + LONG)
    assert disk.left() == set() and disk.server.has == {"over": b"kept"}


def test_what_the_server_does_not_take_goes(disk: Disk) -> None:
    disk.run("over")
    disk.server.refuses = True
    disk.tidy()
    assert disk.left() == set()


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_node_that_gets_a_task_after_all_goes_on_with_it_once(disk: Disk, lost: str) -> None:
    """What is on the server and here would be sent by two."""
    disk.run("alive")
    disk.server.away, disk.server.lost_reply = lost == "request", lost == "reply"
    disk.tidy()
    assert not disk.home.residual_path("alive").exists()
    disk.server.away = disk.server.lost_reply = False
    disk.supplies.provide(task("alive"))
    assert disk.home.residual_path("alive").read_bytes() == b"kept" and not disk.server.has
    assert [path.name for path in (disk.home.root / "residuals").iterdir()] == [disk.home.mark("alive")]


def test_times_of_a_clock_that_was_wrong_count_from_today(disk: Disk) -> None:
    disk.run("over", at=NOW + 1000 * DAY)
    disk.tidy()
    disk.tidy(NOW + QUIET + 1)
    assert disk.left() == set()


HELD = st.builds(
    Held,
    last=st.floats(0, NOW),
    residual=st.none() | st.integers(0, 2 * LARGEST),
    under_way=st.booleans(),
    unsettled=st.booleans(),
)


@given(HELD)
def test_nothing_under_way_or_young_is_touched_and_nothing_stays_for_ever(held: Held) -> None:
    what = fate(held, NOW)
    if held.under_way or NOW - held.last < QUIET:
        assert what is Fate.KEEP
    elif NOW - held.last >= LONG:
        assert what in (Fate.HAND_IN, Fate.DELETE)
    if what is Fate.DELETE and held.residual is not None:
        assert NOW - held.last >= LONG
