"""Atomic writes and event logs: a killed writer leaves the old file or the new one, and whole lines."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from laminar.core import atomic, digest, events, seeds
from laminar.core.errors import LaminarError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic.write_text(path, "old")
    with pytest.raises(RuntimeError), atomic.writing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "L301"), (errno.EDQUOT, "L301"), (errno.EROFS, "L302"), (errno.EACCES, "L302")]
)
def test_refusals_of_the_system_are_in_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str) -> None:
    def refuse(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(LaminarError) as caught:
        atomic.write_text(tmp_path / "a", "x")
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_events_survive_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with events.EventLog(path) as log:
        log({"event": "step", "step": 0})
        size = log.flush()
        log({"event": "step", "step": 1})
    assert [e["step"] for e in events.read(path)] == [0, 1]
    with open(path, "ab") as file:
        file.write(b'{"event": "st')
    assert [e["step"] for e in events.read(path)] == [0, 1]
    with events.EventLog(path) as log:
        log.truncate(size)
        log({"event": "step", "step": 2})
    assert [e["step"] for e in events.read(path)] == [0, 2]


def test_events_are_in_order_and_there_when_they_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    many = 2 * events.PENDING + 7
    with events.EventLog(path) as log:
        for step in range(many):
            log({"event": "step", "step": step})
        log.show()
        assert [e["step"] for e in events.read(path)] == list(range(many))
        log({"event": "end", "step": many})
    assert [e["step"] for e in events.read(path)] == list(range(many + 1))


def test_events_of_several_threads_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    def tell(log: events.EventLog, who: int) -> None:
        for step in range(1000):
            log({"who": who, "step": step})
            if step % 10 == who:
                log.show()

    with events.EventLog(path) as log, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda who: tell(log, who), range(4)))
    found = [(e["who"], e["step"]) for e in events.read(path)]
    assert sorted(found) == [(who, step) for who in range(4) for step in range(1000)]


def test_canonical_json_does_not_depend_on_order() -> None:
    assert digest.of_json({"a": 1, "b": [1.5, "é"]}) == digest.of_json({"b": [1.5, "é"], "a": 1})
    with pytest.raises(ValueError):
        digest.canonical(float("nan"))


def test_streams_of_one_seed_differ() -> None:
    assert seeds.derive(0, "init") != seeds.derive(0, "order")
    assert seeds.derive(0, "a", "b") != seeds.derive(0, "ab")
    assert seeds.derive(0, "init") == seeds.derive(0, "init")
