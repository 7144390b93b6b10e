"""Files on another machine, whatever carries them: a folder, what fsspec can reach, FTP; and how their connections end.

drivers.py makes these out of URLs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, final
from urllib.parse import quote, unquote

from laminar.core import atomic
from laminar.core.places import BINARY, NO_WAIT

GOODBYE: Final = 3.0
"""Seconds that a server has to take note of the end of a connection."""


NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


class Driver(Protocol):
    """Files below one place. Paths are relative, with slashes. A missing file is a FileNotFoundError."""

    writable: bool
    workers: int  # calls that may be made at once

    def get(self, path: str, target: Path) -> None:
        """Fill a local file."""
        ...

    def put(self, source: Path, path: str) -> None:
        """All or nothing: nobody ever sees a half file under its name."""
        ...

    def read(self, path: str) -> bytes: ...

    def list(self, folder: str) -> dict[str, int | None]:
        """Names in a folder -> size (None: a folder, or not told). Empty when there is no such folder."""
        ...

    def close(self) -> None:
        """End the connection. May be called twice; throws nothing, for all that matters is done."""
        ...


class LedOutside(Exception):
    """A link in a folder leads out of it."""


@final
class Folder:
    """A folder of this machine, or one that is mounted. Others may write it too: what is no file is not read, and a link that leads out of
    it is not followed, neither to read nor to write."""

    writable = True
    workers = 4

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, path: str, target: Path) -> None:
        with self._opened(path) as source, open(target, "wb") as file:
            _copy(source.fileno(), file.fileno())

    def put(self, source: Path, path: str) -> None:
        with open(source, "rb") as old, atomic.writing(self.place(path)) as new:
            _copy(old.fileno(), new.fileno())

    def read(self, path: str) -> bytes:
        with self._opened(path) as file:
            return file.read()

    def list(self, folder: str) -> dict[str, int | None]:
        try:
            with os.scandir(self.place(folder)) as entries:
                return {entry.name: entry.stat().st_size if entry.is_file() else None for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def digest(self, path: str) -> str:
        """The sha256 of a file, which is read where it lies."""
        with self._opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def place(self, path: str) -> Path:
        """Where the path leads, links followed: LedOutside where that is not in the folder."""
        root = os.path.realpath(self.root)
        found = os.path.realpath(os.path.join(root, path))
        if os.path.commonpath((root, found)) != root:
            raise LedOutside(f"{path} is a link to {found}, outside of {self.root}")
        return Path(found)

    def _opened(self, path: str) -> io.FileIO:
        """For reading, and a file: a pipe would be waited for, and a device never ends."""
        fd = os.open(self.place(path), os.O_RDONLY | BINARY | NO_WAIT | NO_LINK)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "it is no file", path)
        return io.FileIO(fd, "rb")

    def close(self) -> None:
        pass


@final
class Fsspec:
    """Whatever fsspec can reach.

    `replaces`: its put is atomic by itself and needs no folders, as in object stores; else a temporary name is used.
    `quotes`: paths are parts of a URL, so that a % in a name must be written %25.
    `close`: ends its connections.
    """

    def __init__(
        self,
        fs: Any,
        root: str,
        *,
        writable: bool = True,
        replaces: bool = False,
        quotes: bool = False,
        workers: int = 1,
        close: Callable[[], None] | None = None,
    ) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._replaces = replaces
        self._quotes = quotes
        self._close = close
        self._made: set[str] = set()
        self.writable = writable
        self.workers = workers

    def get(self, path: str, target: Path) -> None:
        self._fs.get_file(self._at(path), str(target))

    def put(self, source: Path, path: str) -> None:
        self._put(path, lambda place: self._fs.put_file(str(source), place))

    def read(self, path: str) -> bytes:
        data: bytes = self._fs.cat_file(self._at(path))
        return data

    def read_range(self, path: str, start: int, end: int) -> bytes:
        data: bytes = self._fs.cat_file(self._at(path), start=start, end=end)
        return data

    def list(self, folder: str) -> dict[str, int | None]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._at(folder), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        names = ((item["name"].rstrip("/").rsplit("/", 1)[-1], item) for item in found)
        return {unquote(name) if self._quotes else name: item["size"] if item["type"] == "file" else None for name, item in names if name}

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def _put(self, path: str, store: Callable[[str], None]) -> None:
        place = self._at(path)
        if self._replaces:
            store(place)
            return
        folder = place.rsplit("/", 1)[0]
        if folder not in self._made:
            self._fs.makedirs(folder, exist_ok=True)
            self._made.add(folder)
        temporary = f"{folder}/.{os.urandom(8).hex()}.tmp"
        try:
            store(temporary)
            self._fs.mv(temporary, place)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error tells more
                self._fs.rm_file(temporary)
            raise

    def _at(self, path: str) -> str:
        return f"{self._root}/{quote(path) if self._quotes else path}".rstrip("/")


@final
class Ftp:
    """FTP. fsspec connects and lists; whole files go over one data connection each, which its own file objects do not."""

    writable = True
    workers = 1  # one control connection

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._plain = Fsspec(fs, root)

    def get(self, path: str, target: Path) -> None:
        with open(target, "wb") as file:
            self._retrieve(path, file.write)

    def put(self, source: Path, path: str) -> None:
        def store(place: str) -> None:
            with open(source, "rb") as file:
                self._fs.ftp.storbinary(f"STOR {place}", file, blocksize=1 << 18)
                self._must_have(place, file.tell())

        self._plain._put(path, store)

    def read(self, path: str) -> bytes:
        parts: list[bytes] = []
        self._retrieve(path, parts.append)
        return b"".join(parts)

    def list(self, folder: str) -> dict[str, int | None]:
        return self._plain.list(folder)

    def close(self) -> None:
        from ftplib import all_errors

        with contextlib.suppress(*all_errors):  # a server that is gone need not be told
            if self._fs.ftp.sock is not None:
                self._fs.ftp.sock.settimeout(GOODBYE)
                self._fs.ftp.quit()
        self._fs.ftp.close()

    def _must_have(self, place: str, size: int) -> None:
        """Before the file gets its name: a server may say that all is well after half of it. Not every one tells sizes."""
        from ftplib import error_perm

        with contextlib.suppress(error_perm):
            found = self._fs.ftp.size(place)
            if found is not None and found != size:
                raise OSError(f"the server has {found} of {size} bytes")

    def _retrieve(self, path: str, take: Callable[[bytes], object]) -> None:
        from ftplib import error_perm

        place = f"{self._root}/{path}"
        try:
            self._fs.ftp.retrbinary(f"RETR {place}", take, blocksize=1 << 18)
        except error_perm as error:
            if str(error).startswith("550"):
                raise FileNotFoundError(place) from error
            raise


def end_session(fs: Any, name: str, method: str, *args: Any) -> None:
    """Close the session that an asynchronous file system keeps. It would do so itself only when the garbage collector comes by, which may
    be in any thread and at any time."""
    session = getattr(fs, name, None)
    if session is None:
        return
    setattr(fs, name, None)
    from fsspec.asyn import sync

    with contextlib.suppress(Exception):
        sync(fs.loop, getattr(session, method), *args, timeout=GOODBYE)


def end_ssh(client: Any) -> None:
    """The client with its thread, which may have died by itself and left the socket."""
    transport = client.get_transport()
    with contextlib.suppress(OSError, EOFError):
        client.close()
    if transport is not None:
        transport.sock.close()
        if transport.is_alive():
            transport.join(GOODBYE)


def _copy(source: int, target: int) -> None:
    """In blocks, by the descriptors: neither file is buffered."""
    while block := os.read(source, 1 << 20):
        view = memoryview(block)
        while view.nbytes:
            view = view[os.write(target, view) :]
