"""What a process says to a chief that does not read."""

from __future__ import annotations

import json
import os
import threading

import pytest

from laminar.parallel import speech
from laminar.parallel.speech import Speech


def lines(read: int) -> list[int]:
    with os.fdopen(read, "rb") as pipe:
        return [json.loads(line)["n"] for line in pipe]


def test_a_chief_that_does_not_read_holds_up_nobody_and_misses_nothing() -> None:
    read, write = os.pipe()
    say = Speech(write)
    for n in range(5000):  # several times what a pipe takes
        say({"n": n, "more": "x" * 100})
    found: list[int] = []
    hears = threading.Thread(target=lambda: found.extend(lines(read)))
    hears.start()
    say({"n": 5000, "done": True})  # returns when all is said
    os.close(write)
    hears.join()
    assert found == list(range(5001))


def test_it_does_not_remember_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "MOST", 1000)
    read, write = os.pipe()
    say = Speech(write)
    found: list[int] = []
    hears = threading.Thread(target=lambda: found.extend(lines(read)))
    hears.start()
    for n in range(5000):
        say({"n": n, "more": "x" * 100})
        assert len(say._unsaid) <= 1000
    say({"n": 5000, "error": {}})
    os.close(write)
    hears.join()
    assert found == list(range(5001))


def test_a_chief_that_is_gone_is_noticed() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError):
        Speech(write)({"n": 0})
    os.close(write)
