"""Downloads: several homes, resumed, proved; over loopback only."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from data_makers import write_idx_folder

from laminar.core.errors import LaminarError
from laminar.data.download import fetch
from laminar.data.open import open_data
from laminar.data.sources import mnist
from laminar.data.sources.protocol import silent
from laminar.data.spec import DataSpec


class Home:
    """A web server that may break off, ignore ranges, or send something else."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.break_after: int | None = None
        self.ranges = True
        home = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                home.asked.append((self.path, wanted))
                data = home.files.get(self.path)
                if data is None:
                    self.send_error(404)
                    return
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and home.ranges else 0
                if start > len(data):
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(data) - start))
                self.end_headers()
                self.wfile.write(data[start:] if home.break_after is None else data[start : start + home.break_after])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


DATA = bytes(range(256)) * 40
SHA = hashlib.sha256(DATA).hexdigest()


def test_a_file_arrives_with_progress(home: Home, tmp_path: Path) -> None:
    home.files["/f"] = DATA
    told: list[tuple[int, int | None]] = []
    fetch([f"{home.url}/f"], tmp_path / "sub" / "f", SHA, lambda _, done, total: told.append((done, total)))
    assert (tmp_path / "sub" / "f").read_bytes() == DATA
    assert told[-1] == (len(DATA), len(DATA))


def test_the_next_home_is_tried(home: Home, tmp_path: Path) -> None:
    home.files["/good"] = DATA
    home.files["/other"] = DATA[:-1] + b"!"
    fetch([f"{home.url}/none", f"{home.url}/other", f"{home.url}/good"], tmp_path / "f", SHA, silent)
    assert (tmp_path / "f").read_bytes() == DATA


def test_what_broke_off_goes_on(home: Home, tmp_path: Path) -> None:
    home.files["/f"] = DATA
    home.break_after = 1000
    with pytest.raises(LaminarError, match="broke off after 1,000 of 10,240 bytes"):
        fetch([f"{home.url}/f"], tmp_path / "f", SHA, silent)
    home.break_after = None
    fetch([f"{home.url}/f"], tmp_path / "f", SHA, silent)
    assert home.asked[-1] == ("/f", "bytes=1000-")
    assert (tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("left", [b"rubbish", b"rubbish" * 2000, DATA])
def test_a_wrong_beginning_is_thrown_away(left: bytes, home: Home, tmp_path: Path) -> None:
    home.files["/f"] = DATA
    (tmp_path / "f.part").write_bytes(left)
    fetch([f"{home.url}/f"], tmp_path / "f", SHA, silent)
    assert (tmp_path / "f").read_bytes() == DATA
    assert not (tmp_path / "f.part").exists()


def test_a_server_without_ranges_begins_anew(home: Home, tmp_path: Path) -> None:
    home.files["/f"] = DATA
    home.ranges = False
    (tmp_path / "f.part").write_bytes(DATA[:77])
    fetch([f"{home.url}/f"], tmp_path / "f", SHA, silent)
    assert (tmp_path / "f").read_bytes() == DATA


def test_nothing_wrong_is_kept(home: Home, tmp_path: Path) -> None:
    home.files["/f.gz"] = gzip.compress(b"other")
    home.files["/g.gz"] = b"<html>not found</html>"
    with pytest.raises(LaminarError) as caught:
        fetch([f"{home.url}/f.gz", f"{home.url}/g.gz"], tmp_path / "f.gz", SHA, silent, looked_in=[tmp_path / "here"])
    assert caught.value.code == "L107"
    for text in (f"{home.url}/f.gz", f"{home.url}/g.gz", "sha256", "expected", str(tmp_path / "here"), f"copy f.gz to {tmp_path}"):
        assert text in str(caught.value)
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


def test_mnist_is_downloaded_once_into_the_cache(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx_folder(tmp_path / "origin")
    digests = {}
    for role, name in mnist.STANDARD.items():
        raw = (tmp_path / "origin" / f"{name}.gz").read_bytes()
        home.files[f"/{name}.gz"] = raw
        digests[role] = hashlib.sha256(gzip.decompress(raw)).hexdigest()
    monkeypatch.delenv("LAMINAR_DATA", raising=False)
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(mnist.HOMES, "mnist", (f"{home.url}/",))
    monkeypatch.setitem(mnist.SHA256, "mnist", digests)
    spec = DataSpec(source="mnist", classes=[0, 1, 2, 3])
    assert len(open_data(spec, tmp_path).train) == 40
    assert len(home.asked) == 4
    assert len(open_data(spec, tmp_path).train) == 40
    assert len(home.asked) == 4


def test_without_a_network_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(mnist.HOMES, "fashion-mnist", ("http://127.0.0.1:9/",))
    with pytest.raises(LaminarError) as caught:
        open_data(DataSpec(source="fashion-mnist"), tmp_path)
    assert caught.value.code == "L107"
    for text in (
        str(tmp_path / "shared" / "fashion-mnist"),
        "127.0.0.1:9",
        "train-images-idx3-ubyte.gz",
        f"to {tmp_path / 'cache' / 'fashion-mnist'}",
    ):
        assert text in str(caught.value)


def test_half_a_data_set_put_there_by_hand_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path))
    write_idx_folder(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(LaminarError, match="train-labels") as caught:
        open_data(DataSpec(source="mnist"), tmp_path)
    assert caught.value.code == "L101"
