"""What any launcher must do. A test class inherits from this, and gives a `launcher` fixture."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.launch.check import check
from laminar.launch.protocol import Launcher
from laminar.launch.switchboard import Switchboard


class LauncherContract:
    """Agents come, answer, are missed when they die, and are gone at the end."""

    patience = 60.0  # seconds until agents are here

    @pytest.fixture
    def launcher(self) -> Launcher:
        raise NotImplementedError

    def test_agents_come_answer_and_go(self, launcher: Launcher, tmp_path: Path) -> None:
        (tmp_path / "seen").write_text("yes")
        with Switchboard(launcher, 2, starting=self.patience) as board:
            assert board.room(2) == 2
            assert [agent.slot for agent in board.here] == [0, 1]
            assert board.look([str(tmp_path / "seen"), str(tmp_path / "missing")]) == {0: ["yes", None], 1: ["yes", None]}
            pids = [agent.facts["pid"] for agent in board.here]
            assert len(set(pids)) == 2
            assert os.getpid() not in pids
        launcher.stop()  # twice is no mistake
        assert not [pid for pid in pids if _is_an_agent(pid)]

    def test_an_agent_that_dies_is_missed_by_name(self, launcher: Launcher) -> None:
        with Switchboard(launcher, 2, starting=self.patience) as board:
            board.room(2)
            victim = board.here[1]
            os.kill(victim.facts["pid"], signal.SIGKILL)
            while not victim.lost:
                board.turn(0.1)
            assert board.agents[0].lost == "" or launcher.comes_back()
            if launcher.comes_back():
                assert board.room(2) == 2
            else:
                assert board.room(2, fewest=1) == 1
                with pytest.raises(LaminarError, match=r"1 worker of 2 (came|remained) .*worker 1: ") as caught:
                    board.room(2, fewest=2)
                assert caught.value.code == "L406"

    def test_a_cluster_can_be_looked_over(self, launcher: Launcher, tmp_path: Path) -> None:
        report = check(launcher, 2, tmp_path, starting=self.patience)
        assert [worker.slot for worker in report.workers] == [0, 1]
        assert all(worker.sees_project for worker in report.workers)
        (pair,) = report.distances
        assert (pair.first, pair.second) == (0, 1)
        assert pair.latency > 0
        assert pair.bandwidth > 0
        assert report.problems == []


def _is_an_agent(pid: int) -> bool:
    """A process may live on for other work; none may still serve us."""
    try:
        return b"laminar.launch.agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
