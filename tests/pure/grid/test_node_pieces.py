"""How large the pieces of an upload are, how a line is measured, and that a slow line is waited for as long as bytes go over it."""

from __future__ import annotations

import hashlib
import socket
import threading
from email.message import Message
from typing import Any

import msgspec
import pytest

from laminar.grid.node.client import PIECE, QUICK, SMALLEST, Client, Unreachable
from laminar.grid.node.line import CHUNK, Line, Reply
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask, Received, Verdict


class Server:
    """What a client is answered, by a line of so many bytes a second; at more than `breaks` bytes at once it breaks."""

    def __init__(self, rate: float, breaks: int | None = None) -> None:
        self.rate, self.breaks = rate, breaks
        self.here = b""
        self.sent: list[int] = []
        self.asked: list[bool] = []

    def request(self, method: str, path: str, body: Any, headers: Any, *, timeout: float, most: int) -> Reply:
        data = b"".join(body)
        if method == "GET":
            return self._reply(200, Received(size=len(self.here), sha256=hashlib.sha256(self.here).hexdigest()))
        self.sent.append(len(data))
        self.asked.append("?ask=" in path)
        if self.breaks is not None and len(data) > self.breaks:
            raise TimeoutError
        took = len(data) / self.rate
        if "size=" not in path:
            return self._reply(200, Verdict(result=1, state="returned"), took)
        at, size = (int(word.partition("=")[2]) for word in path.partition("?")[2].split("&"))
        self.here = self.here[:at] + data
        if len(self.here) < size:
            return self._reply(202, Received(size=len(self.here)), took)
        return self._reply(200, Verdict(result=1, state="returned"), took)

    @staticmethod
    def _reply(status: int, message: Any, took: float = 0.0) -> Reply:
        return Reply(status, Message(), msgspec.json.encode(message), took, 0.0)

    is_open = True

    def close(self) -> None:
        pass


def client(server: Server) -> Client:
    made = Client("http://grid", signing.Key.make())
    made._line = server  # type: ignore[assignment]
    return made


def test_pieces_are_as_large_as_the_line_takes_in_some_seconds() -> None:
    server = Server(rate=50_000.0)
    made = client(server)
    data = bytes(6 << 20)
    assert made.answer(1, data).state == "returned" and server.here == data
    assert server.sent[0] == PIECE and set(server.sent[1:-1]) <= {
        500_000,
        499_999,
    }  # ten seconds of a line that was measured with the first
    assert made.up == pytest.approx(50_000.0)
    quick = Server(rate=1e8)
    assert client(quick).answer(1, data).state == "returned" and quick.sent == [PIECE, (6 << 20) - PIECE]


def test_what_does_not_come_through_is_tried_in_smaller_pieces() -> None:
    server = Server(rate=1e5, breaks=400_000)
    made, data = client(server), bytes(1 << 20)
    for _ in range(10):
        try:
            made.answer(1, data)
            break
        except Unreachable:
            continue
    assert server.here == data and server.sent[:3] == [1 << 20, 512 << 10, SMALLEST]


def test_an_answer_hides_in_no_request_for_work_before_the_line_is_known() -> None:
    """The time until there is work would be taken for that of the upload. So the first one goes alone, and those that take long."""
    server = Server(rate=1e6)
    made, data, asked = client(server), bytes(400 << 10), Ask(want=1, wait=20.0)
    for _ in range(2):
        made.answer(1, data, asked)
    assert server.asked == [False, True]
    made.up = len(data) / QUICK / 2
    made.answer(1, data, asked)
    assert server.asked[-1] is False
    small = Server(rate=1e6)
    client(small).answer(1, bytes(10_000), asked)
    assert small.asked == [True]


def test_a_slow_line_is_waited_for_as_long_as_bytes_go_over_it() -> None:
    """Python's socket counts its patience for all that it is given at once."""
    size, rest = 16 * CHUNK, threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        got = []

        def serve() -> None:
            there, _ = listener.accept()
            with there:
                count = 0
                while count < size and (data := there.recv(32 << 10)):
                    count += len(data)
                    rest.wait(0.01)
                got.append(count)
                there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=serve)
        thread.start()
        line = Line(f"http://127.0.0.1:{listener.getsockname()[1]}")
        reply = line.request("PUT", "/x", [bytes(size)], {}, timeout=0.6, most=10)
        thread.join(20)
        line.close()
    assert reply.body == b"hi" and reply.sending > 0.6 and got[0] >= size
