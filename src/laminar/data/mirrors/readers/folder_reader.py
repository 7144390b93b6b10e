"""A mirror that is a folder of this machine, or one that is mounted."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import final

from laminar.core.places import BINARY, NO_WAIT, read_at
from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.readers.protocol import BLOCK, Ask


@final
class FolderReader:
    def __init__(self, root: Path) -> None:
        self._root = root

    def stream(self, ask: Ask) -> Generator[bytes, None, None]:
        try:
            fd = os.open(self._root / ask.path, os.O_RDONLY | NO_WAIT | BINARY)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self._root.is_dir():
                raise Fault(Kind.UNREACHABLE, "there is no such folder") from error
            raise Fault(Kind.MISSING, "no such file") from error
        except OSError as error:
            raise Fault(Kind.REFUSED, error.strerror or str(error)) from error
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Fault(Kind.MISSING, "not a file")
            if ask.size is not None and found.st_size != ask.size:
                raise Fault(Kind.SHORT, f"{found.st_size:,} bytes, not {ask.size:,}")
            at, end = ask.start, found.st_size if ask.end is None else ask.end
            while at < end:
                block = read_at(fd, min(BLOCK, end - at), at)
                if not block:
                    raise Fault(Kind.SHORT, f"ends after {at:,} bytes")
                at += len(block)
                yield block
        except OSError as error:
            raise Fault(Kind.BROKE, error.strerror or str(error)) from error
        finally:
            os.close(fd)

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass
