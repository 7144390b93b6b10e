"""Real servers on loopback that are not what they should be: each dies, stalls, trickles, lies, truncates, fails or refuses on demand."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

BLOCK = 1 << 14


@dataclass
class Mischief:
    files: dict[str, bytes] = field(default_factory=dict)
    dies_after: int | None = None  # bytes in all: then nobody is there any more
    stalls_after: int | None = None  # bytes of an answer: then silence
    breaks_after: int | None = None  # bytes of an answer: then the connection ends
    trickles: bool = False  # a byte now and then
    lies: bool = False
    cut: int | None = None  # its files have no more bytes than this
    status: dict[str, int] = field(default_factory=dict)  # what it says instead
    ranges: bool = True  # ftp: REST
    asked: list[tuple[str, int]] = field(default_factory=list)  # path, from which byte
    sent: int = 0
    connections: int = 0
    ending: threading.Event = field(default_factory=threading.Event)
    died: threading.Event = field(default_factory=threading.Event)

    def content(self, path: str) -> bytes | None:
        data = self.files.get(path)
        if data is None:
            return None
        if self.lies:
            data = bytes([data[0] ^ 1]) + data[1:-1] + bytes([data[-1] ^ 1]) if len(data) > 1 else b"?"
        return data if self.cut is None else data[: self.cut]


@contextlib.contextmanager
def naughty_http(mischief: Mischief) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            mischief.connections += 1
            open_sockets.append(self.connection)

        def do_GET(self) -> None:
            path = unquote(self.path.lstrip("/"))
            wanted = self.headers.get("Range", "")
            start, end = 0, None
            if wanted and mischief.ranges:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, end = int(first), int(last) + 1 if last else None
            mischief.asked.append((path, start))
            data = mischief.content(path)
            code = mischief.status.get(path, mischief.status.get("*", 200 if data is not None else 404))
            if code >= 300 or data is None:
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            size = len(data)
            if start >= size and start:
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = data[start:end]
            self.send_response(206 if wanted and mischief.ranges else 200)
            if wanted and mischief.ranges:
                self.send_header("Content-Range", f"bytes {start}-{start + len(data) - 1}/{size}")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.give(data)

        def give(self, data: bytes) -> None:
            given = 0
            while given < len(data):
                if mischief.stalls_after is not None and given >= mischief.stalls_after:
                    mischief.ending.wait()
                if mischief.breaks_after is not None and given >= mischief.breaks_after:
                    self.close_connection = True
                    return
                if mischief.dies_after is not None and mischief.sent >= mischief.dies_after:
                    die()
                if mischief.ending.is_set() or mischief.died.is_set():
                    self.close_connection = True
                    return
                block = data[given : given + (1 if mischief.trickles else BLOCK)]
                try:
                    self.wfile.write(block)
                except OSError:
                    self.close_connection = True
                    return
                given += len(block)
                mischief.sent += len(block)
                if mischief.trickles:
                    mischief.ending.wait(0.05)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # whoever breaks off must not be surprised

    open_sockets: list[socket.socket] = []
    server = Server(("127.0.0.1", 0), Handler)

    def die() -> None:
        mischief.died.set()
        server.socket.close()
        for sock in open_sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        mischief.ending.set()
        with contextlib.suppress(ValueError):  # it died: its socket is closed
            server.shutdown()
        thread.join()
        for sock in open_sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        server.server_close()


class _Source(io.RawIOBase):
    """A file as pyftpdlib reads it, that knows mischief. It is read in the server's only thread: when this waits, everything does."""

    def __init__(self, data: bytes, name: str, mischief: Mischief) -> None:
        self._data, self.name, self._mischief = data, name, mischief
        self._at = self._given = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        assert whence == 0
        self._at = offset
        self._mischief.asked[-1] = (self._mischief.asked[-1][0], offset)
        return offset

    def read(self, size: int = -1) -> bytes:
        mischief = self._mischief
        if mischief.stalls_after is not None and self._given >= mischief.stalls_after:
            mischief.ending.wait()
        if mischief.breaks_after is not None and self._given >= mischief.breaks_after and self._at < len(self._data):
            raise OSError("broken")
        if mischief.dies_after is not None and mischief.sent >= mischief.dies_after:
            mischief.died.set()
            raise OSError("dead")
        block = self._data[self._at : self._at + (1 if mischief.trickles else min(size, BLOCK))]
        if mischief.trickles:
            mischief.ending.wait(0.02)
        self._at += len(block)
        self._given += len(block)
        mischief.sent += len(block)
        return block


@contextlib.contextmanager
def naughty_ftp(mischief: Mischief) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from pyftpdlib.authorizers import DummyAuthorizer
        from pyftpdlib.filesystems import AbstractedFS
        from pyftpdlib.handlers import FTPHandler
        from pyftpdlib.ioloop import IOLoop
        from pyftpdlib.servers import FTPServer

    class Files(AbstractedFS):  # type: ignore[misc]
        def ftp2fs(self, ftppath: str) -> str:
            return str(self.ftpnorm(ftppath)).lstrip("/")

        def fs2ftp(self, fspath: str) -> str:
            return "/" + fspath

        def validpath(self, path: str) -> bool:
            return True

        def getsize(self, path: str) -> int:
            return len(mischief.content(path) or b"")

        def open(self, filename: str, mode: str) -> Any:
            mischief.asked.append((filename, 0))
            data = mischief.content(filename)
            if data is None or filename in mischief.status or "*" in mischief.status:
                raise OSError(2, "no such file")
            return _Source(data, filename, mischief)

    users = DummyAuthorizer()
    users.add_user("ann", "secret", "/", perm="elr")

    class Handler(FTPHandler):  # type: ignore[misc]
        authorizer = users
        abstracted_fs = Files
        use_sendfile = False
        auth_failed_timeout = 0.05

        def on_connect(self) -> None:
            mischief.connections += 1

        def log(self, *_: Any, **__: Any) -> None:
            pass

        logline = logerror = log_exception = log

        if not mischief.ranges:

            def ftp_REST(self, line: str) -> None:
                self.respond("502 Command not implemented.")

    server = FTPServer(("127.0.0.1", 0), Handler, ioloop=IOLoop())
    url = f"ftp://ann:secret@127.0.0.1:{server.address[1]}/"

    def serve() -> None:
        while not (mischief.ending.is_set() or mischief.died.is_set()):
            server.ioloop.loop(timeout=0.02, blocking=False)
        server.close_all()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield url
    finally:
        mischief.ending.set()
        thread.join()
        server.ioloop.close()


@contextlib.contextmanager
def nobody() -> Iterator[str]:
    """A port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
