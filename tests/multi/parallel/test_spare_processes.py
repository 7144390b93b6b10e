"""Spare processes: started before it is known what for, used when it is, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from laminar.parallel.crew import CALLED_OFF, Crew
from tests.multi.parallel.test_sync_builds import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
MODULE = "tests.multi.parallel.says_its_brief"


def heard(crew: Crew) -> list[object]:
    while crew.alive:
        for _ in crew.hear():
            pass
    return [member.done for member in crew.members]


def test_a_spare_becomes_what_is_started_next() -> None:
    with Crew() as crew:
        crew.warm(1)
        spare = crew._spares[0].process.pid
        first = crew.start(MODULE, "worker", 3, {"word": "a"}, environment={"LAMINAR_WORD": "b"})
        second = crew.start(MODULE, "worker", 4, {"word": "c"})
        assert first.pid == spare != second.pid
        assert heard(crew) == [["a", 3, "b", True], ["c", 4, None, False]]  # the last: had it loaded torch by then?
        assert first.code == second.code == 0


def test_one_that_died_is_not_used() -> None:
    with Crew() as crew:
        crew.warm(1)
        spare = crew._spares[0].process
        os.kill(spare.pid, signal.SIGKILL)
        os.waitid(os.P_PID, spare.pid, os.WEXITED | os.WNOWAIT)
        crew.start(MODULE, "worker", 0, {"word": "a"})
        assert heard(crew) == [["a", 0, None, False]]
        spare.communicate()


def test_one_that_nobody_needs_is_ended() -> None:
    with Crew() as crew:
        crew.warm(2)
        pids = [spare.process.pid for spare in crew._spares]
    assert not any(map(alive, pids))


@pytest.mark.parametrize("words", ["", '{"word": "a", "ro'])
def test_one_that_was_not_told_what_it_is_for_leaves_quietly(words: str) -> None:
    """Ctrl-C may come while it is started, and is no reason for a traceback of a process that nobody knows of."""
    done = subprocess.run([sys.executable, "-m", MODULE], input=words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (CALLED_OFF, "", "")
