"""Spare processes: started before it is known what for, used when it is, and never left behind."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from laminar.parallel.crew import Crew
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
