"""A mirror that fsspec can read: s3, ssh, whatever it knows. A block is a request, as large as the line is quick."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.readers.protocol import BLOCK, Ask
from laminar.store import drivers
from laminar.store.driver_files import Fsspec
from laminar.store.remote_files import without_password

LARGEST: Final = 1 << 22
QUICK: Final = 0.25  # seconds: the next block may be twice as large


@final
class FsspecReader:
    def __init__(self, url: str) -> None:
        self._url = url
        self._driver: Fsspec | None = None
        self._block = BLOCK

    def stream(self, ask: Ask) -> Generator[bytes, None, None]:
        driver = self._driver or self._explained(self._connect, otherwise=Kind.UNREACHABLE)
        if ask.end is None:
            yield self._explained(partial(driver.read, ask.path))
            return
        at = ask.start
        while at < ask.end:
            begin, count = time.perf_counter(), min(self._block, ask.end - at)
            block: bytes = self._explained(partial(driver.read_range, ask.path, at, at + count))
            if len(block) != count:
                raise Fault(Kind.SHORT, f"ends after {at + len(block):,} bytes")
            seconds = time.perf_counter() - begin
            self._block = min(self._block * 2, LARGEST) if seconds < QUICK else max(self._block // 2, BLOCK)
            at += count
            yield block

    def abort(self) -> None:
        pass  # such a call cannot be ended from here; it has a deadline of its own

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(Exception):
                driver.close()

    def _connect(self) -> Fsspec:
        if drivers.scheme_of(self._url) in drivers.SCHEMES:
            driver = drivers.connect(self._url)
            assert isinstance(driver, Fsspec)
        else:
            from fsspec.core import url_to_fs

            fs, root = url_to_fs(self._url, skip_instance_cache=True)
            driver = Fsspec(fs, root)
        self._driver = driver
        return driver

    def _explained(self, call: Callable[[], Any], *, otherwise: Kind = Kind.BROKE) -> Any:
        try:
            return call()
        except FileNotFoundError as error:
            raise Fault(Kind.MISSING, "no such file") from error
        except PermissionError as error:
            raise Fault(Kind.REFUSED, without_password(str(error), self._url)) from error
        except (LaminarError, ImportError) as error:
            raise Fault(Kind.LIBRARY, error.message if isinstance(error, LaminarError) else str(error)) from error
        except Exception as error:  # any library, any error: it is the mirror that failed
            self.close()
            why = without_password(f"{type(error).__name__}: {error}".rstrip(": "), self._url)
            kind = (
                Kind.LOGIN if "Authentication" in type(error).__name__ else Kind.STALLED if isinstance(error, TimeoutError) else otherwise
            )
            raise Fault(kind, why) from error
