"""One kill in a build on a cluster: of what, in which phase, and how soon training goes on. The result is that of an unhurt build."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from laminar.stack.build import BuildReport
from tests.multi.launch.cluster_project import ClusterProject

Event = dict[str, Any]
AGAIN: Final = 30.0  # seconds from a kill until training goes on

START, STEP, SAVING = "start", "step", "saving"
PHASES: Final = (START, STEP, SAVING)


class Kill:
    """Hears a build on, and strikes a worker once: before the first step, in the middle of steps, or while a checkpoint is written."""

    def __init__(self, project: ClusterProject, phase: str, strike: Callable[[int], None], *, rank: int = 1) -> None:
        """`strike`: is told the process of worker `rank`. Training is slow until it goes on."""
        self._project, self._phase, self._strike, self._rank = project, phase, strike, rank
        self._pids: dict[int, int] = {}
        self.killed: float | None = None  # when
        self.again: float | None = None  # when training went on
        self._new_team = False
        slow_down(project, 0.3)

    def struck(self) -> None:
        """By somebody else, before any worker was there."""
        self.killed, self._new_team = time.monotonic(), True

    def __call__(self, event: Event) -> None:
        if self.killed is None:
            if event["event"] == "worker" and event["role"] == "worker":
                self._pids[event["rank"]] = event["pid"]
            if self._rank in self._pids and self._is_time(event):
                self.killed = time.monotonic()
                self._strike(self._pids[self._rank])
        elif self.again is None:
            self._new_team = self._new_team or (event["event"] == "worker" and event["role"] == "worker" and event["rank"] == 0)
            if self._new_team and event["event"] == "step":
                self.again = time.monotonic()
                self._project.slow.unlink()

    def _is_time(self, event: Event) -> bool:
        kind = str(event["event"])
        if self._phase == STEP:
            return kind == "step" and event["step"] >= 5
        return kind == ("worker" if self._phase == START else "checkpoint")  # which is told before its files are with the chief

    def check(self, report: BuildReport, unhurt: list[float], slower: float = 1.0) -> None:
        """`unhurt`: losses of the same training where nobody was killed."""
        assert self.killed is not None and self.again is not None
        print(f"training went on {self.again - self.killed:.1f} s after the kill")
        losses = self._project.losses()
        assert len(losses) == len(unhurt), "no step twice, none missing"
        assert losses == pytest.approx(unhurt, abs=1e-5)
        assert report.layers[0].metrics["accuracy"] > 0.85
        assert self.again - self.killed < AGAIN * slower, f"training went on after {self.again - self.killed:.1f} s"


def slow_down(project: ClusterProject, seconds: float) -> None:
    """So that what is lost is missed before all is done."""
    models = project.folder / "models.py"
    models.write_text(models.read_text().replace("time.sleep(0.05)", f"time.sleep({seconds})"))
    project.slow.touch()


def unhurt(folder: Path, workers: int) -> list[float]:
    """Losses of the training on this machine. How many workers there are does not matter."""
    project = ClusterProject(folder)
    project.build(None, "sync", workers)
    return project.losses()
