"""Patience: connections that say nothing, or say it byte by byte, or never come to the point, are closed.

uvicorn waits for a request's head for ever, and keeps all of it, however long. And it logs a line for every request that is none: strangers
could fill a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 << 10  # of an address and headers; a node's have less than one in sixty of that
HEAD: Final = 15.0  # seconds from the first moment of a connection, or from the first byte of a request, to the end of its head
OFTEN: Final = 3600.0  # seconds between two lines about the same
ANYBODYS: Final = (
    "Invalid HTTP request",
    "Unsupported upgrade request",
    "No supported WebSocket library",
    "Exceeded concurrency limit",
    "socket.accept() out of system resource",
)
CONNECTIONS: Final = 4096
OWN_FILES: Final = 200  # that the server opens itself: database, log, sockets
BUSY: Final = 32  # connections above the limit that are told so; those beyond are closed


def open_files() -> int:
    """How many this process may have, and it asks for as many as it is allowed: a process starts with 1,024, and nodes may be more."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return CONNECTIONS + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OWN_FILES + BUSY
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else soft


def connections_for(files: int) -> int:
    """A connection for which there is no file left would stop the server from listening to anybody."""
    return max(16, min(CONNECTIONS, files - OWN_FILES - BUSY))


@final
class Seldom(logging.Filter):
    """What anybody can make uvicorn say is said at once, and then with a count now and then."""

    def __init__(self, count: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._count, self._clock = count, clock
        self._said: dict[str, tuple[float, int]] = {}  # when, and how often since

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        kind = next((one for one in ANYBODYS if text.startswith(one)), None)
        if kind is None:
            return True
        self._count("http")
        now = self._clock()
        last, more = self._said.get(kind, (now - OFTEN, 0))
        if now - last < OFTEN:
            self._said[kind] = last, more + 1
            return False
        self._said[kind] = now, 0
        if more:
            record.msg, record.args = f"{text} ({more} more of these since the last line)", ()
        return True


class PatientProtocol(HttpToolsProtocol):
    _waits: asyncio.TimerHandle | None = None
    _in_head = False  # a request has begun, and its head has not ended
    _head = 0  # bytes of it: of what came whole, and
    _unfinished = 0  # of what came since a head began, which may be one word that does not end

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + BUSY:
            transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._unfinished = self._unfinished + len(data) if self._in_head else 0
        if self._unfinished > HEAD_BYTES + len(data) and not self.transport.is_closing():  # the first of it may be of a request before
            self.send_400_response(f"a head of more than {HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        self._in_head, self._head, self._unfinished = True, 0, 0
        self._wait()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES:
            raise ValueError(f"a head of more than {HEAD_BYTES} bytes")  # the parser makes an invalid request of it: 400, and closed

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._stop_waiting()
        self._waits = self.loop.call_later(HEAD, self._close)

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
