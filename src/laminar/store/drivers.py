"""Drivers: from a URL to files on another machine, over fsspec. Every call has a deadline.

/path, ./path, file://   a folder          ftp://user:password@host:port/path
memory://                for tests         ssh:// or sftp://user@host:port/path
http(s)://               read only         s3://bucket/path?endpoint=http://host:port
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.store.driver_files import Driver, Folder, Fsspec, Ftp, end_session, end_ssh

CONNECT: Final = 5.0
READ: Final = 15.0
EXTRAS: Final = {"http": "http", "https": "http", "s3": "s3", "ssh": "ssh", "sftp": "ssh"}


def scheme_of(url: str) -> str:
    return url.split("://", 1)[0].lower() if "://" in url else "file"


def masked(url: str) -> str:
    """The URL without its password, and without the tokens behind its question mark: for messages and records."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return masked_text(url)
    if parts.password is not None:
        host = parts.netloc.rsplit("@", 1)[1]
        url = urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}"))
    return re.sub(r"([?&](?!endpoint=)[^=&#]+)=[^&#]+", r"\1=***", url) if parts.query else url


def masked_text(text: str) -> str:
    """Text that should be a URL, or begin with one, and may be none: all that could be a password is hidden, rather too much of it."""
    pin = re.search(r"@sha256:[0-9a-fA-F]*$", text)
    head = text[: pin.start()] if pin else text
    return re.sub(r"(://[^/@:]*):.*@", r"\1:***@", head, flags=re.DOTALL) + text[len(head) :]


def without_credentials(url: str) -> str:
    """The place alone: whoever asks for it, and by whatever password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1]))


def must_be_url(text: str) -> None:
    """L008 for what has the look of a URL and is none: a bracket that is not closed, a port that is no number."""
    if "://" not in text:
        return
    try:
        _ = urlsplit(text).port
    except ValueError as error:
        hint = "write scheme://user@host:port/path; an IPv6 address stands in brackets: [::1]"
        raise LaminarError("L008", f"{masked(text)!r} is no URL: {error}", hint=hint) from None


def connect(url: str) -> Driver:
    must_be_url(url)
    scheme = scheme_of(url)
    if scheme not in _MAKERS:
        hint = "write a folder, or a URL with one of " + ", ".join(f"{name}://" for name in _MAKERS)
        raise LaminarError("L008", f"no driver for {scheme}:// ({masked(url)}); {did_you_mean(scheme, _MAKERS)}", hint=hint)
    return _MAKERS[scheme](url)


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
    return Fsspec(fs, url, writable=False, quotes=True, workers=4, close=lambda: end_session(fs, "_session", "close"))


def _ftp(url: str) -> Driver:
    parts = urlsplit(url)
    _filesystem("file")  # fsspec itself
    from fsspec.implementations.ftp import FTPFileSystem

    class Closing(FTPFileSystem):  # type: ignore[misc]
        """fsspec's leaves the connection to the garbage collector when the server refuses the user or does not answer."""

        def _connect(self) -> None:
            try:
                super()._connect()
            except BaseException:
                self.ftp.close()
                raise

    fs = Closing(
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

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
            """fsspec's asks for 32 kB at a time, and waits for them. This one asks for all at once."""
            with self.ftp.open(path, "rb") as file:
                if start is None or end is None:
                    file.prefetch()
                    data: bytes = file.read()
                    return data
                return b"".join(file.readv([(start, end - start)]))

        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # a new host is taken at its word, as by `accept-new`
            try:
                self.client.connect(self.host, **self.ssh_kwargs)
                self.ftp = self.client.open_sftp()
            except BaseException:
                end_ssh(self.client)
                raise

    fs = Checked(host=parts.hostname or "", **options)
    fs.ftp.get_channel().settimeout(READ)
    return Fsspec(fs, unquote(parts.path), close=lambda: end_ssh(fs.client))


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

    def close() -> None:
        end_session(fs, "_s3creator", "__aexit__", None, None, None)
        fs._s3 = None

    return Fsspec(fs, f"{parts.netloc}{unquote(parts.path)}", replaces=True, workers=8, close=close)


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
            "L011", f"{protocol}:// needs a library that is not installed: {error}", hint=f"pip install 'laminar-train[{extra}]'"
        ) from None


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

SCHEMES: Final = frozenset(_MAKERS)
