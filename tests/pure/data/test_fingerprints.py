"""Fingerprints: content and order, wherever it lies; remembered, and never wrongly."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from data_makers import digits_like, idx_bytes, write_idx_folder, write_images
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.data import trees
from laminar.data.fingerprint import fingerprint
from laminar.data.formats import idx as idx_format
from laminar.data.room import Room
from laminar.data.spec import AugmentSpec, DataSpec, SplitSpec

IDX = DataSpec(source="idx:mine")
PETS = DataSpec(source="folder:pets")
LATER = FakeClock(4e9)  # for which every file has been at rest for long


def content(spec: DataSpec, root: Path, cache: Path, clock: FakeClock = LATER) -> str:
    return str(fingerprint(spec, root, cache, clock=clock)["content"])


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which data files were really read."""
    seen: list[Path] = []
    read_idx, of_file = idx_format.read_idx, trees.digest.of_file

    def reading(path: Path, room: Room) -> tuple[np.ndarray, str]:
        seen.append(path)
        return read_idx(path, room)

    def hashing(path: Path) -> str:
        seen.append(path)
        return of_file(path)

    monkeypatch.setattr(idx_format, "read_idx", reading)
    monkeypatch.setattr(trees.digest, "of_file", hashing)
    return seen


def test_zipped_and_plain_idx_are_the_same(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "a" / "mine", zipped=True)
    write_idx_folder(tmp_path / "b" / "mine", zipped=False)
    one, two = (fingerprint(IDX, tmp_path / n, tmp_path / "cache") for n in "ab")
    assert one == two
    path = tmp_path / "a" / "mine" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert fingerprint(IDX, tmp_path / "a", tmp_path / "cache") == one


def test_compressed_and_stored_npz_are_the_same(tmp_path: Path) -> None:
    x, y = digits_like()
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.savez_compressed(tmp_path / "b.npz", y=y.astype(np.int32), x=x)
    np.savez(tmp_path / "c.npz", x=x, y=y[::-1])
    a, b, c = (content(DataSpec(source=f"npz:{n}.npz"), tmp_path, tmp_path / "cache") for n in "abc")
    assert a == b
    assert a != c


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.integers(0, 3), st.data())
def test_any_flipped_byte_of_any_file_is_seen(which: int, data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_idx_folder(root / "mine", zipped=False, count=8)
        before = content(IDX, root, root / "cache")
        path = sorted((root / "mine").iterdir())[which]
        raw = bytearray(path.read_bytes())
        header = 16 if "images" in path.name else 8
        raw[data.draw(st.integers(header, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 2))
        path.write_bytes(raw)
        assert content(IDX, root, root / "cache") != before


def test_a_folder_is_the_same_elsewhere_and_sees_every_change(tmp_path: Path) -> None:
    write_images(tmp_path / "a" / "pets")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    cache = tmp_path / "cache"
    before = content(PETS, tmp_path / "a", cache)
    assert content(PETS, tmp_path / "b", tmp_path / "other") == before
    pets = tmp_path / "b" / "pets"
    (pets / ".DS_Store").write_bytes(b"x")
    (pets / "cat" / "notes.txt").write_bytes(b"x")
    assert content(PETS, tmp_path / "b", cache) == before
    found = {before}
    raw = bytearray((pets / "eel" / "4.png").read_bytes())
    raw[-1] ^= 1
    for change in (
        lambda: (pets / "eel" / "4.png").write_bytes(raw),
        lambda: (pets / "eel" / "4.png").unlink(),
        lambda: shutil.copy(pets / "cat" / "0.png", pets / "cat" / "9.png"),
        lambda: (pets / "cat" / "9.png").rename(pets / "dog" / "9.png"),
        lambda: (pets / "dog").rename(pets / "fox"),
    ):
        change()
        found.add(content(PETS, tmp_path / "b", cache))
    assert len(found) == 6


def test_how_a_folder_is_read_counts(tmp_path: Path) -> None:
    write_images(tmp_path / "pets")
    specs = [PETS, DataSpec(source="folder:pets", size=4), DataSpec(source="folder:pets", grey=True)]
    assert len({msgspec.json.encode(fingerprint(s, tmp_path, tmp_path / "c")) for s in specs}) == 3


def test_what_is_known_is_not_read_again(tmp_path: Path, reads: list[Path]) -> None:
    write_idx_folder(tmp_path / "mine")
    write_images(tmp_path / "pets")
    first = [content(s, tmp_path, tmp_path / "cache") for s in (IDX, PETS)]
    assert len(reads) == 4 + 15
    reads.clear()
    assert [content(s, tmp_path, tmp_path / "cache") for s in (IDX, PETS)] == first
    assert reads == []


def test_only_new_files_of_a_folder_are_read(tmp_path: Path, reads: list[Path]) -> None:
    write_images(tmp_path / "pets")
    content(PETS, tmp_path, tmp_path / "cache")
    reads.clear()
    new = tmp_path / "pets" / "dog" / "new.png"
    shutil.copy(tmp_path / "pets" / "cat" / "0.png", new)
    content(PETS, tmp_path, tmp_path / "cache")
    assert reads == [new]


def test_a_rewrite_that_keeps_size_and_mtime_is_seen(tmp_path: Path) -> None:
    """Size alone is never a hit, nor is mtime: the change time and the inode cannot be set back."""
    write_idx_folder(tmp_path / "mine", zipped=False)
    write_images(tmp_path / "pets")
    for spec, path in ((IDX, tmp_path / "mine" / "train-images-idx3-ubyte"), (PETS, tmp_path / "pets" / "dog" / "1.png")):
        before = content(spec, tmp_path, tmp_path / "cache")
        stat = path.stat()
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert path.stat().st_mtime_ns == stat.st_mtime_ns
        assert path.stat().st_size == stat.st_size
        assert content(spec, tmp_path, tmp_path / "cache") != before
        # The same through a renamed copy.
        before = content(spec, tmp_path, tmp_path / "cache")
        raw[-1] ^= 2
        path.with_suffix(".tmp").write_bytes(raw)
        os.utime(path.with_suffix(".tmp"), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        os.replace(path.with_suffix(".tmp"), path)
        assert content(spec, tmp_path, tmp_path / "cache") != before


def test_young_files_are_read_again(tmp_path: Path, reads: list[Path]) -> None:
    """Racy-clean: a file that was written within a clock tick of being read may change without looking different."""
    write_idx_folder(tmp_path / "mine")
    write_images(tmp_path / "pets")
    newest = max(p.stat().st_ctime for p in tmp_path.rglob("*"))
    for age, again in ((0.0, 19), (1.9, 19), (60.0, 19), (61.0, 0)):  # at 60 s: not remembered from before
        clock = FakeClock(newest + age)
        reads.clear()
        for spec in (IDX, PETS):
            content(spec, tmp_path, tmp_path / "cache", clock)
        assert len(reads) == again, age
    for path in (tmp_path / "mine").iterdir():
        os.utime(path, (5e9, 5e9))  # a clock that runs ahead: never believed
    for _ in range(2):
        reads.clear()
        content(IDX, tmp_path, tmp_path / "cache", FakeClock(newest + 99))
        assert len(reads) == 4


@pytest.mark.parametrize("spoil", [b"", b"{}", b"\xff\xfe", b'{"check":"x","value":{}}', None])
def test_a_damaged_memory_is_no_memory(spoil: bytes | None, tmp_path: Path, reads: list[Path]) -> None:
    write_idx_folder(tmp_path / "mine")
    write_images(tmp_path / "pets")
    first = [content(s, tmp_path, tmp_path / "cache") for s in (IDX, PETS)]
    for path in (tmp_path / "cache").iterdir():
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw if spoil is None else spoil)
    reads.clear()
    assert [content(s, tmp_path, tmp_path / "cache") for s in (IDX, PETS)] == first
    assert len(reads) == 19
    reads.clear()
    assert [content(s, tmp_path, tmp_path / "cache") for s in (IDX, PETS)] == first
    assert reads == []


def test_a_memory_that_cannot_be_written_is_only_slow(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "mine")
    (tmp_path / "cache").write_text("a file stands in the way")
    assert content(IDX, tmp_path, tmp_path / "cache") == content(IDX, tmp_path, tmp_path / "other")


def test_a_file_that_never_rests_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx_folder(tmp_path / "mine")
    read = idx_format.read_idx

    def meddling(path: Path, room: Room) -> tuple[np.ndarray, str]:
        found = read(path, room)
        os.utime(path)
        return found

    monkeypatch.setattr(idx_format, "read_idx", meddling)
    with pytest.raises(LaminarError, match="being written"):
        content(IDX, tmp_path, tmp_path / "cache")


def test_equal_specs_have_equal_fingerprints_and_others_do_not(tmp_path: Path) -> None:
    def of(**fields: object) -> bytes:
        return msgspec.json.encode(fingerprint(DataSpec(source="digits", **fields), tmp_path, tmp_path), order="deterministic")  # type: ignore[arg-type]

    plain = of()
    assert of(classes=list(range(10))) == plain
    assert of(split=SplitSpec()) == of(split=SplitSpec(test=0.2, seed=0)) == plain
    assert of(augment=AugmentSpec()) == plain
    others = [
        of(classes=[1, 0]),
        of(classes=[0, 1]),
        of(split=SplitSpec(test=0.3)),
        of(split=SplitSpec(seed=1)),
        of(limit=100),
        of(augment=AugmentSpec(shift=1)),
        of(augment=AugmentSpec(noise=1)),
    ]
    assert len({plain, *others}) == 8
    assert of(augment=AugmentSpec(noise=1)) == of(augment=AugmentSpec(noise=1.0))


def test_a_split_that_is_not_used_does_not_count(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "mine")
    split = SplitSpec(test=0.5, seed=4)
    with_split = DataSpec(source="idx:mine", split=split)
    assert fingerprint(IDX, tmp_path, tmp_path / "c") == fingerprint(with_split, tmp_path, tmp_path / "c")
    limited = [DataSpec(source="idx:mine", limit=8), DataSpec(source="idx:mine", limit=8, split=split)]
    assert fingerprint(limited[0], tmp_path, tmp_path / "c") != fingerprint(limited[1], tmp_path, tmp_path / "c")


def test_known_fingerprints_stay_as_they_are(tmp_path: Path) -> None:
    """Golden: a change here rebuilds every layer of every user, so it must be meant (and raise FORMAT, READER or DRAWING)."""
    (tmp_path / "mine").mkdir()
    for name, array in (
        ("train-images-idx3-ubyte", np.arange(32, dtype=np.uint8).reshape(2, 4, 4)),
        ("train-labels-idx1-ubyte", np.arange(2, dtype=np.uint8)),
    ):
        (tmp_path / "mine" / name).write_bytes(idx_bytes(array))
    np.savez(tmp_path / "d.npz", x=np.arange(6, dtype=np.float32).reshape(2, 3), y=np.arange(2))
    for name in ("a", "b"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "1.png").write_bytes(name.encode())
    sources = ["digits", "glyphs", "idx:mine", "npz:d.npz", "folder:pets"]
    assert {s: content(DataSpec(source=s), tmp_path, tmp_path / "c")[:16] for s in sources} == GOLDEN


GOLDEN = {
    "digits": "6dcef4e25a80f37a",
    "folder:pets": "567c4c4ab0d130a1",
    "glyphs": "85632e8aa9e44419",
    "idx:mine": "33c38a926fc0b819",
    "npz:d.npz": "89c8359e2fc7dafd",
}
