"""The shelf over ftp: anonymous, to be read and listed, never written. Paths are looked up, and never put together with a folder."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import warnings
from collections.abc import Iterator
from typing import IO, Any

from laminar.data.serve.shelf import Shelf

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it still imports asyncore where there is one
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.exceptions import FilesystemError
    from pyftpdlib.filesystems import AbstractedFS
    from pyftpdlib.handlers import DTPHandler, FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

POLL = 0.1  # seconds after which the end is noticed


def _filesystem(shelf: Shelf) -> type:
    class Shown(AbstractedFS):  # type: ignore[misc]
        """What pyftpdlib takes for real paths are those of the shelf, with a slash before them."""

        def ftp2fs(self, ftppath: str) -> str:
            path: str = self.ftpnorm(ftppath)
            return path

        def fs2ftp(self, fspath: str) -> str:
            return fspath

        def validpath(self, path: str) -> bool:
            return self.isfile(path) or self.isdir(path)

        def chdir(self, path: str) -> None:
            if not self.isdir(path):
                raise FilesystemError("no such folder")
            self.cwd = path

        def open(self, filename: str, mode: str) -> IO[bytes]:
            found = shelf.find(filename.strip("/"))
            if found is None or mode != "rb":
                raise FilesystemError("no such file")
            return open(found, "rb")

        def listdir(self, path: str) -> list[str]:
            return shelf.names(path.strip("/")) or []

        listdirinfo = listdir

        def stat(self, path: str) -> os.stat_result:
            if self.isdir(path):
                return os.stat_result((stat.S_IFDIR | 0o555, 0, 0, 1, 0, 0, 0, 0, 0, 0))
            found = shelf.find(path.strip("/"))
            if found is None:
                raise FilesystemError("no such file")
            return os.stat(found)

        lstat = stat

        def isfile(self, path: str) -> bool:
            return shelf.find(path.strip("/")) is not None

        lexists = validpath

        def isdir(self, path: str) -> bool:
            return shelf.names(path.strip("/")) is not None

        def islink(self, path: str) -> bool:  # noqa: ARG002 - a link within the folder looks like the file it leads to
            return False

        def getsize(self, path: str) -> int:
            return self.stat(path).st_size

        def getmtime(self, path: str) -> float:
            return self.stat(path).st_mtime

        def realpath(self, path: str) -> str:
            return path

        def get_user_by_uid(self, uid: Any) -> str:  # noqa: ARG002 - nobody's business
            return "mirror"

        get_group_by_gid = get_user_by_uid

    return Shown


@contextlib.contextmanager
def serving_ftp(shelf: Shelf, sock: socket.socket) -> Iterator[None]:
    """Serve on a socket that is bound, in a thread, until the block ends."""
    users = DummyAuthorizer()
    users.add_anonymous(os.getcwd(), perm="elr")  # it wants a folder that exists; nothing is read from there

    class Channel(DTPHandler):  # type: ignore[misc]
        ac_out_buffer_size = 1 << 18  # where sendfile is not to be had

    class Handler(FTPHandler):  # type: ignore[misc]
        authorizer = users
        abstracted_fs = _filesystem(shelf)
        dtp_handler = Channel
        banner = "a mirror"
        timeout = 300

        def log(self, *_: Any, **__: Any) -> None:
            """Who fetches what is nobody's business."""

        logline = log

    server = FTPServer(sock, Handler, ioloop=IOLoop(), backlog=512)
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            server.ioloop.loop(timeout=POLL, blocking=False)

    thread = threading.Thread(target=serve, name="mirror-ftp", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        server.close_all()
        server.ioloop.close()
