"""Ctrl-C at any time of a command: a word and 130, never a traceback; once the work is done, it is done."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import laminar.cli
from laminar.cli import status, verbs


def interrupt(name: str = "") -> None:
    raise KeyboardInterrupt(name)


@pytest.mark.parametrize(("module", "name"), [(status, "run"), (verbs, "import_module"), (verbs, "main")])
def test_a_verb_that_is_interrupted_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: Any, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["laminar", "status"])
    monkeypatch.setattr(module, name, interrupt)
    with pytest.raises(SystemExit) as left:
        laminar.cli.main()
    assert left.value.code == 130
    assert capsys.readouterr().err.strip() == "interrupted"


LATE = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))  # before main registers anything: so after it
from laminar.cli import main
sys.argv = ["laminar", "--version"]
main()
"""


def test_work_that_is_done_is_not_interrupted() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("laminar ")
