"""What code looked at while it ran; and a hook that outlives its module without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from laminar.data.opened_files import recording_opened_files

AT_THE_END = """
import os
from laminar.data import opened_files


class Late:
    def __del__(self):  # when the module that the hook is of has lost its names
        os.listdir(".")


with opened_files.recording_opened_files():
    pass
opened_files.late = Late()
opened_files._listeners = None
os.listdir(".")
"""


def test_files_that_are_read_and_folders_that_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with recording_opened_files() as seen:
        (tmp_path / "a").read_text()
        (tmp_path / "b").write_text("y")
        os.listdir(tmp_path)
    (tmp_path / "a").read_bytes()
    assert (seen.files, seen.folders) == ([str(tmp_path / "a")], [str(tmp_path)])


def test_nothing_is_said_when_the_interpreter_ends() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
