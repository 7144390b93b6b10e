"""Drivers: from a URL to files on another machine, over fsspec. Every call has a deadline.

/path, ./path, file://   a folder          ftp://user:password@host:port/path
memory://                for tests         ssh:// or sftp://user@host:port/path
http(s)://               read only         s3://bucket/path?endpoint=http://host:port
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, final
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

CONNECT: Final = 5.0
READ: Final = 15.0
EXTRAS: Final = {"http": "http", "https": "http", "s3": "s3", "ssh": "ssh", "sftp": "ssh"}


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


def scheme_of(url: str) -> str:
    return url.split("://", 1)[0].lower() if "://" in url else "file"


def masked(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rsplit("@", 1)[1]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}"))


def connect(url: str) -> Driver:
    scheme = scheme_of(url)
    if scheme not in _MAKERS:
        hint = "write a folder, or a URL with one of " + ", ".join(f"{name}://" for name in _MAKERS)
        raise LaminarError("L008", f"no driver for {scheme}:// ({masked(url)}); {did_you_mean(scheme, _MAKERS)}", hint=hint)
    return _MAKERS[scheme](url)


@final
class Folder:
    """A folder of this machine, or one that is mounted."""

    writable = True
    workers = 4

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, path: str, target: Path) -> None:
        with open(self.root / path, "rb") as source, open(target, "wb") as file:
            _copy(source.fileno(), file.fileno())

    def put(self, source: Path, path: str) -> None:
        with open(source, "rb") as old, atomic.writing(self.root / path) as new:
            _copy(old.fileno(), new.fileno())

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def list(self, folder: str) -> dict[str, int | None]:
        try:
            with os.scandir(self.root / folder) as entries:
                return {entry.name: entry.stat().st_size if entry.is_file() else None for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return {}


@final
class Fsspec:
    """Whatever fsspec can reach.

    `replaces`: its put is atomic by itself and needs no folders, as in object stores; else a temporary name is used.
    `quotes`: paths are parts of a URL, so that a % in a name must be written %25.
    """

    def __init__(
        self, fs: Any, root: str, *, writable: bool = True, replaces: bool = False, quotes: bool = False, workers: int = 1
    ) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._replaces = replaces
        self._quotes = quotes
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

    def list(self, folder: str) -> dict[str, int | None]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._at(folder), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        names = ((item["name"].rstrip("/").rsplit("/", 1)[-1], item) for item in found)
        return {unquote(name) if self._quotes else name: item["size"] if item["type"] == "file" else None for name, item in names if name}

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

        self._plain._put(path, store)

    def read(self, path: str) -> bytes:
        parts: list[bytes] = []
        self._retrieve(path, parts.append)
        return b"".join(parts)

    def list(self, folder: str) -> dict[str, int | None]:
        return self._plain.list(folder)

    def _retrieve(self, path: str, take: Callable[[bytes], object]) -> None:
        from ftplib import error_perm

        place = f"{self._root}/{path}"
        try:
            self._fs.ftp.retrbinary(f"RETR {place}", take, blocksize=1 << 18)
        except error_perm as error:
            if str(error).startswith("550"):
                raise FileNotFoundError(place) from error
            raise


def _folder(url: str) -> Driver:
    path = unquote(urlsplit(url).path) if url.lower().startswith("file://") else url
    return Folder(Path(path).expanduser().absolute())


def _memory(url: str) -> Driver:
    return Fsspec(_filesystem("memory"), "/" + url.split("://", 1)[1].strip("/"), replaces=True, workers=4)


def _http(url: str) -> Driver:
    fs = _filesystem("http")  # says what is missing before aiohttp is wanted
    from aiohttp import ClientTimeout

    fs = _filesystem(
        "http", client_kwargs={"timeout": ClientTimeout(total=None, sock_connect=CONNECT, sock_read=READ)}, use_listings_cache=False
    )
    return Fsspec(fs, url, writable=False, quotes=True, workers=4)


def _ftp(url: str) -> Driver:
    parts = urlsplit(url)
    fs = _filesystem(
        "ftp",
        host=parts.hostname or "",
        port=parts.port or 21,
        username=unquote(parts.username or "anonymous"),
        password=unquote(parts.password or ""),
        timeout=CONNECT if parts.hostname else 0.1,
        use_listings_cache=False,
    )
    fs.ftp.timeout = READ  # of the data connections
    fs.ftp.sock.settimeout(READ)
    return Ftp(fs, unquote(parts.path))


def _ssh(url: str) -> Driver:
    parts = urlsplit(url)
    options: dict[str, Any] = {"port": parts.port or 22, "timeout": CONNECT, "banner_timeout": CONNECT, "auth_timeout": 2 * CONNECT}
    if parts.username:
        options["username"] = unquote(parts.username)
    if parts.password is not None:  # said outright: do not try keys first
        options |= {"password": unquote(parts.password), "look_for_keys": False, "allow_agent": False}
    _filesystem("file")  # fsspec itself
    with _explaining_imports("ssh"):
        import paramiko  # type: ignore[import-untyped]
        from fsspec.implementations.sftp import SFTPFileSystem

    class Checked(SFTPFileSystem):  # type: ignore[misc]
        """fsspec's takes any key for any host. This one refuses a host whose key is not the one in known_hosts."""

        cachable = False

        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # a new host is taken at its word, as by `accept-new`
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()

    fs = Checked(host=parts.hostname or "", **options)
    fs.ftp.get_channel().settimeout(READ)
    return Fsspec(fs, unquote(parts.path))


def _s3(url: str) -> Driver:
    parts = urlsplit(url)
    endpoint = parse_qs(parts.query).get("endpoint", [os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")])[0]
    fs = _filesystem(
        "s3",
        endpoint_url=endpoint,
        config_kwargs={"connect_timeout": CONNECT, "read_timeout": READ, "retries": {"max_attempts": 0}},
        use_listings_cache=False,
    )
    fs.retries = 2
    return Fsspec(fs, f"{parts.netloc}{unquote(parts.path)}", replaces=True, workers=8)


def _filesystem(protocol: str, **options: Any) -> Any:
    with _explaining_imports(protocol):
        import fsspec  # 180 ms to import: only who goes out pays

        return fsspec.filesystem(protocol, skip_instance_cache=True, **options)


@contextlib.contextmanager
def _explaining_imports(protocol: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        extra = EXTRAS.get(protocol, protocol)
        raise LaminarError(
            "L011", f"{protocol}:// needs a library that is not installed: {error}", hint=f"pip install 'laminar[{extra}]'"
        ) from None


def _copy(source: int, target: int) -> None:
    """In blocks, by the descriptors: neither file is buffered."""
    while block := os.read(source, 1 << 20):
        view = memoryview(block)
        while view.nbytes:
            view = view[os.write(target, view) :]


_MAKERS: Final[dict[str, Callable[[str], Driver]]] = {
    "file": _folder,
    "memory": _memory,
    "ftp": _ftp,
    "ssh": _ssh,
    "sftp": _ssh,
    "s3": _s3,
    "http": _http,
    "https": _http,
}
