"""What was measured is kept: by several processes at once, through kills and damage."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laminar.plan.profile.kept import Kept, default_path

KEY = {"what": "operator", "shape": [2, 3], "threads": 1, "torch": "2.13"}


def test_a_value_is_measured_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure() -> list[float]:
        calls.append(1)
        return [0.5, 1.5]

    for _ in range(2):
        with Kept.open(tmp_path / "deep" / "profile.sqlite") as kept:
            assert kept.measured(KEY, measure) == [0.5, 1.5]
            assert kept.notes == []
    assert calls == [1]


def test_the_order_of_a_key_is_no_matter_and_each_of_its_parts_is(tmp_path: Path) -> None:
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.put(KEY, 1)
        assert kept.get(dict(reversed(KEY.items()))) == 1
        for name, other in {"what": "pass", "shape": [3, 2], "threads": 2, "torch": "2.14"}.items():
            assert kept.get({**KEY, name: other}) is None


def test_many_are_kept_at_once(tmp_path: Path) -> None:
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.put_all([])
        kept.put_all([({"n": n}, {"seconds": n}) for n in range(50)])
        assert len(kept) == 50
        assert kept.get({"n": 7}) == {"seconds": 7}


def test_what_is_to_be_measured_again_stays_until_it_is(tmp_path: Path) -> None:
    """Measuring may be refused, because somebody is busy, or broken off: then all that was not replaced is still there."""
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.put_all([({"n": n}, n) for n in range(3)])
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.start_anew()
        assert [kept.get({"n": n}) for n in range(3)] == [None] * 3
        kept.put({"n": 0}, 10)
        kept.put({"n": 1}, 11, quiet=False)
        assert [kept.get({"n": n}, also_busy=True) for n in range(3)] == [10, None, None], "one of a quiet machine is not replaced"
    with Kept(tmp_path / "p.sqlite") as kept:
        assert [kept.get({"n": n}) for n in range(3)] == [10, 1, 2]


def test_what_a_busy_machine_gave_serves_only_who_asked_for_it(tmp_path: Path) -> None:
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.put(KEY, 2.0, quiet=False)
        assert kept.get(KEY) is None
        assert kept.get(KEY, also_busy=True) == 2.0
        kept.put(KEY, 1.0)
        kept.put(KEY, 3.0, quiet=False)
        assert kept.get(KEY, also_busy=True) == 1.0


def test_what_was_disturbed_is_counted(tmp_path: Path) -> None:
    with Kept(tmp_path / "kept.sqlite") as kept:
        kept.put_all([({"n": 1}, 1), ({"n": 2}, 2)], quiet=False)
        kept.put({"n": 3}, 3)
        assert kept.disturbed == 2
    with Kept(tmp_path / "kept.sqlite") as kept:
        assert [kept.get({"n": i}, also_busy=True) for i in (1, 3)] == [1, 3] and kept.get({"n": 2}) is None
        assert kept.disturbed == 1, "of what was handed out"


@pytest.mark.parametrize("damage", ["all", "middle"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "p.sqlite"
    with Kept(path) as kept:
        kept.put_all([({"n": n}, "x" * 500) for n in range(200)])
    data = bytearray(path.read_bytes())
    data[:] = b"no database at all" * 100 if damage == "all" else data[:8192] + b"\xff" * 20000 + data[28192:]
    path.write_bytes(data)
    with Kept(path) as kept:
        assert len(kept.notes) == 1 and "damaged" in kept.notes[0]
        assert kept.get({"n": 3}) is None
        kept.put(KEY, 1)
    assert [one.name for one in tmp_path.glob("*.damaged-*")]
    with Kept(path) as kept:
        assert (kept.get(KEY), kept.notes) == (1, [])


def test_a_value_that_cannot_be_read_is_measured_again(tmp_path: Path) -> None:
    with Kept(tmp_path / "p.sqlite") as kept:
        kept.put(KEY, 1)
        with contextlib.closing(sqlite3.connect(tmp_path / "p.sqlite")) as other, other:
            other.execute("UPDATE measured_1 SET value = '{half of it'")
        assert kept.get(KEY) is None
        assert kept.measured(KEY, lambda: 2) == 2 == kept.get(KEY)


def test_a_place_that_cannot_be_used_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Kept(tmp_path / "file" / "p.sqlite") as kept:
        kept.put(KEY, 1)
        assert kept.get(KEY) == 1
        assert "cannot be used" in kept.notes[0]


def test_nothing_outlives_what_has_no_file() -> None:
    with Kept(None) as kept:
        kept.put(KEY, 1)
        assert kept.get(KEY) == 1


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINAR_PROFILE", str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"
    monkeypatch.delenv("LAMINAR_PROFILE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "laminar" / "profile.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_path() == Path.home() / ".cache" / "laminar" / "profile.sqlite"


WRITER = """
import sys
from pathlib import Path
from laminar.plan.profile.kept import Kept
kept = Kept(Path(sys.argv[1]))
who, count = sys.argv[2], int(sys.argv[3])
n = 0
while not count or n < count:
    kept.put_all([({"who": who, "n": n, "k": k}, n) for k in range(3)])
    n += 1
    if n == 5:
        print("written", flush=True)
"""


def writer(path: Path, *words: str) -> subprocess.Popen[Any]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), *words], stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once_and_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    with writer(path, "killed", "0") as killed, writer(path, "whole", "60") as whole:
        assert killed.stdout is not None and whole.stdout is not None
        assert killed.stdout.readline() == "written\n"
        assert whole.wait(60) == 0
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(60)
    with Kept(path) as kept:
        assert kept.notes == []
        assert all(kept.get({"who": "whole", "n": n, "k": 2}) == n for n in range(60))
        assert kept.get({"who": "killed", "n": 4, "k": 0}) == 4
        assert len(kept) % 3 == 0  # whole groups only


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, laminar.plan.profile.kept, laminar.plan.profile.busy, laminar.plan.profile.this_machine; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
