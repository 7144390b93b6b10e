"""The cache of fetched files: what is kept, what goes, what a power cut may have spoilt; and half a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.data.mirrors import cache_leases
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import fetch
from laminar.data.mirrors.parts import Part
from laminar.data.mirrors.readers.places import beneath, parted
from laminar.data.mirrors.wanted import CHUNK, Wanted
from laminar.testing.mirror_contract import wanted


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(cache: FileCache, number: int, *, used: int, size: int = 100) -> str:
    """A file that was last used `used` seconds after 1970."""
    data = bytes([number]) * size
    cache.keep(sha(data), data)
    os.utime(cache.place(sha(data)), (used, used))
    return sha(data)


def test_files_are_found_by_their_digest(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 1000)
    assert cache.path("ab" * 32) is None
    name = put(cache, 1, used=5)
    path = cache.path(name)
    assert path == tmp_path / "c" / name[:2] / name
    assert path is not None and path.read_bytes() == b"\1" * 100
    assert path.stat().st_mtime > 1e9, "it counts as used now"
    assert list(cache.parts.iterdir()) == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 350)
    names = [put(cache, i, used=100 - i) for i in range(5)]
    assert cache.evict() == 200
    assert [cache.place(n).exists() for n in names] == [True, True, True, False, False]
    assert cache.evict() == 0
    cache.path(names[2])
    assert cache.evict(200) == 200
    assert [cache.place(n).exists() for n in names[:3]] == [False, False, True]


def test_what_a_living_fetch_used_stays_whatever_the_budget(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 150)
    old, mine = put(cache, 1, used=1), put(cache, 2, used=2)
    with cache.using():
        assert cache.path(mine) is not None
        new = put(cache, 3, used=3)
        cache.path(new)
        assert cache.evict() == 100
        assert not cache.place(old).exists()
        assert cache.place(mine).exists()
        assert cache.place(new).exists()
        other = FileCache(tmp_path / "c", 0)
        assert other.evict() == 0
    assert FileCache(tmp_path / "c", 0).evict() == 200


HOLD = """
import os, sys
from pathlib import Path
from laminar.data.mirrors.cache import FileCache
cache = FileCache(Path(sys.argv[1]), 0)
with cache.using():
    assert cache.path(sys.argv[2]) is not None
    print("held", flush=True)
    sys.stdin.read()
    os._exit(9)  # as if killed: nothing is cleaned up
"""


def test_the_lease_of_a_process_ends_with_it(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 0)
    name = put(cache, 1, used=1)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(cache.folder), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert cache.evict() == 0
        process.stdin.close()
        assert process.wait(60) == 9
    assert cache.evict() == 100


def test_after_a_power_cut_what_is_spoilt_is_found_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was renamed may come back empty when the machine went down before it was written to the disk."""
    cache = FileCache(tmp_path / "c", 1000)
    with cache.using() as lease:
        lease.wrote = True
        good, spoilt = put(cache, 1, used=1), put(cache, 2, used=1)
        cache.path(good), cache.path(spoilt)
    cache.place(spoilt).write_bytes(b"")
    assert FileCache(tmp_path / "c", 1000).path(spoilt) is not None, "the same boot: nothing to fear"
    monkeypatch.setattr(cache_leases, "boot", lambda: "another")
    again = FileCache(tmp_path / "c", 1000)
    assert again.path(good) is not None
    assert again.path(spoilt) is None
    assert not list((tmp_path / "c" / "locks").glob("*.note"))


def test_uses_that_follow_each_other_leave_one_note_which_is_removed_when_all_has_settled(tmp_path: Path) -> None:
    notes = (tmp_path / "c" / "locks").glob
    for _ in range(3):
        with FileCache(tmp_path / "c", 1000).using() as lease:
            lease.wrote = True
    (note,) = notes("*.note")
    assert "power" in note.read_text()
    assert not list(notes("*.lease"))
    with FileCache(tmp_path / "c", 1000).using():
        pass
    assert note.exists()
    hours_ago = note.stat().st_mtime_ns - 2 * cache_leases.SETTLED
    os.utime(note, ns=(hours_ago, hours_ago))
    with FileCache(tmp_path / "c", 1000).using():
        pass
    assert not list(notes("*.note"))


def test_a_cache_of_somebody_else_can_be_read(tmp_path: Path) -> None:
    data = b"x" * 10
    theirs = FileCache(tmp_path / "c", 1000)
    theirs.keep(sha(data), data)
    subprocess.run(["chmod", "-R", "a-w", str(tmp_path / "c")], check=True)
    try:
        assert fetch([wanted("x", data)], [], FileCache(tmp_path / "c", 0)).files == 0
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(tmp_path / "c")], check=True)


# Half a file

DATA = np.random.default_rng(0).bytes(3 * CHUNK + 5)
FILE = wanted("big", DATA)


def unit(i: int) -> bytes:
    return DATA[i * CHUNK : (i + 1) * CHUNK]


def test_half_a_file_is_gone_on_with(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 1 << 30)
    part = Part(FILE, cache)
    assert part.had() == set()
    part.keep(1, unit(1))
    part.keep(3, unit(3))
    part.close()
    again = Part(FILE, cache)
    assert again.had() == {1, 3}
    for i in (0, 2):
        again.keep(i, unit(i))
    assert again.finish()
    path = cache.path(FILE.sha256)
    assert path is not None and path.read_bytes() == DATA
    assert list(cache.parts.iterdir()) == []
    again.keep(0, unit(0))  # a connection that was slow: no harm
    assert list(cache.parts.iterdir()) == []


def test_a_unit_that_is_not_what_the_record_says_is_fetched_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 1 << 30)
    part = Part(FILE, cache)
    part.keep(0, unit(0))
    part.keep(1, unit(1))
    part.close()
    [file] = cache.parts.glob("*.part")
    with open(file, "r+b") as spoilt:
        spoilt.seek(CHUNK + 7)
        spoilt.write(b"?")
    assert Part(FILE, cache).had() == {0}
    [record] = cache.parts.glob("*.have")
    assert record.read_bytes() == b"\1\0"


def test_two_fill_the_same_part(tmp_path: Path) -> None:
    one, two = (Part(FILE, FileCache(tmp_path / "c", 1 << 30)) for _ in range(2))
    one.keep(0, unit(0))
    assert two.has(0)
    assert not two.has(1)
    for i in (1, 2, 3):
        two.keep(i, unit(i))
    assert one.has(3)
    assert one.finish()
    assert two.finish()
    path = FileCache(tmp_path / "c", 1).path(FILE.sha256)
    assert path is not None and path.read_bytes() == DATA


def test_another_is_quicker_while_one_looks_at_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (Part(FILE, FileCache(tmp_path / "c", 1 << 30)) for _ in range(2))
    for i in range(FILE.units):
        one.keep(i, unit(i))
    sync = os.fsync

    def overtaken(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        assert two.finish()

    monkeypatch.setattr(os, "fsync", overtaken)
    assert one.finish()
    assert FileCache(tmp_path / "c", 1 << 30).path(FILE.sha256) is not None
    assert list((tmp_path / "c/parts").iterdir()) == []


def test_the_part_of_another_index_is_another_part(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 1 << 30)
    Part(FILE, cache).keep(0, unit(0))
    assert Part(Wanted(FILE.path, FILE.sha256, FILE.size, FILE.chunks[::-1]), cache).had() == set()


def test_parts_are_evicted_by_what_they_take_on_the_disk(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 100)
    part = Part(FILE, cache)
    part.keep(1, unit(1))
    part.close()
    [file] = cache.parts.glob("*.part")
    os.utime(file, (1, 1))
    assert CHUNK <= cache.evict() < 2 * CHUNK
    assert list(cache.parts.iterdir()) == []


@pytest.mark.parametrize("number", ["disk", "parts"])
def test_a_full_disk(tmp_path: Path, number: str) -> None:
    disk, shown = tmp_path / "disk", tmp_path / "shown"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("may not mount a file system here")
    try:
        shown.mkdir()
        data = [DATA] if number == "parts" else [bytes([i]) * 900_000 for i in range(4)]
        for i, content in enumerate(data):
            (shown / str(i)).write_bytes(content)
        files = [wanted(str(i), content) for i, content in enumerate(data)]
        with pytest.raises(LaminarError, match="no space left") as caught:
            fetch(files, [str(shown)], FileCache(disk / "c", 1 << 30))
        assert caught.value.code == "L301"
        assert "LAMINAR_CACHE" in caught.value.hint
        for path in (disk / "c").glob("??/*"):
            assert sha(path.read_bytes()) == path.name
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# Names


@pytest.mark.parametrize(
    ("sha256", "size", "chunks"),
    [("../../x", 1, ()), ("AB" * 32, 1, ()), ("ab" * 32, -1, ()), ("ab" * 32, 2 * CHUNK, ("ab" * 32,)), ("ab" * 32, 9, ("x",))],
)
def test_what_is_no_file(sha256: str, size: int, chunks: tuple[str, ...]) -> None:
    with pytest.raises(LaminarError) as caught:
        Wanted("a", sha256, size, chunks)
    assert caught.value.code == "L111"


def test_empty_files(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", 10)
    fetch([Wanted("nothing", sha(b""), 0)], [], cache)
    path = cache.path(sha(b""))
    assert path is not None and path.read_bytes() == b""
    with pytest.raises(LaminarError, match="no empty file"):
        fetch([Wanted("nothing", "0" * 64, 0)], [], cache)


@pytest.mark.parametrize(
    ("mirror", "url", "back"),
    [
        ("http://a/b", "http://a/b/index.json", "http://a/b"),
        ("http://a/b/?sig=1", "http://a/b/index.json?sig=1", "http://a/b?sig=1"),
        ("s3://b/x?endpoint=http://h:1", "s3://b/x/index.json?endpoint=http://h:1", "s3://b/x?endpoint=http://h:1"),
        ("/data/x", "/data/x/index.json", "/data/x"),
        ("x", "x/index.json", "x"),
    ],
)
def test_urls_of_files(mirror: str, url: str, back: str) -> None:
    assert beneath(mirror, "index.json") == url
    assert parted(url) == (back, "index.json")
    assert parted("index.json") == (".", "index.json")
