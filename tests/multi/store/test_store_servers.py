"""The contract of a remote against real servers: ftp, http, s3, sftp. And what happens when they are not what they should be."""

from __future__ import annotations

import ftplib
import gc
import io
import itertools
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pytest
from servers_for_remotes import deaf_server, ftp_server, http_server, sftp_server

from laminar.core.errors import LaminarError
from laminar.store import drivers
from laminar.store.remote import Remote, pull_ref, push
from laminar.store.repair import repair
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import RemoteContract, sample_layer

USER = "ann:" + quote("p@ss/word", safe="")


class TestFtp(RemoteContract):
    @pytest.fixture
    def write_url(self, tmp_path: Path) -> Iterator[str]:
        (tmp_path / "ftp").mkdir()
        with ftp_server(tmp_path / "ftp") as port:
            yield f"ftp://{USER}@127.0.0.1:{port}/models/deep"

    @pytest.fixture
    def read_url(self, write_url: str) -> str:
        return write_url


class TestSftp(RemoteContract):
    @pytest.fixture
    def write_url(self, tmp_path: Path) -> Iterator[str]:
        (tmp_path / "sftp").mkdir()
        with sftp_server(tmp_path / "sftp") as port:
            yield f"ssh://ann:secret@127.0.0.1:{port}/models"

    @pytest.fixture
    def read_url(self, write_url: str) -> str:
        return write_url.replace("ssh://", "sftp://")


class TestHttp(RemoteContract):
    """Written as a folder, read over http."""

    @pytest.fixture
    def write_url(self, tmp_path: Path) -> str:
        (tmp_path / "www" / "models").mkdir(parents=True)
        return str(tmp_path / "www" / "models")

    @pytest.fixture
    def read_url(self, tmp_path: Path, write_url: str) -> Iterator[str]:
        assert write_url
        with http_server(tmp_path / "www") as port:
            yield f"http://127.0.0.1:{port}/models"


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


class TestS3(RemoteContract):
    @pytest.fixture
    def write_url(self, s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
        import boto3

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
        bucket = f"bucket{next(_buckets)}"
        client = boto3.client("s3", endpoint_url=s3)
        client.create_bucket(Bucket=bucket)
        client.close()
        return f"s3://{bucket}/models"

    @pytest.fixture
    def read_url(self, s3: str, write_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3)
        return write_url

    def test_the_endpoint_may_stand_in_the_url(self, write_url: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        with Remote.at(f"{write_url}?endpoint={s3}") as remote:
            remote.put("layers/a.json", b"x")
            assert remote.read("layers/a.json") == b"x"
        wait_for_no_clients(_port(s3))

    def test_a_bucket_that_is_not_there(self, write_url: str, here: Store) -> None:
        layer = sample_layer(here)
        with Remote.at(write_url.replace("bucket", "nobucket")) as remote, pytest.raises(LaminarError) as caught:
            push(here, remote, layer.id)
        assert caught.value.code in ("L402", "L404")


def open_clients(port: int) -> int:
    """Sockets of this process that are connected to a port; whatever holds them."""
    found = 0
    for thing in gc.get_objects():
        if issubclass(type(thing), socket.socket) and thing.fileno() != -1:
            try:
                found += thing.getpeername()[1] == port
            except (OSError, IndexError):  # it listens, or closed meanwhile
                continue
    return found


def wait_for_no_clients(port: int) -> None:
    """An event loop closes its sockets one turn after it was told."""
    end = time.monotonic() + 60
    while open_clients(port) and time.monotonic() < end:
        time.sleep(0.01)
    assert open_clients(port) == 0


def _port(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize("scheme", ["ftp", "ssh", "http"])
def test_no_connection_outlives_its_remote(tmp_path: Path, scheme: str) -> None:
    """Not until the garbage collector finds it: when it is closed."""
    (tmp_path / "served" / "layers").mkdir(parents=True)
    (tmp_path / "served" / "layers" / "a.json").write_bytes(b"x")
    server = {"ftp": ftp_server, "ssh": sftp_server, "http": http_server}[scheme]
    user = {"ftp": f"{USER}@", "ssh": "ann:secret@", "http": ""}[scheme]
    gc.disable()
    try:
        with server(tmp_path / "served") as port:
            with Remote.at(f"{scheme}://{user}127.0.0.1:{port}/") as remote:
                assert remote.read("layers/a.json") == b"x"
                assert scheme == "http" or open_clients(port) == 1
            wait_for_no_clients(port)
            remote.close()
    finally:
        gc.enable()


def test_a_server_that_is_gone_need_not_be_told(tmp_path: Path) -> None:
    with ftp_server(tmp_path) as port:
        remote = Remote.at(f"ftp://{USER}@127.0.0.1:{port}/")
    remote.close()
    assert open_clients(port) == 0


def test_http_cannot_be_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    with http_server(tmp_path) as port, Remote.at(f"http://127.0.0.1:{port}/") as remote, pytest.raises(LaminarError) as caught:
        push(store, remote, layer.id, ["digits/head"])
    assert "read only" in caught.value.message
    assert caught.value.code == "L404"


def test_ftp_without_permission_to_write(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    (tmp_path / "ftp").mkdir()
    with (
        ftp_server(tmp_path / "ftp", may_write=False) as port,
        Remote.at(f"ftp://{USER}@127.0.0.1:{port}/") as remote,
        pytest.raises(LaminarError) as caught,
    ):
        push(store, remote, layer.id, ["digits/head"])
    assert caught.value.code == "L404"
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ftp", "ssh"])
def test_a_wrong_password(tmp_path: Path, scheme: str) -> None:
    server = ftp_server if scheme == "ftp" else sftp_server
    with server(tmp_path) as port, pytest.raises(LaminarError, match=r"(?i)authentication") as caught:
        Remote.at(f"{scheme}://ann:wrong@127.0.0.1:{port}/x")
    assert open_clients(port) == 0
    assert caught.value.code == "L401"
    assert "wrong" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1:{}/x", "ssh://a:b@127.0.0.1:{}/x", "http://127.0.0.1:{}/x", "s3://b/x?endpoint=http://127.0.0.1:{}"]
)
def test_a_server_that_never_answers(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline ends every wait. (Shorter here than for users.)"""
    monkeypatch.setattr(drivers, "CONNECT", 0.3)
    monkeypatch.setattr(drivers, "READ", 0.3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    start = time.monotonic()
    with deaf_server() as port, pytest.raises(LaminarError, match="cannot be reached") as caught:
        pull_ref(Store.open(tmp_path / "s"), f"{url.format(port)}#digits/head")
    wait_for_no_clients(port)
    assert caught.value.code == "L401"
    assert time.monotonic() - start < 90


def test_http_and_s3_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with deaf_server() as port:
        pass
    for url in (f"http://127.0.0.1:{port}/x", f"s3://b/x?endpoint=http://127.0.0.1:{port}"):
        start = time.monotonic()
        with pytest.raises(LaminarError, match=f"127.0.0.1:{port}") as caught:
            pull_ref(Store.open(tmp_path / "s"), f"{url}#digits/head")
        assert caught.value.code == "L401"
        assert time.monotonic() - start < 60


def test_repair_over_the_wire(tmp_path: Path) -> None:
    """The remote that was used for a push is remembered, and heals a flipped bit later."""
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    (tmp_path / "ftp").mkdir()
    with ftp_server(tmp_path / "ftp") as port:
        with Remote.at(f"ftp://{USER}@127.0.0.1:{port}/") as remote:
            push(store, remote, layer.id, ["digits/head"])
        path = store.objects.path(layer.tensors["w"].digest)
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        done = repair(store, verify(store))
        assert (len(done.mended), done.left) == (1, [])
    assert store.complete(layer.id)


def test_a_host_whose_key_is_not_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import paramiko

    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "sftp").mkdir()
    known = paramiko.HostKeys()
    with sftp_server(tmp_path / "sftp") as port:
        other = paramiko.RSAKey.generate(2048)
        known.add(f"[127.0.0.1]:{port}", other.get_name(), other)
        known.save(str(tmp_path / ".ssh" / "known_hosts"))
        with pytest.raises(LaminarError, match=r"(?i)host key") as caught:
            Remote.at(f"ssh://ann:secret@127.0.0.1:{port}/x")
        assert open_clients(port) == 0
    assert caught.value.code == "L401"


def test_half_an_upload_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes half a file and says that all is well: what lies under an object's name was whole once."""
    real = ftplib.FTP.storbinary

    def half(self: ftplib.FTP, command: str, file: IO[bytes], blocksize: int = 8192) -> str:
        data = file.read()
        return real(self, command, io.BytesIO(data[: len(data) // 2]), blocksize)

    (tmp_path / "ftp").mkdir()
    with ftp_server(tmp_path / "ftp") as port, Remote.at(f"ftp://{USER}@127.0.0.1:{port}/models") as remote:
        monkeypatch.setattr(ftplib.FTP, "storbinary", half)
        with pytest.raises(LaminarError, match="the server has 5 of 10 bytes"):
            remote.put("objects/ab/cd", b"0123456789")
        monkeypatch.undo()
        assert remote.list("objects/ab") == {}
        remote.put("objects/ab/cd", b"0123456789")
        assert remote.list("objects/ab") == {"cd": 10}


def test_nobody_is_told_to_push_to_what_can_only_be_read(tmp_path: Path) -> None:
    here, there = Store.open(tmp_path / "here"), Store.open(tmp_path / "there")
    with http_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/www"
        (tmp_path / "www").mkdir()
        with pytest.raises(LaminarError) as caught:
            pull_ref(there, f"{url}#digits:v1")
        assert caught.value.code == "L402"
        assert caught.value.hint == f"ask whoever serves {url} to run laminar push FOLDER digits:v1 on the folder behind it"
        layer = sample_layer(here)
        push(here, Remote.at(str(tmp_path / "www")), layer.id, ["digits/head", "digits:v1"])
        for text, hint in (("digits:v2", f"laminar pull {url} digits:v1"), (f"x@sha256:{'0' * 64}", "FOLDER REF")):
            with pytest.raises(LaminarError) as caught:
                pull_ref(there, f"{url}#{text}")
            assert caught.value.code == "L402"
            assert hint in caught.value.hint
            assert "push http" not in caught.value.hint
        victim = tmp_path / "www" / "objects" / layer.tensors["w"].digest[:2] / layer.tensors["w"].digest[2:]
        victim.write_bytes(bytes(victim.stat().st_size))
        with pytest.raises(LaminarError) as caught:
            pull_ref(there, f"{url}#digits:v1")
        assert caught.value.code == "L403"
        assert "push --check FOLDER REF" in caught.value.hint
