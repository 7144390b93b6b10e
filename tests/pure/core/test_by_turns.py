"""`benchmarks/by_turns.py` takes pairs in turns, and calls slower only what the interval shows to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """\
import sys
sys.path.insert(0, {benchmarks!r})
from figures import record
from planted_speed import SPEED
record("steps", SPEED)
record("seconds", 1 / SPEED, better="lower")
record("same", 5.0 if sys.argv[1:] == ["--cases", "a"] else 0.0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with `by_turns.py`, whose newest state has half the speed of its only commit."""
    project = tmp_path / "project"
    (project / "benchmarks").mkdir(parents=True)
    (project / "src").mkdir()
    for name in ("by_turns.py", "figures.py"):
        (project / "benchmarks" / name).write_text((ROOT / "benchmarks" / name).read_text())
    (project / "benchmarks" / "planted.py").write_text(SCRIPT.format(benchmarks=str(project / "benchmarks")))
    (project / "src" / "planted_speed.py").write_text("SPEED = 100.0\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "base"], check=True)
    (project / "src" / "planted_speed.py").write_text("SPEED = 50.0\n")
    return project


def turns(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/by_turns.py", "HEAD", "benchmarks/planted.py", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_what_became_slower_is_called_so_and_what_did_not_is_not(project: Path) -> None:
    done = turns(project, "--pairs", "7", "--", "--cases", "a")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert done.returncode == 1, done.stderr
    assert "0.500 (0.500-0.500)" in lines["steps"] and lines["steps"].endswith("SLOWER")
    assert lines["seconds"].endswith("SLOWER")
    assert lines["same"].endswith("not shown to differ")


def test_too_few_pairs_are_refused(project: Path) -> None:
    done = turns(project, "--pairs", "6")
    assert done.returncode == 2 and "at least 7" in done.stderr


def test_a_script_without_figures_is_an_error(project: Path) -> None:
    (project / "benchmarks" / "planted.py").write_text("print('nothing')\n")
    done = turns(project, "--pairs", "7")
    assert done.returncode == 1 and "recorded 0 figures" in done.stderr
