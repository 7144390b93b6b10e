"""The line of a node to its server: kept, dialled again, by way of a proxy; and what does not come back over it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator

import pytest

from laminar.core.errors import LaminarError
from laminar.grid.node.client import Client, Unreachable
from laminar.grid.node.line import Broken, Line, Reply
from laminar.grid.wire import signing

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: v\r\n\r\nhi"


class Scripted:
    """Accepts connections one after the other; in each it reads as many requests as there are replies for it, then hangs up."""

    def __init__(self, script: list[list[bytes]]) -> None:
        self.heads: list[bytes] = []  # with their bodies
        self.hung_up = threading.Event()  # once at least
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(script,))
        self._thread.start()

    def _serve(self, script: list[list[bytes]]) -> None:
        for replies in script:
            with contextlib.suppress(OSError):
                line, _ = self._listener.accept()
                line.settimeout(20)
                with line:
                    for reply in replies:
                        self.heads.append(_request(line))
                        line.sendall(reply)
            self.hung_up.set()

    def end(self) -> None:
        self._thread.join(20)
        self._listener.close()
        assert not self._thread.is_alive()


def _request(line: socket.socket) -> bytes:
    """Head and body, which may come one after the other."""
    said = b""
    while not _whole(said) and (more := line.recv(65536)):
        said += more
    return said


def _whole(said: bytes) -> bool:
    head, end, body = said.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


@contextlib.contextmanager
def scripted(*script: list[bytes]) -> Iterator[Scripted]:
    made = Scripted(list(script))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def asked(line: Line, path: str = "/v1/about", *body: bytes, most: int = 100) -> Reply:
    return line.request("POST", path, body, {"X-Own": "1"}, timeout=10.0, most=most)


def test_a_line_is_kept_and_dialled_again_when_the_other_side_has_hung_up() -> None:
    with scripted([OK, OK], [OK]) as server:
        line = Line(f"http://{server.address}/below/")
        first = asked(line, "/v1/work", b"one", b"two")
        assert (first.status, first.body, first.headers.get("x-name")) == (200, b"hi", "v")
        assert asked(line).body == b"hi"
        assert server.hung_up.wait(20)
        assert asked(line).body == b"hi"
        line.close()
    head = server.heads[0]
    assert head.startswith(b"POST /below/v1/work HTTP/1.1\r\n") and b"Content-Length: 6\r\n" in head and head.endswith(b"\r\n\r\nonetwo")


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(101),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n" + bytes(200) + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_what_is_too_long_or_breaks_off_is_not_taken(reply: bytes) -> None:
    with scripted([reply]) as server:
        line = Line(f"http://{server.address}")
        with pytest.raises(Broken):
            asked(line)
        line.close()


def test_who_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = Line(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            line.request("GET", "/", (), {}, timeout=0.2, most=10)
        line.close()


@pytest.mark.parametrize("status", ["301 Moved", "307 Temporary Redirect"])
def test_a_redirect_is_not_followed(status: str) -> None:
    reply = f"HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".encode()
    with scripted([reply]) as server:
        client = Client(f"http://{server.address}", signing.Key.make())
        with pytest.raises(Unreachable, match=status[:3]):
            client.file("0" * 64)
        client.close()
    assert len(server.heads) == 1


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([OK], [b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"]) as proxy:
        monkeypatch.setenv("http_proxy", f"http://ann:s%20t@{proxy.address}")
        monkeypatch.setenv("https_proxy", proxy.address)
        plain = Line("http://grid.example:8000/x")
        assert asked(plain).body == b"hi"
        plain.close()
        secure = Line("https://grid.example")
        with pytest.raises(OSError, match="403"):
            asked(secure)
        secure.close()
    first, second = proxy.heads
    assert first.startswith(b"POST http://grid.example:8000/x/v1/about HTTP/1.1\r\n") and b"Host: grid.example:8000\r\n" in first
    assert b"Proxy-Authorization: Basic YW5uOnMgdA==\r\n" in first
    assert second.startswith(b"CONNECT grid.example:443 HTTP/1.")


def test_what_the_environment_keeps_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with scripted([OK]) as server:
        line = Line(f"http://{server.address}")
        assert asked(line).body == b"hi"
        line.close()


@pytest.mark.parametrize("url", ["ftp://grid", "http://", "http://grid:port", "grid", "http://grid/\r\nX: y"])
def test_an_address_that_cannot_be_used_is_named(url: str) -> None:
    with pytest.raises(LaminarError) as caught:
        Client(url, signing.Key.make())
    assert caught.value.code == "L501"


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(LaminarError, match="only http:// is known"):
        Client("http://grid.example", signing.Key.make())
