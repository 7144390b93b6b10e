"""Ctrl-C that reaches a process before it has loaded torch: it prints nothing of it, and ends as its chief says."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from laminar.grid.node.computer import Computer
from laminar.grid.node.home import Home
from laminar.grid.node.limits import Limits
from laminar.parallel.crew import Crew
from tests.thinned import thinned

TEAMS = ("sync.member", "split.member", "stages.member")
OTHERS = ("apart.server_process", "apart.worker_process", "evaluation.evaluator_process")
PATIENCE = 60.0


@pytest.mark.parametrize("module", [*thinned(TEAMS), *thinned(OTHERS)])
def test_a_process_that_loads_is_not_interrupted(module: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Crew() as crew:
        member = crew.start(f"laminar.parallel.{module}", "worker", 0, {})
        member.send(signal.SIGINT)
        assert member.wait(PATIENCE)
    assert "KeyboardInterrupt" not in capfd.readouterr().err
    # Member 0 of a team was told to end. For the others it is the chief's affair: they went on, to a brief without what they need.
    assert member.code == (130 if module in TEAMS else 1)


def test_a_process_that_loads_ends_when_it_is_told_to(capfd: pytest.CaptureFixture[str]) -> None:
    with Crew() as crew:
        member = crew.start(f"laminar.parallel.{TEAMS[0]}", "worker", 1, {})
        member.send(signal.SIGINT)
        crew.end()
        assert member.code == -signal.SIGTERM
    assert not capfd.readouterr().err


def test_a_node_goes_on_computing(tmp_path: Path) -> None:
    computer = Computer(Home(tmp_path).root, Limits())
    computer.start()
    try:
        assert computer.pid is not None
        os.kill(computer.pid, signal.SIGINT)
        computer.ask({"forget": {"run": "none", "results": []}})
        assert computer.answer(PATIENCE) == {"forget": []}
    finally:
        computer.end()
