"""Ctrl-C while native code runs, which does not look up for signals by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm

LONG = """void kernel(int i, int n, const float x[n], float y[n]) {
    float v = x[i];
    for (int k = 0; k < 1000000000; k++) v = v * 0.999f + 1.0f;
    y[i] = v;
}
"""


@pytest.mark.parametrize("words", [["bench"], ["run", "--engine", "native", "--param", "x=ones:1000"]])
def test_it_ends_at_once(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "long.c").write_text(LONG)
    command = [sys.executable, "-m", "laminar", "kernel", words[0], "long.c", "--instances", "1000", *words[1:]]
    environment = {**os.environ, "LAMINAR_CACHE": str(tmp_path / "cache")}
    process = warm.Popen(command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("cache/kernels/*/*.o")):  # compiled: next it runs, for minutes
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
        assert not list(tmp_path.glob("*.npy"))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            stream.close()
