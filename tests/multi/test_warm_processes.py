"""Processes that start warm (tests/warm.py) are like those of subprocess: tests that use them prove as much."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import warm

LAMINAR = [sys.executable, "-m", "laminar"]
WORKER = [sys.executable, "-m", "laminar.parallel.apart.worker_process"]  # waits for its brief on the standard input


def test_it_prints_and_leaves_as_a_cold_one(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text("[stack]\nnam = 'x'\n")
    environment = {**os.environ, "LAMINAR_STORE": str(tmp_path / "elsewhere")}
    for words in (["--version"], ["status"], ["build"], ["doctor", "--json"]):
        cold = subprocess.run([*LAMINAR, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        found = warm.run([*LAMINAR, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (found.returncode, found.stdout, found.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_it_is_a_child_with_the_files_it_is_given_and_no_others() -> None:
    read, write = os.pipe()
    with open(read, "rb") as pipe:
        with warm.Popen(WORKER, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[write], start_new_session=True) as process:
            os.close(write)
            place = Path(f"/proc/{process.pid}")
            assert f"PPid:\t{os.getpid()}\n" in (place / "status").read_text()
            while os.getsid(process.pid) != process.pid:
                assert process.poll() is None
            os.stat(place / "fd" / str(write))
            process.send_signal(signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            process.kill()
            assert process.wait(60) == -signal.SIGKILL
        assert pipe.read() == b""  # nobody else has kept it open


def test_what_cannot_be_warm_is_cold() -> None:
    words = [sys.executable, "-c", "import sys; print('torch' in sys.modules)"]
    assert warm.run(words, capture_output=True, text=True, check=True).stdout == "False\n"
