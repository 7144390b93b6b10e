"""Fetching from real servers that die, stall, trickle, lie, truncate, fail, ignore ranges or refuse: over http and over ftp."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from mirror_servers import Mischief, naughty_ftp, naughty_http, nobody

from laminar.core.errors import LaminarError
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import Fetched, fetch, fetch_index
from laminar.data.mirrors.health import Patience
from laminar.data.mirrors.wanted import CHUNK, Wanted
from laminar.testing.mirror_contract import wanted
from tests.multi.store.servers_for_remotes import deaf_server

Server = Callable[[Mischief], AbstractContextManager[str]]
SERVERS = {"http": naughty_http, "ftp": naughty_ftp}
QUICK = Patience(stall=0.6, glance=0.1, first_rest=0.05, setup=0.01)
MEGABYTE = 1_000_000


def bytes_of(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


FILES = {"large.bin": bytes_of(0, 5 * CHUNK + 99), **{f"s/{i}.png": bytes_of(i + 1, 20_000) for i in range(20)}}
WANTED = [wanted(path, data) for path, data in FILES.items()]


@pytest.fixture(params=SERVERS)
def naughty(request: pytest.FixtureRequest) -> Server:
    return SERVERS[request.param]


@pytest.fixture
def honest() -> Iterator[str]:
    with naughty_http(Mischief(FILES)) as url:
        yield url


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache", 1 << 30)


def check(cache: FileCache, files: dict[str, bytes] = FILES) -> None:
    """Everything is there and right, and nothing else is."""
    found = {path.name: path.read_bytes() for path in cache.folder.glob("??/*")}
    assert found == {wanted(p, d).sha256: d for p, d in files.items()}
    assert list(cache.parts.glob("*")) == []


MISCHIEF: dict[str, Callable[[], Mischief]] = {
    "dies": lambda: Mischief(FILES, dies_after=MEGABYTE),
    "dies at once": lambda: Mischief(FILES, dies_after=0),
    "stalls": lambda: Mischief(FILES, stalls_after=300_000),
    "stalls at once": lambda: Mischief(FILES, stalls_after=0),
    "breaks off": lambda: Mischief(FILES, breaks_after=50_000),
    "trickles": lambda: Mischief(FILES, trickles=True),
    "lies": lambda: Mischief(FILES, lies=True),
    "truncates": lambda: Mischief(FILES, cut=12_345),
    "has nothing": lambda: Mischief({}),
    "fails": lambda: Mischief(FILES, status={"*": 500}),
    "is busy": lambda: Mischief(FILES, status={"*": 503}),
    "forbids": lambda: Mischief(FILES, status={"*": 403}),
    "ignores ranges": lambda: Mischief(FILES, ranges=False),
}


@pytest.mark.parametrize("what", MISCHIEF)
def test_beside_an_honest_mirror(what: str, naughty: Server, honest: str, cache: FileCache) -> None:
    for order in (0, 1):
        with naughty(MISCHIEF[what]()) as bad:
            mirrors = [bad, honest] if order == 0 else [honest, bad]
            one = FileCache(cache.folder / str(order), 1 << 30)
            begin = time.monotonic()
            fetch(WANTED, mirrors, one, patience=QUICK)
            assert time.monotonic() - begin < 20
        check(one)


@pytest.mark.parametrize("what", ["breaks off", "ignores ranges"])
def test_alone(what: str, naughty: Server, cache: FileCache) -> None:
    """What arrives in pieces, or only from the beginning, arrives all the same."""
    with naughty(MISCHIEF[what]()) as url:
        fetch(WANTED, [url], cache, patience=QUICK)
    check(cache)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("dies at once", "refused|broke|reset|Remote|EOF|dead"),
        ("stalls at once", "no byte|no connection|no answer"),
        ("lies", "wrong data"),
        ("truncates", "bytes, not|ends after|416|554"),
        ("has nothing", "404|550"),
        ("fails", "500|550"),
        ("forbids", "403|550"),
    ],
)
def test_when_nobody_gives_it_that_is_said(what: str, says: str, naughty: Server, cache: FileCache) -> None:
    with naughty(MISCHIEF[what]()) as bad, nobody() as none, pytest.raises(LaminarError, match=says) as caught:
        fetch(WANTED[:3], [bad, none], cache, patience=QUICK)
    assert caught.value.code == "L112"
    assert "large.bin and 2 more of 3 files" in caught.value.message
    assert f"{none}: Connection refused" in caught.value.message
    assert "secret" not in caught.value.message
    assert list(cache.folder.glob("??/*")) == []


def test_nobody_there_is_said_soon(cache: FileCache) -> None:
    begin = time.monotonic()
    with nobody() as one, nobody() as other, pytest.raises(LaminarError) as caught:
        fetch(WANTED, [one, other.replace("http", "ftp")], cache)
    assert caught.value.code == "L112"
    assert time.monotonic() - begin < 5


def test_a_server_that_never_answers(honest: str, cache: FileCache) -> None:
    with deaf_server() as port:
        done = fetch(WANTED, [f"http://127.0.0.1:{port}", f"ftp://127.0.0.1:{port}", honest], cache, patience=QUICK)
    check(cache)
    assert done.mirrors[2].bytes >= sum(map(len, FILES.values()))


@pytest.mark.parametrize("url", ["http://nowhere.invalid/x", "ftp://nowhere.invalid/x", "/no/such/folder"])
def test_a_place_that_does_not_exist(url: str, cache: FileCache) -> None:
    with pytest.raises(LaminarError) as caught:
        fetch(WANTED[:2], [url], cache, patience=QUICK)
    assert caught.value.code == "L112"


def test_a_wrong_password(cache: FileCache) -> None:
    with naughty_ftp(Mischief(FILES)) as url, pytest.raises(LaminarError, match="530") as caught:
        fetch(WANTED[:2], [url.replace("secret", "sekret")], cache, patience=QUICK)
    assert "sekret" not in str(caught.value)


def test_no_mirrors(cache: FileCache) -> None:
    with pytest.raises(LaminarError, match="There is no mirror"):
        fetch(WANTED[:1], [], cache)


def test_a_file_is_resumed_on_another_mirror_from_the_byte_where_it_stood(naughty: Server, cache: FileCache) -> None:
    data = {"only.bin": bytes_of(7, 900_000)}
    first = Mischief(data, dies_after=400_000)
    with naughty(first) as bad:
        second = Mischief(data)
        with naughty_http(second) as good:
            done = fetch([wanted(p, d) for p, d in data.items()], [bad, good], cache, patience=QUICK)
    check(cache, data)
    assert [path for path, _ in second.asked] == ["only.bin"]
    assert second.asked[0][1] > 200_000
    assert sum(m.bytes for m in done.mirrors) == 900_000


def test_half_on_one_and_half_on_the_other(cache: FileCache) -> None:
    """A file that is missing says nothing about the rest of the mirror."""
    names = sorted(FILES)
    a, b = ({name: FILES[name] for name in names[i::2]} for i in (0, 1))
    with naughty_http(Mischief(a)) as one, naughty_ftp(Mischief(b)) as two:
        done = fetch(WANTED, [one, two], cache, patience=QUICK)
    check(cache)
    assert done.mirrors[0].bytes == sum(map(len, a.values()))
    assert set(done.mirrors[0].failures) <= {"missing"}


def test_small_files_share_connections(naughty: Server, cache: FileCache) -> None:
    files = {f"{i}.png": bytes_of(i, 3000) for i in range(300)}
    mischief = Mischief(files)
    with naughty(mischief) as url:
        fetch([wanted(p, d) for p, d in files.items()], [url], cache)
    check(cache, files)
    assert mischief.connections <= 3
    assert len(mischief.asked) == 300


def test_a_large_file_without_chunk_digests(honest: str, naughty: Server, cache: FileCache) -> None:
    data = FILES["large.bin"]
    plain = Wanted("large.bin", wanted("large.bin", data).sha256, len(data))
    with naughty(Mischief(FILES, lies=True)) as liar, naughty(Mischief(FILES, dies_after=2 * MEGABYTE)) as dying:
        fetch([plain], [liar, dying, honest], cache, patience=QUICK)
    check(cache, {"large.bin": data})


def test_an_index_that_contradicts_itself(honest: str, cache: FileCache) -> None:
    right = WANTED[0]
    wrong = Wanted(right.path, "0" * 64, right.size, right.chunks)
    with pytest.raises(LaminarError, match="contradict"):
        fetch([wrong], [honest], cache)
    assert list(cache.folder.glob("??/*")) == []
    assert list(cache.parts.glob("*")) == []


def test_redirects_are_followed(cache: FileCache, honest: str) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", honest + self.path)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            fetch(WANTED, [f"http://127.0.0.1:{server.server_port}"], cache)
        finally:
            server.shutdown()
            thread.join()
    check(cache)


def test_the_index_comes_from_the_first_that_gives_the_right_one() -> None:
    data = b'{"format": 1, "files": []}'
    with nobody() as none, naughty_http(Mischief({"x/index.json": b"{}"})) as wrong, naughty_ftp(Mischief({"x/index.json": data})) as right:
        urls = [f"{url.rstrip('/')}/x/index.json" for url in (none, wrong, right)]
        assert fetch_index(urls, sha256=None) == b"{}"
        assert fetch_index(urls, sha256=wanted("x", data).sha256, patience=QUICK) == data
        with pytest.raises(LaminarError) as caught:
            fetch_index(urls[:2], sha256=wanted("x", data).sha256)
    assert caught.value.code == "L112"
    assert "refused" in caught.value.message
    assert "another file" in caught.value.message


def test_no_thread_and_no_connection_is_left(honest: str, cache: FileCache) -> None:
    import threading

    with naughty_ftp(Mischief(FILES, stalls_after=1000)) as stalls, contextlib.suppress(LaminarError):
        fetch(WANTED, [stalls, honest], cache, patience=QUICK)
    assert not [t for t in threading.enumerate() if t.name.startswith("mirror-")]


def test_progress_reaches_the_end(honest: str, cache: FileCache) -> None:
    seen: list[tuple[str, int, int | None]] = []
    done = fetch(WANTED, [honest], cache, progress=lambda *what: seen.append(what))
    total = sum(map(len, FILES.values()))
    assert isinstance(done, Fetched)
    assert seen[-1] == ("21 files from 1 mirror", total, total)
    assert [n for _, n, _ in seen] == sorted(n for _, n, _ in seen)


def test_a_cache_that_may_not_be_written(honest: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LaminarError) as caught:
        fetch(WANTED, [honest], FileCache(tmp_path / "file", 1 << 30))
    assert caught.value.code == "L302"
    if os.geteuid() == 0:
        return
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(LaminarError) as caught:
        fetch(WANTED, [honest], FileCache(tmp_path / "closed", 1 << 30))
    assert caught.value.code == "L302"
