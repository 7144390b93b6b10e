"""Which addresses a mirror may have that a stranger names: public ones, and those very ones that were looked at."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.fetch import fetch_index
from laminar.data.mirrors.readers import reach
from laminar.data.mirrors.readers.ftp_reader import FtpReader
from laminar.data.mirrors.readers.places import must_be_mirror, reader_of
from laminar.data.mirrors.readers.protocol import Ask, Timeouts
from laminar.data.mirrors.readers.reach import dial, is_public, only_public
from tests.multi.data.mirror_servers import Mischief, naughty_http

PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "64:ff9b::808:808")
NOT = (
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "198.18.0.1",
    "224.0.0.251",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "5f00::1",
    "no address",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT)
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(0.05)
        yield found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"])
def test_whatever_a_loopback_address_is_called_it_is_not_called_up(listener: socket.socket, host: str) -> None:
    port = listener.getsockname()[1]
    with only_public(), pytest.raises(Fault) as caught:
        dial(host, port, 1.0)
    assert caught.value.kind is Kind.REFUSED and "127" not in caught.value.why  # nor is told what a name stands for
    with pytest.raises(TimeoutError):
        listener.accept()


def answers(*addresses: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]


def test_the_address_that_was_looked_at_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is looked at, and the owner's router a moment later; and one that is both at once."""
    said = iter([answers("192.168.1.1", "93.184.216.34"), answers("127.0.0.1")])
    called: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        called.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(reach.socket, "getaddrinfo", lambda *_, **__: next(said))
    monkeypatch.setattr(reach.socket, "create_connection", connect)
    with only_public():
        with pytest.raises(ConnectionRefusedError):
            dial("rebound.example", 80, 1.0)
        with pytest.raises(Fault):
            dial("rebound.example", 80, 1.0)
    assert called == [("93.184.216.34", 80)]


def test_a_public_address_of_this_machine_is_no_other(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "is_public", lambda _: True)
    with only_public(), pytest.raises(Fault):
        dial("127.0.0.1", listener.getsockname()[1], 1.0)


@pytest.mark.parametrize("scheme", ["http", "https", "ftp"])
def test_a_reader_that_outlives_the_fetching_calls_up_nobody_else_either(listener: socket.socket, scheme: str) -> None:
    """Its thread may still wait for a slow mirror, which then redirects it, when the others have fetched everything."""
    with only_public():
        reader = reader_of(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", Timeouts(connect=1.0, read=1.0))
    with contextlib.closing(reader), pytest.raises(Fault) as caught:
        next(iter(reader.stream(Ask("a", 0, 9, 9, None))))
    assert caught.value.kind is Kind.REFUSED
    with pytest.raises(TimeoutError):
        listener.accept()


@contextlib.contextmanager
def answering(server: socket.socket, reply: bytes) -> Iterator[None]:
    def once() -> None:
        line, _ = server.accept()
        with line:
            line.recv(65536)
            line.sendall(reply)

    thread = threading.Thread(target=once)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)


def test_a_redirect_into_the_owners_network_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "is_public", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(reach, "_is_own", lambda _: False)
    with socket.create_server(("127.0.0.2", 0)) as inside, socket.create_server(("127.0.0.1", 0)) as outside:
        inside.settimeout(0.05)
        target = f"http://127.0.0.2:{inside.getsockname()[1]}/index.json"
        reply = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        with answering(outside, reply.encode()), only_public(), pytest.raises(LaminarError, match="not a public one"):
            fetch_index([f"http://127.0.0.1:{outside.getsockname()[1]}/index.json"], sha256=None)
        with pytest.raises(TimeoutError):
            inside.accept()


def test_ftp_is_held_to_the_same(listener: socket.socket) -> None:
    reader = FtpReader(f"ftp://127.0.0.1:{listener.getsockname()[1]}/x", Timeouts())
    with only_public(), pytest.raises(Fault) as caught:
        next(reader.stream(Ask("a")))
    reader.close()
    assert caught.value.kind is Kind.REFUSED
    with pytest.raises(TimeoutError):
        listener.accept()


@pytest.mark.parametrize("url", ["s3://bucket/x", "ssh://host/x", "memory://x", "/etc", "file://etc", "ftps://host/x"])
def test_what_finds_its_own_way_is_refused(url: str) -> None:
    with only_public(), pytest.raises(LaminarError) as caught:
        must_be_mirror(url)
    assert caught.value.code == "L504"


def test_whoever_names_the_mirrors_himself_may_have_them_anywhere() -> None:
    mischief = Mischief(files={"index.json": b"here"})
    with naughty_http(mischief) as url:
        with only_public(False):
            assert fetch_index([f"{url}/index.json"], sha256=None) == b"here"
        with only_public(), only_public(False), pytest.raises(LaminarError):  # what is forbidden stays so
            fetch_index([f"{url}/index.json"], sha256=None)
        assert fetch_index([f"{url}/index.json"], sha256=None) == b"here"
