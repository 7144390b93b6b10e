"""Rows on disk: found by digest, appended, and whole after a kill or a flipped bit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.train.features_rows import KeptRows
from laminar.train.features_view import GatheredRows, view
from laminar.train.kept import describe_features, read_index

SHAPES = [(3,), (2, 2)]
ABOUT = {"modules": ["features"], "torch": "2.13"}


def rows_of(numbers: Any) -> tuple[Any, list[Any]]:
    numbers = np.asarray(numbers)
    digests = np.zeros((len(numbers), 16), np.uint8)
    digests[:, :8] = numbers.astype("<u8").reshape(-1, 1).view(np.uint8)  # ends in zeros: as hard as digests get
    return digests, [np.repeat(numbers[:, None], 3, 1).astype(np.float32), np.repeat(numbers, 4).reshape(-1, 2, 2).astype(np.float32)]


def opened(folder: Path, clock: Any = None) -> KeptRows:
    return KeptRows(folder, SHAPES, ABOUT, **({"clock": clock} if clock else {}))


def filled(folder: Path, *blocks: Any) -> KeptRows:
    rows = opened(folder)
    for block in blocks:
        rows.append(*rows_of(block))
        rows.commit()
    rows.close()
    return rows


def holds(rows: KeptRows, numbers: Any) -> bool:
    """Every number has its row, with its own content."""
    digests, features = rows_of(numbers)
    at = rows.find(digests)
    return bool((at >= 0).all()) and all(np.array_equal(a[at], f) for a, f in zip(rows.arrays(), features, strict=True))


def test_rows_are_found_again_by_the_digest_of_their_sample(tmp_path: Path) -> None:
    filled(tmp_path, range(10), range(10, 25))
    rows = opened(tmp_path)
    assert rows.rows == 25
    assert holds(rows, [24, 3, 3, 0])
    assert list(rows.find(rows_of([7, 99])[0])) == [7, -1]
    assert list(opened(tmp_path / "new").find(rows_of([7])[0])) == [-1]


@settings(max_examples=15, derandomize=True, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=5), st.lists(st.integers(0, 80), max_size=10))
def test_whatever_was_appended_is_found_and_nothing_else(tmp_path_factory: Any, appends: list[list[int]], asked: list[int]) -> None:
    rows = opened(tmp_path_factory.mktemp("rows"))
    known: set[int] = set()
    for numbers in appends:
        new = [n for n in dict.fromkeys(numbers) if n not in known]
        if new:
            rows.append(*rows_of(new))
            rows.commit()
            known.update(new)
    rows.close()
    again = opened(rows.folder)
    found = again.find(rows_of(np.array(asked, dtype=np.int64))[0])
    assert [at >= 0 for at in found] == [n in known for n in asked]
    assert not known or holds(again, sorted(known))


def test_what_was_not_committed_is_cut_off_by_the_next_append(tmp_path: Path) -> None:
    filled(tmp_path, range(5))
    half = opened(tmp_path)
    half.append(*rows_of(range(100, 200)))
    half.close()
    half.append(*rows_of(range(5, 6)))  # by the same object
    half.commit()
    half.close()
    assert holds(half, range(6))
    with open(tmp_path / "t1.bin", "ab") as file:
        file.write(b"garbage")
    rows = opened(tmp_path)
    assert rows.rows == 6
    rows.append(*rows_of(range(6, 8)))
    rows.commit()
    rows.close()
    assert holds(opened(tmp_path), range(8))
    assert (tmp_path / "t0.bin").stat().st_size == 8 * 12


@pytest.mark.parametrize("name", ["t0.bin", "t1.bin", "samples.bin"])
def test_a_flipped_bit_costs_the_rows_from_its_block_on(tmp_path: Path, name: str) -> None:
    filled(tmp_path, range(10), range(10, 20), range(20, 30))
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data)
    rows = opened(tmp_path)
    assert (rows.rows, rows.dropped) == (10, 20)
    assert holds(rows, range(10))
    rows.append(*rows_of(range(10, 30)))
    rows.commit()
    rows.close()
    assert holds(opened(tmp_path), range(30))


def test_a_reader_is_not_disturbed_by_a_repair(tmp_path: Path) -> None:
    mapped = filled(tmp_path, range(10), range(10, 20)).arrays()
    with open(tmp_path / "t0.bin", "r+b") as file:
        file.seek(150)
        file.write(b"\xff")
    assert opened(tmp_path).rows == 10
    assert np.array_equal(mapped[1][19], np.full((2, 2), 19))


@pytest.mark.parametrize("damage", ["index", "missing"])
def test_a_broken_index_or_a_missing_file_starts_anew(tmp_path: Path, damage: str) -> None:
    filled(tmp_path, range(10))
    if damage == "index":
        data = (tmp_path / "index.json").read_bytes()
        (tmp_path / "index.json").write_bytes(data.replace(b'"rows":10', b'"rows":11'))
    else:
        (tmp_path / "t0.bin").unlink()
    rows = opened(tmp_path)
    assert rows.rows == 0
    rows.append(*rows_of(range(4)))
    rows.commit()
    rows.close()
    assert holds(opened(tmp_path), range(4))


def test_unchanged_files_are_believed_and_moved_ones_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "a", range(10))
    hashed: list[int] = []
    monkeypatch.setattr(
        "laminar.train.features_rows._hash",
        lambda file, size: hashed.append(size) or __import__("hashlib").sha256(file.read(size)).hexdigest(),
    )
    opened(tmp_path / "a")
    assert hashed == []
    os.utime(tmp_path / "a" / "t0.bin", (1, 1))
    opened(tmp_path / "a")
    assert hashed == [120]
    opened(tmp_path / "a")
    assert hashed == [120]


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from pathlib import Path
import laminar.core.atomic as atomic
import laminar.train.features_rows as module
from test_features_rows import SHAPES, ABOUT, opened, rows_of
steps = 0
def step(*_):
    global steps
    steps += 1
    if steps == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
for name in ("fsync", "replace"):
    true = getattr(os, name)
    setattr(os, name, lambda *a, true=true: (step(), true(*a), step())[1])
rows = opened(Path({folder!r}))
rows.append(*rows_of(range(10, 20)))
step()
rows.commit()
rows.append(*rows_of(range(20, 30)))
rows.commit()
print("done")
"""


@pytest.mark.parametrize("at", [1, 2, 5, 8, 9, 10, 11, 14, 18])
def test_killed_at_any_write_the_rows_before_are_whole(tmp_path: Path, at: int) -> None:
    filled(tmp_path, range(10))
    program = textwrap.dedent(KILLED).format(here=str(Path(__file__).parent), at=at, folder=str(tmp_path))
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == -9, child.stdout + child.stderr
    rows = opened(tmp_path)
    assert rows.dropped == 0
    assert rows.rows in (10, 20, 30)
    assert holds(rows, range(rows.rows))
    missing = [n for n in range(30) if n >= rows.rows]
    if missing:
        rows.append(*rows_of(missing))
        rows.commit()
        rows.close()
    assert holds(opened(tmp_path), range(30))


def test_disk_full_is_said_and_what_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, range(10))
    rows = opened(tmp_path)
    rows.append(*rows_of(range(10, 20)))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(LaminarError) as caught:
            rows.commit()
    assert caught.value.code == "L301"
    rows.close()
    assert holds(opened(tmp_path), range(10))


def test_views_are_slices_where_rows_lie_in_order_and_gather_where_not(tmp_path: Path) -> None:
    array = filled(tmp_path, range(20)).arrays()[0]
    straight = view(array, np.arange(5, 12))
    assert isinstance(straight, np.memmap)
    assert np.array_equal(straight[:, 0], np.arange(5, 12))
    at = np.array([4, 4, 0, 19])
    gathered = view(array, at)
    assert isinstance(gathered, GatheredRows)
    assert (len(gathered), gathered.shape, gathered.dtype) == (4, (4, 3), np.float32)
    assert np.array_equal(np.asarray(gathered), array[at])
    assert np.array_equal(gathered[1:3], array[[4, 0]])
    assert np.array_equal(gathered[np.array([3, 0])], array[[19, 4]])
    out = np.empty((2, 3), np.float32)
    np.take(gathered, np.array([3, 1]), axis=0, out=out)
    assert np.array_equal(out, array[[19, 4]])


class At:
    def __init__(self, root: Path) -> None:
        self.root = root


def test_what_is_kept_can_be_listed_last_used_first(tmp_path: Path) -> None:
    clock = FakeClock(1000.0)
    for name, when in (("aa", 10.0), ("bb", 20.0)):
        rows = KeptRows(tmp_path / "features" / name, SHAPES, ABOUT, clock=clock)
        rows.append(*rows_of(range(5)))
        rows.commit()
        rows.close()
        clock.advance(when)
        rows.touch()
    (tmp_path / "features" / "broken").mkdir()
    found = describe_features(At(tmp_path))
    assert [(k.fkey, k.rows, k.bytes, k.used) for k in found] == [("bb", 5, 5 * 44, 1030.0), ("aa", 5, 5 * 44, 1010.0)]
    assert found[0].to_json()["modules"] == ["features"]
    assert describe_features(At(tmp_path / "nowhere")) == []


def test_the_index_says_what_verify_needs(tmp_path: Path) -> None:
    import hashlib

    filled(tmp_path, range(10), range(10, 20))
    index = read_index(tmp_path)
    assert index is not None
    assert (index["rows"], index["shapes"], index["dtypes"]) == (20, [[3], [2, 2]], ["F32", "F32"])
    for block in index["blocks"]:
        data = (tmp_path / block["file"]).read_bytes()[block["offset"] : block["offset"] + block["size"]]
        assert hashlib.sha256(data).hexdigest() == block["sha256"]
    assert sum(b["size"] for b in index["blocks"]) == 20 * 44


def test_listing_needs_no_torch() -> None:
    program = (
        "import sys, laminar.train.kept, laminar.train.features_rows, laminar.train.features_decide; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_rows_that_another_store_lends_are_read_where_they_are_and_copied_before_they_grow(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    filled(theirs, range(10))
    ours.mkdir()
    (ours / "index.json").write_bytes((theirs / "index.json").read_bytes())
    files = sorted(theirs.glob("*.bin"))
    for file in files:
        (ours / file.name).symlink_to(file)
    before = {file.name: file.read_bytes() for file in files}
    rows = opened(ours)
    assert holds(rows, range(10))
    assert all((ours / file.name).is_symlink() for file in files)
    assert (ours / "index.json").read_bytes() == (theirs / "index.json").read_bytes(), "known to be whole, so not hashed again"
    rows.append(*rows_of(range(10, 13)))
    rows.commit()
    rows.close()
    assert holds(opened(ours), range(13))
    assert not any((ours / file.name).is_symlink() for file in files)
    assert {file.name: file.read_bytes() for file in files} == before
    assert holds(opened(theirs), range(10))
