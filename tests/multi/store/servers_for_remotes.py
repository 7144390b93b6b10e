"""Real servers on loopback, in threads of the test, gone when it ends."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import paramiko


@contextlib.contextmanager
def ftp_server(root: Path, *, may_write: bool = True) -> Iterator[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it still imports asyncore where there is one
        from pyftpdlib.authorizers import DummyAuthorizer
        from pyftpdlib.handlers import FTPHandler
        from pyftpdlib.servers import FTPServer

    users = DummyAuthorizer()
    users.add_user("ann", "p@ss/word", str(root), perm="elradfmwMT" if may_write else "elr")
    handler = type("Handler", (FTPHandler,), {"authorizer": users, "timeout": 30, "auth_failed_timeout": 0.05})
    server = FTPServer(("127.0.0.1", 0), handler)
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            server.serve_forever(timeout=0.05, blocking=False)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.address[1]
    finally:
        ending.set()
        thread.join()
        server.close_all()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def http_server(root: Path) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def deaf_server() -> Iterator[int]:
    """Accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


@contextlib.contextmanager
def sftp_server(root: Path) -> Iterator[int]:
    key = paramiko.RSAKey.generate(2048)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ending = threading.Event()
    transports: list[paramiko.Transport] = []

    def serve() -> None:
        while not ending.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            transport = paramiko.Transport(connection)
            transports.append(transport)
            transport.add_server_key(key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, functools.partial(_Files, root=root))
            # A client that does not know the key hangs up, and how that arrives (an end, a reset) is for the kernel to say.
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(server=_Login())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ending.set()
        thread.join()
        for transport in transports:
            transport.close()
            transport.join()
        listener.close()


class _Login(paramiko.ServerInterface):
    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL if (username, password) == ("ann", "secret") else paramiko.AUTH_FAILED

    def check_channel_request(self, _kind: str, _chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def get_allowed_auths(self, _username: str) -> str:
        return "password"


class _Files(paramiko.SFTPServerInterface):
    def __init__(self, _server: paramiko.ServerInterface, root: Path) -> None:
        super().__init__(_server)
        self._root = root

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _try(self, call: object, *args: object) -> int:
        try:
            call(*args)  # type: ignore[operator]
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return paramiko.SFTP_OK

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(self._at(path)))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    lstat = stat

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        try:
            return [paramiko.SFTPAttributes.from_stat(p.stat(), p.name) for p in self._at(path).iterdir()]
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def open(self, path: str, flags: int, _attr: object) -> paramiko.SFTPHandle | int:
        try:
            file = os.fdopen(os.open(self._at(path), flags, 0o644), "wb" if flags & os.O_WRONLY else "r+b" if flags & os.O_RDWR else "rb")
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        handle = paramiko.SFTPHandle(flags)
        handle.readfile = handle.writefile = file  # type: ignore[attr-defined]
        handle.stat = lambda: paramiko.SFTPAttributes.from_stat(os.fstat(file.fileno()))  # type: ignore[method-assign]
        return handle

    def remove(self, path: str) -> int:
        return self._try(os.remove, self._at(path))

    def rename(self, old: str, new: str) -> int:
        return self._try(os.rename, self._at(old), self._at(new))

    posix_rename = rename

    def mkdir(self, path: str, _attr: object) -> int:
        return self._try(os.mkdir, self._at(path))
