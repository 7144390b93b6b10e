"""Remote: the files of a store on another machine, laid out as the store's own. Failures become errors that name host and cause."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final
from urllib.parse import unquote, urlsplit

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.store import drivers
from laminar.store.driver_files import Driver, Folder, LedOutside
from laminar.store.drivers import masked

_FOREIGN: Final = frozenset(
    {"aiohttp", "aiobotocore", "asyncio", "botocore", "fsspec", "ftplib", "paramiko", "s3fs", "socket", "ssl", "urllib3"}
)


@final
class Remote:
    """`with Remote.at(url) as remote:`. Relative paths, as in the store: objects/ab/cdef…, layers/<id>.json, keys/<key>.json,
    refs/<name>.json. Who opens a remote closes it: nobody it is handed to does."""

    def __init__(self, url: str, driver: Driver) -> None:
        self.url = url
        self.shown = masked(url)
        self.workers = driver.workers
        self.writable = driver.writable
        self._driver = driver

    @classmethod
    def at(cls, url: str) -> Remote:
        """L401 when it cannot be reached (within seconds), L011 when the library for it is not installed, L008 for an unknown scheme."""
        with _explaining(url, "", writing=False):
            return cls(url, drivers.connect(url))

    def close(self) -> None:
        """End the connection, if it has one. May be called twice."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.close()

    def digest(self, path: str) -> str:
        """The sha256 of a file of a folder, which is read where it lies."""
        assert isinstance(self._driver, Folder)
        with _explaining(self.url, path, writing=False):
            return self._driver.digest(path)

    def must_lead_inside(self, *paths: str) -> None:
        """L404 where one of these paths of a folder leads out of it by a link, or to something that is neither file nor folder."""
        assert isinstance(self._driver, Folder)
        for path in paths:
            with _explaining(self.url, path, writing=True):
                found = self._driver.place(path)
                if found.exists() and not (found.is_file() or found.is_dir()):
                    raise LedOutside(f"{path} is neither a file nor a folder")

    @property
    def folder(self) -> Path | None:
        """Where it lies, when it is a folder of this machine."""
        return self._driver.root if isinstance(self._driver, Folder) else None

    def get(self, path: str, target: Path) -> None:
        """Fill a local file. What arrives is not checked here: the caller knows its digest."""
        with _explaining(self.url, path, writing=False):
            self._driver.get(path, target)

    def read(self, path: str) -> bytes | None:
        """A small file; None when there is none."""
        try:
            with _explaining(self.url, path, writing=False):
                return self._driver.read(path)
        except LaminarError as error:
            if error.code == "L402":
                return None
            raise

    def put(self, path: str, source: Path | bytes) -> None:
        """Write a file, all or nothing. L404 where nothing may be written."""
        self.must_be_writable()
        with _explaining(self.url, path, writing=True):
            if isinstance(source, bytes):
                with tempfile.TemporaryDirectory(prefix="laminar-") as folder:
                    file = Path(folder) / "data"
                    file.write_bytes(source)
                    self._driver.put(file, path)
            else:
                self._driver.put(source, path)

    def to_push(self, ref: str, *, check: bool = False) -> str:
        """A hint: how what is missing or damaged here gets here. Nothing can be pushed to a place that can only be read."""
        option = "--check " if check else ""
        if self.writable:
            return f"laminar push {option}{self.shown} {ref}, from a store that has it"
        return f"ask whoever serves {self.shown} to run laminar push {option}FOLDER {ref} on the folder behind it"

    def must_be_writable(self) -> None:
        if not self.writable:
            scheme = drivers.scheme_of(self.url)
            raise LaminarError(
                "L404",
                f"{self.shown} cannot be written: {scheme}:// is read only",
                hint="push to a folder, ftp://, ssh:// or s3:// of the same place",
            )

    def make(self) -> None:
        """The folder itself, where the remote is one: the first push finds nothing there."""
        if self.folder is not None:
            with _explaining(self.url, "", writing=True), atomic.explaining_os_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)

    def exists(self, path: str) -> bool:
        folder, name = path.rsplit("/", 1)
        return name in self.list(folder)

    def list(self, folder: str) -> dict[str, int | None]:
        """Names in a folder -> size (None: a folder, or the server does not tell)."""
        with _explaining(self.url, folder, writing=False):
            return self._driver.list(folder)


@contextlib.contextmanager
def _explaining(url: str, path: str, *, writing: bool) -> Iterator[None]:
    """Turn what any driver throws into L301, L401, L402 or L404."""
    shown = masked(url)
    what = f"{shown.rstrip('/')}/{path}" if path else shown
    try:
        yield
    except LaminarError as error:
        if writing and error.code == "L302":
            raise LaminarError("L404", f"{shown} cannot be written: {error.message}", hint="ask its owner for write permission") from error
        raise
    except LedOutside as error:
        code = "L404" if writing else "L403"
        raise LaminarError(
            code, f"{what} is not used: {error}", hint="put the files themselves there instead of the link, or name the folder it leads to"
        ) from error
    except FileNotFoundError as error:
        if writing:
            why = without_password(str(error), url)
            raise LaminarError(
                "L404", f"{what} cannot be written: there is no such place ({why})", hint="make that folder or bucket first"
            ) from error
        raise LaminarError("L402", f"{what} does not exist", hint="check the address, and look at what is there") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LaminarError(
                "L301", f"no space left while copying {what}", hint="free space on that disk; then run the same command again"
            ) from error
        if not (isinstance(error, (OSError, EOFError)) or type(error).__module__.split(".")[0] in _FOREIGN):
            raise
        cause = without_password(f"{type(error).__name__}: {error}".rstrip(": "), url)
        if writing and (isinstance(error, PermissionError) or str(error).startswith("55")):
            raise LaminarError("L404", f"{what} cannot be written ({cause})", hint="ask its owner for write permission") from error
        host = urlsplit(url).netloc.rsplit("@", 1)[-1] if "://" in url else url
        raise LaminarError(
            "L401", f"{host or shown} cannot be reached for {what} ({cause})", hint="check the address, the network and your credentials"
        ) from error


def without_password(text: str, url: str) -> str:
    """Libraries write the whole URL into their messages."""
    password = urlsplit(url).password if "://" in url else None
    for secret in (password, unquote(password)) if password else ():
        text = text.replace(f":{secret}@", ":***@")
    return text
