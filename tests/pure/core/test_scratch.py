"""Temporary folders go with their process, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from laminar.core.scratch import scratch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs flock")


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import sys; from laminar.core.scratch import scratch; print(scratch('laminar-x-'), flush=True); sys.stdin.read()"
    own = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        (tmp_path / "laminar-x-foreign").mkdir()  # of somebody else, who has no owner's file
        ours = scratch("laminar-x-")
        assert theirs.exists() and ours.exists(), "its owner lives"
        process.kill()
    again = scratch("laminar-x-")
    assert sorted(tmp_path.iterdir()) == sorted([ours, again, tmp_path / "laminar-x-foreign"])
