"""From the URL of a mirror to readers of it, and from there to a file on it."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from laminar.core.errors import LaminarError
from laminar.data.mirrors.readers.protocol import Reader, Timeouts
from laminar.data.mirrors.readers.reach import refuse_scheme
from laminar.store import drivers

_CONNECTIONS: Final = {"http": 3, "https": 3, "ftp": 3}


def connections(url: str) -> int:
    """How many are opened to a mirror at most."""
    return _CONNECTIONS.get(drivers.scheme_of(url), 2)


def must_be_mirror(url: str) -> None:
    """L008 for what is no URL, or of a scheme that nothing here knows; L504 for one that may not be used just now (reach.py)."""
    drivers.must_be_url(url)
    refuse_scheme(url)
    scheme = drivers.scheme_of(url)
    if scheme in drivers.SCHEMES:
        return
    from fsspec import available_protocols

    if scheme not in available_protocols():
        hint = "write a folder, or a URL with http://, https://, ftp://, s3:// or ssh://"
        raise LaminarError("L008", f"no way to read {scheme}:// ({drivers.masked(url)})", hint=hint)


def reader_of(url: str, timeouts: Timeouts) -> Reader:
    """Not connected yet."""
    scheme = drivers.scheme_of(url)
    if scheme in ("http", "https"):
        from laminar.data.mirrors.readers.http_reader import HttpReader

        return HttpReader(url, timeouts)
    if scheme == "ftp":
        from laminar.data.mirrors.readers.ftp_reader import FtpReader

        return FtpReader(url, timeouts)
    if scheme == "file":
        from laminar.data.mirrors.readers.folder_reader import FolderReader

        return FolderReader(Path(unquote(urlsplit(url).path) if "://" in url else url).expanduser())
    from laminar.data.mirrors.readers.fsspec_reader import FsspecReader

    return FsspecReader(url)


def beneath(url: str, path: str) -> str:
    """The URL of a file of a mirror: a query stays behind it."""
    place, mark, query = url.partition("?") if "://" in url else (url, "", "")
    return f"{place.rstrip('/')}/{path}{mark}{query}"


def parted(url: str) -> tuple[str, str]:
    """The mirror and the file of a URL."""
    is_url = "://" in url
    place, mark, query = url.partition("?") if is_url else (url, "", "")
    folder, _, name = place.rpartition("/")
    if is_url:
        return f"{folder}{mark}{query}", unquote(name)
    return folder or ("/" if url.startswith("/") else "."), name
