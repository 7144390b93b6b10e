"""Confine: what a process that runs graphs of strangers is given, and what it gives up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from laminar.core.confine import few_variables


def test_few_variables_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "LAMINAR_JOIN_TOKEN", "LAMINAR_STORE", "PYTHON_TOKEN", "SSH_AUTH_SOCK", "https_proxy", "LC_X"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PATH", "/bin")
    few, more = few_variables(), few_variables(["https_proxy", "LAMINAR_"])
    assert few["PATH"] == "/bin" and few["LC_X"] == "x"
    assert {name for name, value in few.items() if value == "x"} == {"LC_X"}
    assert {"https_proxy", "LAMINAR_STORE"} <= more.keys() and "SSH_AUTH_SOCK" not in more
    assert not any("TOKEN" in name for name in more)


THREADS = """
import json, os, socket, threading
from laminar.core.confine import confine

go, reached = threading.Event(), []

def work():
    go.wait()
    try:
        socket.socket().close()
        reached.append("network")
    except OSError:
        pass

thread = threading.Thread(target=work)
thread.start()
held = confine(writable=["."])
go.set()
thread.join()
os.write(1, json.dumps([sorted(held), reached]).encode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a system offers differs")
def test_threads_that_are_there_already_lose_the_network_too() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, check=True)
    held, reached = json.loads(done.stdout)
    assert reached == ([] if "network" in held else ["network"])
