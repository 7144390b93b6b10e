"""The runner of nets resumes, prints the seed of a failure, and runs one case again."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from tests.nets import run


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A net that fails at seed 2 and ends at seed 4, as by Ctrl-C."""
    seen: list[int] = []

    def check(seed: int) -> str:
        seen.append(seed)
        assert seed != 2, "seed 2 is planted"
        if seed == 4 and seen.count(4) == 1:
            raise KeyboardInterrupt
        return "even" if seed % 2 == 0 else "odd"

    module = types.ModuleType("tests.nets.planted")
    module.check = check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.nets.planted", module)
    return seen


def test_a_run_goes_on_where_the_last_one_stopped(net: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run("planted", 1, None, tmp_path) == 1
    assert net == [0, 1, 2, 3, 4]
    assert "make fuzz NET=planted SEED=2 MINUTES=0" in capsys.readouterr().out
    assert run.run("planted", 0, None, tmp_path) == 0
    assert net == [0, 1, 2, 3, 4, 4]
    kept = json.loads((tmp_path / "planted.json").read_text())
    assert kept["failed"] == [2] and kept["counts"]["odd"] == 2


def test_a_seed_runs_one_case_and_leaves_the_resumed_run_alone(net: list[int], tmp_path: Path) -> None:
    assert run.run("planted", 0, 2, tmp_path) == 1
    assert net == [2] and not (tmp_path / "planted.json").exists()
