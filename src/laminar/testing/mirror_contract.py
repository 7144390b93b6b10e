"""The contract of a mirror: what any place that files are fetched from must do. Inherit it, say where it is, run pytest.

class TestMine(MirrorContract):
    @pytest.fixture
    def url(self, shown): ...     # the URL of a mirror that serves the folder `shown` (a copy of it, if you like)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from laminar.core.digest import of_bytes
from laminar.core.errors import LaminarError
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.fetch import fetch, fetch_index
from laminar.data.mirrors.readers.places import beneath, must_be_mirror, reader_of
from laminar.data.mirrors.readers.protocol import Ask, Reader, Timeouts
from laminar.data.mirrors.wanted import CHUNK, Wanted

BIG = 3 * CHUNK + 4321
NAMES = {
    "big.bin": BIG,
    "a/small.png": 1000,
    "a/one byte": 1,
    "b c/ümlaut & 100%.png": 70_000,
    "b c/what#is?this.png": 500,
    "exact.bin": CHUNK,
}


def content(name: str) -> bytes:
    return np.random.default_rng(len(name)).bytes(NAMES[name])


def wanted(path: str, data: bytes) -> Wanted:
    """What an index would say of a file."""
    parts = (of_bytes(data[i : i + CHUNK]) for i in range(0, len(data), CHUNK))
    return Wanted(path, of_bytes(data), len(data), tuple(parts) if len(data) > CHUNK else ())


def fill(folder: Path) -> Path:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content(name))
    (folder / "index.json").write_bytes(b'{"format": 1}')
    return folder


class MirrorContract:
    @pytest.fixture
    def shown(self, tmp_path: Path) -> Path:
        """A folder with files in it."""
        return fill(tmp_path / "shown")

    @pytest.fixture
    def reader(self, url: str) -> Iterator[Reader]:
        must_be_mirror(url)
        reader = reader_of(url, Timeouts())
        yield reader
        reader.close()

    def read(self, reader: Reader, name: str, start: int = 0, end: int | None = None) -> bytes:
        size = NAMES[name]
        return b"".join(reader.stream(Ask(name, start, size if end is None else end, size, skip=lambda _: None)))

    @pytest.mark.parametrize("name", NAMES)
    def test_a_file(self, reader: Reader, name: str) -> None:
        assert self.read(reader, name) == content(name)

    def test_one_after_the_other(self, reader: Reader) -> None:
        for name in [*NAMES, *NAMES]:
            assert self.read(reader, name) == content(name)

    def test_from_the_middle(self, reader: Reader) -> None:
        data = content("big.bin")
        for start, end in [(CHUNK, 2 * CHUNK), (2 * CHUNK, BIG), (7, 8), (BIG - 1, BIG), (0, 100), (100, CHUNK), (0, BIG)]:
            assert self.read(reader, "big.bin", start, end) == data[start:end]

    def test_a_file_of_unknown_size(self, reader: Reader) -> None:
        assert b"".join(reader.stream(Ask("index.json"))) == b'{"format": 1}'
        assert b"".join(reader.stream(Ask("big.bin"))) == content("big.bin")

    def test_what_is_left_in_the_middle_does_not_matter(self, reader: Reader) -> None:
        with contextlib.closing(reader.stream(Ask("big.bin", 0, BIG, BIG))) as stream:
            first = next(stream)
        assert content("big.bin").startswith(first)
        assert self.read(reader, "a/small.png") == content("a/small.png")
        assert self.read(reader, "big.bin") == content("big.bin")

    def test_a_file_that_is_not_there(self, reader: Reader) -> None:
        for _ in range(2):
            with pytest.raises(Fault) as caught:
                list(reader.stream(Ask("a/none.png", 0, 10, 10)))
            assert caught.value.kind is Kind.MISSING
        assert self.read(reader, "a/small.png") == content("a/small.png")

    def test_a_file_that_is_shorter_than_it_should_be(self, reader: Reader) -> None:
        with pytest.raises(Fault) as caught:
            list(reader.stream(Ask("a/small.png", 0, 1001, 1001)))
        assert caught.value.kind is Kind.SHORT
        assert self.read(reader, "a/small.png") == content("a/small.png")

    def test_it_may_be_closed_twice_and_asked_again(self, reader: Reader) -> None:
        assert self.read(reader, "a/small.png") == content("a/small.png")
        reader.close()
        reader.close()
        assert self.read(reader, "a/small.png") == content("a/small.png")

    def test_an_abort_does_no_harm(self, reader: Reader) -> None:
        reader.abort()
        self.read(reader, "a/one byte")
        stream = reader.stream(Ask("big.bin", 0, BIG, BIG))
        next(stream)
        reader.abort()
        with contextlib.suppress(Fault):  # what had arrived may be read
            list(stream)
        assert self.read(reader, "big.bin") == content("big.bin")

    def test_everything_into_a_cache(self, url: str, tmp_path: Path) -> None:
        files = [wanted(name, content(name)) for name in NAMES]
        cache = FileCache(tmp_path / "cache", 1 << 30)
        done = fetch(files, [url], cache)
        assert (done.files, done.bytes) == (len(NAMES), sum(NAMES.values()))
        assert done.mirrors[0].bytes >= done.bytes
        for file in files:
            path = cache.path(file.sha256)
            assert path is not None and path.read_bytes() == content(file.path)
        assert fetch(files, [url], cache).files == 0

    def test_the_index(self, url: str) -> None:
        data = b'{"format": 1}'
        assert fetch_index([beneath(url, "index.json")], sha256=of_bytes(data)) == data
        with pytest.raises(LaminarError, match="another file") as caught:
            fetch_index([beneath(url, "index.json")], sha256="0" * 64)
        assert caught.value.code == "L112"
        with pytest.raises(LaminarError, match="larger than 5 bytes"):
            fetch_index([beneath(url, "index.json")], sha256=None, limit=5)
