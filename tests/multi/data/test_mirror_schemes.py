"""The contract of a mirror against every scheme, by real servers; and being a mirror: what is shown, and what is not."""

from __future__ import annotations

import ftplib
import itertools
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from laminar.core.errors import LaminarError
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import fetch
from laminar.data.mirrors.readers.places import must_be_mirror
from laminar.data.serve import Served, serving
from laminar.testing.mirror_contract import BIG, NAMES, MirrorContract, content, fill, wanted
from tests.multi.store.servers_for_remotes import ftp_server, http_server, sftp_server

USER = "ann:" + quote("p@ss/word", safe="")


class TestFolder(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> str:
        return str(shown)


class TestFileUrl(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> str:
        return shown.as_uri()


class TestPlainHttp(MirrorContract):
    """Python's own server: no ranges, and a connection for every file."""

    @pytest.fixture
    def url(self, shown: Path) -> Iterator[str]:
        with http_server(shown.parent) as port:
            yield f"http://127.0.0.1:{port}/shown/"


class TestPlainFtp(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> Iterator[str]:
        with ftp_server(shown.parent, may_write=False) as port:
            yield f"ftp://{USER}@127.0.0.1:{port}/shown"


class TestSftp(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> Iterator[str]:
        with sftp_server(shown.parent) as port:
            yield f"ssh://ann:secret@127.0.0.1:{port}/shown"


class TestWhateverFsspecKnows(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> str:
        return f"local://{shown}"


class TestServedHttp(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> Iterator[str]:
        with serving(shown, b'{"format": 1}', NAMES, host="127.0.0.1", http=0, ftp=None) as served:
            yield served.urls[0]


class TestServedFtp(MirrorContract):
    @pytest.fixture
    def url(self, shown: Path) -> Iterator[str]:
        with serving(shown, b'{"format": 1}', NAMES, host="127.0.0.1", http=None, ftp=0) as served:
            yield served.urls[0]


_buckets = itertools.count()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


class TestS3(MirrorContract):
    @pytest.fixture
    def url(self, s3: str, shown: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        import boto3

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        bucket = f"mirror{next(_buckets)}"
        client = boto3.client("s3", endpoint_url=s3)
        client.create_bucket(Bucket=bucket)
        for name in (*NAMES, "index.json"):
            client.put_object(Bucket=bucket, Key=f"deep/{name}", Body=(shown / name).read_bytes())
        client.close()
        return f"s3://{bucket}/deep?endpoint={s3}"


# Being a mirror


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    for path, text in {"cat/a.png": "aaa", "cat/b.png": "bbb", "dog/c.png": "ccc", ".hidden": "h", "cat/secret.txt": "s"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.png").write_text("outside")
    (root / "out.png").symlink_to(tmp_path / "outside" / "x.png")
    (root / "far").symlink_to(tmp_path / "outside")
    (root / "in.png").symlink_to("cat/a.png")
    return root


LISTED = {"cat/a.png", "cat/b.png", "dog/c.png", "out.png", "far/x.png", "in.png", "gone.png"}


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    with serving(folder, b"the index", LISTED, host="127.0.0.1", http=0, ftp=0) as served:
        yield served


HIDDEN = [
    ".hidden",
    "cat/secret.txt",
    "out.png",
    "far/x.png",
    "gone.png",
    "cat",
    "cat/",
    "../outside/x.png",
    "cat/../.hidden",
    "%2e%2e/outside/x.png",
    "far",
]


def test_only_what_is_listed_is_served_over_http(served: Served) -> None:
    url = served.urls[0]
    for path, text in {"cat/a.png": b"aaa", "in.png": b"aaa", "index.json": b"the index"}.items():
        with urllib.request.urlopen(f"{url}/{path}", timeout=5) as answer:
            assert answer.read() == text
    for path in ["", *HIDDEN]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/{path}", timeout=5)
        assert caught.value.code == 404
        caught.value.close()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{url}/cat/a.png", data=b"new", method="PUT"), timeout=5)
    assert caught.value.code == 405
    caught.value.close()


def test_only_what_is_listed_is_served_over_ftp(served: Served, folder: Path) -> None:
    with ftplib.FTP() as ftp:
        ftp.connect("127.0.0.1", int(served.urls[1].rsplit(":", 1)[1]), timeout=5)
        ftp.login()
        for path, text in {"/cat/a.png": b"aaa", "in.png": b"aaa", "index.json": b"the index"}.items():
            got: list[bytes] = []
            ftp.retrbinary(f"RETR {path}", got.append)
            assert b"".join(got) == text
        for path in HIDDEN:
            with pytest.raises(ftplib.error_perm):
                ftp.retrbinary(f"RETR /{path}", print)
        assert set(ftp.nlst("/")) == {"index.json", "cat", "dog", "far", "out.png", "in.png", "gone.png"}
        assert ftp.nlst("/cat") == ["a.png", "b.png"]
        ftp.voidcmd("TYPE I")
        assert ftp.size("/cat/a.png") == 3
        ftp.cwd("/cat")
        assert ftp.pwd() == "/cat"
        lines: list[str] = []
        ftp.retrlines("LIST", lines.append)
        assert [line.split()[-1] for line in lines] == ["a.png", "b.png"]
        for command in (
            "STOR /new.png",
            "DELE /cat/a.png",
            "MKD /new",
            "RMD /dog",
            "RNFR /cat/a.png",
            "APPE /cat/a.png",
            "CWD /far",
            "CWD /..",
        ):
            if command == "CWD /..":
                ftp.voidcmd(command)  # the top again
                assert ftp.pwd() == "/"
                continue
            if command == "CWD /far":
                ftp.voidcmd(command)
                assert ftp.nlst() == ["x.png"]  # as it was listed; the file behind the link is not given
                continue
            with pytest.raises(ftplib.error_perm):
                ftp.voidcmd(command)
    assert (folder / "cat" / "a.png").read_text() == "aaa"


def test_a_link_is_looked_at_anew(served: Served, folder: Path, tmp_path: Path) -> None:
    (folder / "cat" / "a.png").unlink()
    (folder / "cat" / "a.png").symlink_to(tmp_path / "outside" / "x.png")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{served.urls[0]}/cat/a.png", timeout=5)
    assert caught.value.code == 404
    caught.value.close()


def test_nothing_is_left_when_it_ends(folder: Path) -> None:
    before = set(threading.enumerate())
    with serving(folder, b"", LISTED, host="127.0.0.1", http=0, ftp=0) as served:
        ports = [int(url.rsplit(":", 1)[1]) for url in served.urls]
        held = [socket.create_connection(("127.0.0.1", port), timeout=5) for port in ports]  # clients that stay do not keep it
    for port, client in zip(ports, held, strict=True):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        client.close()
    assert {t for t in threading.enumerate() if t.name.startswith("mirror")} <= before


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for ports in ({"http": port, "ftp": None}, {"http": None, "ftp": port}):
            with pytest.raises(LaminarError, match=f"{port}") as caught, serving(folder, b"", [], host="127.0.0.1", **ports):
                pass
            assert caught.value.code == "L008"


def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "laminar.data.serve.http_mirror", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(LaminarError, match="uvicorn") as caught, serving(folder, b"", [], host="127.0.0.1", http=0, ftp=None):
        pass
    assert caught.value.code == "L011"
    assert "pip install 'laminar-train[serve]'" in caught.value.hint


def test_several_schemes_at_once(tmp_path: Path) -> None:
    shown = fill(tmp_path / "shown")
    files = [wanted(name, content(name)) for name in NAMES]
    with serving(shown, b"", NAMES, host="127.0.0.1", http=0, ftp=0) as served:
        done = fetch(files, [*served.urls, str(shown)], FileCache(tmp_path / "cache", 1 << 30))
    assert done.bytes == sum(NAMES.values())
    assert sum(m.bytes for m in done.mirrors) < done.bytes + BIG


@pytest.mark.parametrize("url", ["htp://a/b", "http://[::1/x", "http://a:port/x", "nonsense://x"])
def test_what_is_no_mirror(url: str) -> None:
    with pytest.raises(LaminarError) as caught:
        must_be_mirror(url)
    assert caught.value.code == "L008"
