"""Patience: connections that say nothing, or say it byte by byte, or never come to the point, are closed; at once where there are too many.

uvicorn waits for a request's head for ever, and keeps all of it, however long. It takes as many connections as come, and none any more when
there are too many. It hears of one with TLS when its handshake is over, which it may never be. And it logs a line for every request that is
none: strangers could fill a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from laminar.grid.server.door import OFTEN, VISIT, Door, Visit

HEAD_BYTES: Final = 64 << 10  # of an address and headers; a node's have less than one in sixty of that
HEAD: Final = 15.0  # seconds from the first moment of a connection, or from the first byte of a request, to the end of its head
TLS_BUFFER: Final = 32 << 10  # bytes for each connection, of which there are thousands; asyncio's own are 256 kB
GOODBYE: Final = 5.0  # seconds that the other side of TLS has to say that it has heard that all is over
ANYBODYS: Final = (
    "Invalid HTTP request",
    "Unsupported upgrade request",
    "No supported WebSocket library",
    "socket.accept() out of system resource",
)
CONNECTIONS: Final = 4096
OWN_FILES: Final = 200  # that the server opens itself: database, log, sockets
AT_ONCE: Final = 32  # connections that are taken before those that are there are looked at again
PASSING: Final = 3 * AT_ONCE  # that have a file, and are not counted yet, or not any more


def open_files() -> int:
    """How many this process may have, and it asks for as many as it is allowed: a process starts with 1,024, and nodes may be more."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return CONNECTIONS + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OWN_FILES + PASSING
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else soft


def connections_for(files: int) -> int:
    """A connection for which there is no file left would stop the server from listening to anybody."""
    return max(16, min(CONNECTIONS, files - OWN_FILES - PASSING))


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


class PatientConfig(uvicorn.Config):
    """uvicorn's, with a door; TLS is up to the protocol."""

    def __init__(self, app: Any, door: Door, certificate: tuple[Path, Path] | None = None, **more: Any) -> None:
        super().__init__(app, http=PatientProtocol, backlog=AT_ONCE, **more)
        self.door, self.context = door, None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
            SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_BUFFER)


class PatientProtocol(HttpToolsProtocol):
    config: PatientConfig
    _visit: Visit
    _waits: asyncio.TimerHandle | None = None
    _in_head = False  # a request has begun, and its head has not ended
    _head = 0  # bytes of it: of what came whole, and
    _unfinished = 0  # of what came since a head began, which may be one word that does not end
    _shaking: asyncio.Task[None] | None = None  # hands, by TLS
    _early = b""  # came with the last of it
    _lost = False

    def connection_made(self, transport: Any) -> None:
        there = transport.get_extra_info("peername")
        self._visit = self.config.door.come(str(there[0]) if there else "?", transport.abort)
        self._wait()
        if self.config.context is None:
            super().connection_made(transport)
            return
        transport.pause_reading()
        self.transport = transport
        self.connections.add(self)  # of those that are closed when the server ends
        self._shaking = self.loop.create_task(self._shake(transport, self.config.context))

    async def _shake(self, transport: Any, context: ssl.SSLContext) -> None:
        if transport.is_closing():  # there were too many
            return
        try:
            found = await self.loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=HEAD, ssl_shutdown_timeout=GOODBYE
            )
        except OSError:  # whatever it was, it was no TLS of ours, or it broke
            self._gone()
            return
        except BaseException:
            self._gone()
            transport.abort()
            raise
        self._shaking = None
        if self._lost or found is None or transport.is_closing():
            self._gone()
            return
        super().connection_made(found)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def _gone(self) -> None:
        self._lost = True
        self._stop_waiting()
        self.connections.discard(self)
        self.config.door.go(self._visit)

    def data_received(self, data: bytes) -> None:
        if self._shaking is not None:
            self._early += data
            return
        super().data_received(data)
        self._unfinished = self._unfinished + len(data) if self._in_head else 0
        if self._unfinished > HEAD_BYTES + len(data) and not self.transport.is_closing():  # the first of it may be of a request before
            self.send_400_response(f"a head of more than {HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        self._in_head, self._head, self._unfinished = True, 0, 0
        self._wait()
        self.config.door.begins(self._visit)
        super().on_message_begin()
        self.scope[VISIT] = self._visit  # type: ignore[typeddict-unknown-key]

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

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.config.door.ends(self._visit)
        if self.cycle.more_body:  # was not wanted; who goes on sending it may do so for a while, to be able to hear why
            self._wait()
        super().on_response_complete()

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
