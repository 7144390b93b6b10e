"""Processes that are stopped and not dead (SIGSTOP, Ctrl-Z, a machine that swaps, a network that swallows all): nobody waits for ever, and
whoever is continued goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.multi.parallel import test_apart_builds as apart
from tests.multi.parallel import test_sync_builds as sync
from tests.multi.parallel.test_apart_builds import Project, built
from tests.thinned import thinned

TIMEOUT = 3  # of the strategy, seconds

_ends_what_is_left = apart._end_what_a_failed_test_has_left


def stop(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        while "State:\tT" not in Path(f"/proc/{pid}/status").read_text():
            pass


def go_on(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def until_kept(project: Project, process: subprocess.Popen[str], after: float) -> None:
    """Until a server's snapshot is of a later time: it speaks to its chief whenever it has written one."""
    (snapshot,) = (project.folder / ".laminar/runs").glob("*/apart/server-0.safetensors")
    project.until(process, lambda: snapshot.stat().st_mtime > after)


GUESTS = {
    "downpour": (f"downpour:n_push=2,shards=2,timeout={TIMEOUT}", 1),
    "averaging": (f"averaging:every=2,timeout={TIMEOUT}", 2),
    "quorum": (f"quorum:quorum=0.5,timeout={TIMEOUT}", 2),
}


@pytest.mark.parametrize("kind", thinned(GUESTS))
def test_a_guest_whose_build_is_frozen_says_so_and_leaves(tmp_path: Path, kind: str) -> None:
    strategy, workers = GUESTS[kind]
    project = Project(tmp_path / "p", model="slow", epochs=60)
    process = project.start("build", "-q", "--json", "--strategy", strategy, "--workers", str(workers))
    project.until(process, lambda: len(project.processes("worker")) == workers)
    guest = project.start("join")
    project.until(process, lambda: project.processes("worker").get(workers) == guest.pid and project.steps() > 5)
    servers = list(project.processes("server").values())
    stop(process.pid)
    until_kept(project, process, time.time())  # the chief will hear that it was there
    stop(*servers)
    out, error = guest.communicate(timeout=60)
    go_on(*servers, process.pid)
    assert guest.returncode == 4 and not out, (out, error)
    assert "error L401: the server at " in error and "Traceback" not in error
    assert f" did not answer for {3 * TIMEOUT} s (it takes calls and says nothing), and its build (process {process.pid} on " in error, (
        error
    )
    assert "fix: " in error and "laminar join again" in error
    project.hurry()
    assert built(process)["metrics"]["accuracy"] > 0.8
    project.check(60)
    said, *others = project.notes()
    assert said.startswith(f"worker {workers}, which had joined, left at step ") and not others, [said, *others]


def test_while_only_the_chief_is_frozen_nobody_is_lost(tmp_path: Path) -> None:
    """Workers train some epochs ahead, and then wait for the chief to test them; the server says to the one who asks that it is there."""
    project = Project(tmp_path / "p", model="slow", epochs=60)
    process = project.start("build", "-q", "--json", "--strategy", f"downpour:n_push=2,timeout={TIMEOUT}", "--workers", "1")
    project.until(process, lambda: len(project.processes("worker")) == 1)
    guest = project.start("join")
    project.until(process, lambda: project.processes("worker").get(1) == guest.pid and project.steps() > 5)
    stop(process.pid)
    until_kept(project, process, time.time() + 5 * TIMEOUT)  # longer than the guest would wait for a server
    go_on(process.pid)
    project.hurry()
    assert built(process)["metrics"]["accuracy"] > 0.8
    out, error = guest.communicate(timeout=60)
    assert guest.returncode == 0 and "all epochs done" in out, error
    project.check(60)
    assert project.notes() == [] and len(project.events("worker")) == 3, "nobody was lost or started again"


def test_a_server_that_is_continued_in_time_was_not_missed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="slow", epochs=30)
    process = project.start("build", "-q", "--json", "--strategy", "quorum:quorum=0.5", "--workers", "2")
    project.until(process, lambda: project.steps() > 5 and len(project.processes("worker")) == 2)
    server = project.processes("server")[0]
    stop(server)
    os.kill(server, signal.SIGCONT)
    before = project.steps()
    project.until(process, lambda: project.steps() > before + 5)
    project.hurry()
    assert built(process)["metrics"]["accuracy"] > 0.8
    project.check(30)
    assert project.notes() == []


TESTS_LONG = """
import threading


class TestsLong(Net):
    \"\"\"Its test says that it has begun, and ends when there is a file "tested".\"\"\"

    def forward(self, x):
        if threading.current_thread().name.startswith("laminar-judge"):
            open(os.path.join(HERE, "testing"), "w").close()
            while not os.path.exists(os.path.join(HERE, "tested")):
                pass
        return super().forward(x)


def tests_long(classes):
    return TestsLong(classes)
"""


def test_a_server_that_hangs_after_ctrl_c_while_an_epoch_is_tested(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", model="tests_long", epochs=3)
    (project.folder / "models.py").write_text(apart.MODELS + TESTS_LONG)
    words = ["--strategy", f"averaging:every=2,timeout={TIMEOUT}", "--workers", "2"]
    process = project.start("build", "-q", *words)
    project.until(process, lambda: (project.folder / "testing").exists() and len(project.processes("worker")) == 2)
    process.send_signal(signal.SIGINT)
    apart.gone(list(project.processes("worker").values()))  # so all have been told
    stop(project.processes("server")[0])
    (project.folder / "tested").touch()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error and "error" not in error, error
    assert project.build(*words)["metrics"]["accuracy"] > 0.5
    project.check(3)


def test_a_frozen_chief_of_sync_holds_up_nobody(tmp_path: Path) -> None:
    """Its pipe takes some seconds of what is told, and who waited for it to be read was waited for by the others, until they gave up."""
    folder = sync.project(tmp_path / "frozen", epochs=400)
    process = sync.start(folder, "build", "-q", "--json", "--strategy", f"sync:timeout={TIMEOUT}", "--workers", "2")
    workers = sync.wait_for_step(folder, process, 1)
    stop(process.pid)
    apart.gone([worker["pid"] for worker in workers if worker["rank"]])  # it is done, or has given up
    go_on(process.pid)
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert json.loads(out)["layers"][0]["metrics"]["accuracy"] > 0.8
    assert sync.events(folder, "note") == [] and sync.events(folder, "resume") == []
    assert len(sync.events(folder, "epoch")) == 400
