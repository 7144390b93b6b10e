"""A server on which one address, or several, hold as many connections as they can open: nodes are heard all the same."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from laminar.grid.node.client import Client, Unreachable
from laminar.grid.server.certificates import own_certificate
from laminar.grid.server.door import OWN
from laminar.grid.server.serve import GridServer
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask
from tests.multi.grid.served import serving
from tests.multi.grid.test_grid_server import FACTS

HALF = b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{"  # a body of which one byte comes
T = TypeVar("T")
NOTHING, WORD = b"", b"GET /v1/ab"
elsewhere = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.0/8 without asking for it")


@contextlib.contextmanager
def crowd(url: str) -> Iterator[Callable[..., list[socket.socket]]]:
    """So many connections, from an address, which say so much and no more. They are open when they are returned, as far as they see."""
    host, port = url.split("//")[1].split(":")
    lines: list[socket.socket] = []

    def come(count: int, said: bytes = NOTHING, source: str = "127.0.0.1") -> list[socket.socket]:
        made = [socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0)) for _ in range(count)]
        lines.extend(made)
        for one in made:
            with contextlib.suppress(ConnectionError):  # it may be closed already
                one.sendall(said)
        return made

    try:
        yield come
    finally:
        for one in lines:
            one.close()


def closed(line: socket.socket) -> bool:
    """The server has closed it, or does before long; TimeoutError if not."""
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def node_of(server: GridServer, url: str, ca: Path | None = None) -> Client:
    made = Client(url, signing.Key.make(), pinned=server.key.public, ca=str(ca) if ca else None)
    made.enrol(server.secrets.join, FACTS)
    return made


def heard(client: Client) -> bool:
    return client.work(Ask(want=1)).why == "nothing to do"


def there(server: GridServer, what: Callable[[], T]) -> T:
    """Done by the server's own thread, when it is through with what it is at: what it counts after an answer is counted then."""

    async def do() -> T:
        return what()

    assert server._loop is not None
    return asyncio.run_coroutine_threadsafe(do(), server._loop).result(20)


def counts(server: GridServer) -> tuple[int, int]:
    """Connections of the known, and of strangers."""
    return there(server, lambda: (server.door.known, server.door.strangers))


def place_of(client: Client) -> object:
    """The node's end of its connection."""
    line = client._line._open
    assert line is not None and line.sock is not None
    return line.sock.getsockname()


@pytest.mark.parametrize("said", [NOTHING, WORD, HALF], ids=["nothing", "half a word", "a byte of a body"])
def test_who_is_known_stays_and_who_comes_is_heard(said: bytes, tmp_path: Path) -> None:
    with serving(tmp_path, connections=32) as (server, url), crowd(url) as come:  # 8 of strangers, 4 of an address
        known = node_of(server, url)
        before = place_of(known)
        first = come(4, said)
        for _ in range(10):
            come(20, said)
            assert heard(known) and place_of(known) == before  # an office has one address: its nodes do not count
        assert all(map(closed, first))
        new = node_of(server, url)  # from the very address
        assert heard(new) and counts(server)[0] == 2 and counts(server)[1] <= server.door.place_most
        assert server.gate.refused["crowd"] >= 200
        known.close()
        new.close()


@elsewhere
def test_many_addresses_leave_room_for_one_more(tmp_path: Path) -> None:
    with serving(tmp_path, connections=32) as (server, url), crowd(url) as come:
        for address in range(2, 30):
            come(10, HALF, f"127.0.0.{address}")
        new = node_of(server, url)
        assert heard(new) and counts(server)[1] <= server.door.strangers_most
        new.close()


def test_handshakes_that_never_end_keep_nobody_out(tmp_path: Path) -> None:
    pair, ca = own_certificate(tmp_path / "tls", "127.0.0.1"), tmp_path / "tls" / "ca.pem"
    with serving(tmp_path / "grid", certificate=pair, connections=32) as (server, url), crowd(url) as come:
        known = node_of(server, url, ca)
        before = place_of(known)
        for said in (NOTHING, b"\x16\x03\x01\x02", b"no handshake at all\r\n\r\n"):
            first = come(4, said)
            come(100, said)
            assert all(map(closed, first)) and heard(known) and place_of(known) == before
            new = node_of(server, url, ca)
            assert heard(new)
            new.close()
        context = ssl.create_default_context(cafile=ca)
        secured = [context.wrap_socket(one, server_hostname="127.0.0.1") for one in come(3)]  # and then nothing
        come(100)
        assert all(map(closed, secured)) and heard(known)
        for one in secured:
            one.close()
        known.close()


def test_a_node_has_a_few_connections_and_not_all(tmp_path: Path) -> None:
    with serving(tmp_path, connections=64) as (server, url):
        key = signing.Key.make()
        lines = [Client(url, key, pinned=server.key.public) for _ in range(3 * OWN)]
        for one in lines:
            one.enrol(server.secrets.join, FACTS)
        assert counts(server) == (OWN, 2 * OWN)
        for one in lines:
            one.close()


def test_who_is_known_asks_for_something_unsigned_and_is_a_stranger_again(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, url), httpx.Client(base_url=url) as line:
        token = {"Authorization": f"Bearer {server.secrets.view}"}
        assert line.get("/v1/status", headers=token).status_code == 200 and counts(server) == (1, 0)
        assert line.get("/v1/about").status_code == 200 and counts(server) == (0, 1)
        assert line.get("/v1/status", headers=token).status_code == 200 and counts(server) == (1, 0)
        assert line.get("/v1/status").status_code == 401 and counts(server) == (0, 1)


def test_a_server_without_room_says_so_and_signs_it(tmp_path: Path) -> None:
    with serving(tmp_path, connections=8) as (server, url):
        nodes = [node_of(server, url) for _ in range(7)]  # room for 6: the one that asks nothing goes
        assert counts(server) == (6, 0)
        there(server, server.door._idle.clear)  # all are at something
        seventh = Client(url, signing.Key.make(), pinned=server.key.public)
        with pytest.raises(Unreachable, match="more nodes than there is room for"):
            seventh.enrol(server.secrets.join, FACTS)
        with httpx.Client(base_url=url) as line:
            told = line.get("/v1/status", headers={"Authorization": f"Bearer {server.secrets.view}"})
        assert told.status_code == 503 and told.headers["retry-after"] == "5" and told.headers["connection"] == "close"
        assert heard(nodes[-1])
        for one in (*nodes, seventh):
            one.close()
