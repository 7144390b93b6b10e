"""A child process that tries cases one after another: what kills it is told of the case that did.

The net's module is the program of the child: `python -m tests.nets.kernels child` calls `serve(function)`. A case and its answer are one
line of JSON each.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]


class WarmChild:
    """Started when it is first asked, and again after it died. `environment`: what the child has beyond its parent's variables."""

    def __init__(self, module: str, **environment: str) -> None:
        self._module, self._environment = module, environment
        self._process: subprocess.Popen[str] | None = None
        self._complaints: IO[bytes] | None = None

    def ask(self, case: Any, seconds: float = 120.0) -> Any:
        """What the child answers. Raises AssertionError where the case failed, killed the child, or took too long."""
        child = self._started()
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(case) + "\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], seconds)
        line = child.stdout.readline() if ready else ""
        if not line:
            if not ready:
                child.kill()
            code = child.wait(10)
            said = self._last_words()
            self.close()
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            raise AssertionError(f"the child was {how}{'' if ready else f' after {seconds:g} s'}\n{said}")
        answer = json.loads(line)
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer["answer"]

    def close(self) -> None:
        if self._process is not None:
            child, self._process = self._process, None
            for pipe in (child.stdin, child.stdout):
                assert pipe is not None
                pipe.close()
            child.wait(30)
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | self._environment
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, "child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                bufsize=1,
                cwd=ROOT,
                env=environment,
            )
        return self._process

    def _last_words(self) -> str:
        assert self._complaints is not None
        self._complaints.seek(0)
        return "\n".join(self._complaints.read().decode(errors="replace").splitlines()[-15:])


def serve(attempt: Callable[[Any], Any]) -> None:
    """Answer each case until there are no more."""
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        try:
            answer = {"answer": attempt(json.loads(line))}
        except Exception as error:
            shown = "".join(traceback.format_tb(error.__traceback__)[-2:]) if not isinstance(error, AssertionError) else ""
            answer = {"failed": f"{shown}{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


def _example(case: Any) -> Any:
    """For the tests of this module: a negative number is a signal that kills the child."""
    if case < 0:
        os.kill(os.getpid(), -case)
    assert case, "zero"
    return case


if __name__ == "__main__":
    serve(_example)
