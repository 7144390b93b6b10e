"""Streams into arrays: bytes of a file, unzipped where it is zipped, put where they belong without a second copy of the whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.room import CHUNK

_GZIP = b"\x1f\x8b"
MOST = 1032  # a byte of a gzip stream gives no more than so many


def fill(out: Array, stream: IO[bytes]) -> int:
    """Read bytes into the contiguous array `out` until it is full or the stream ends; how many there were."""
    flat = out.reshape(-1).view(np.uint8)
    done = 0
    # A mapped array is written to, not read into: that goes past the mapping, many times faster.
    while part := stream.read(min(CHUNK, len(flat) - done)):
        flat[done : done + len(part)] = np.frombuffer(part, dtype=np.uint8)
        done += len(part)
    return done


class Unzipped:
    """The content of a file in parts, unzipped if it is a gzip file. After the last part, `broken` says what went wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = ""

    def parts(self) -> Iterator[bytes]:
        try:
            with open(self.path, "rb") as file:
                zipped = file.read(2) == _GZIP
                file.seek(0)
                yield from self._unzip(file) if zipped else iter(lambda: file.read(1 << 20), b"")
        except zlib.error as error:
            self.broken = str(error)
        except OSError as error:
            raise LaminarError("L102", f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error

    def _unzip(self, file: IO[bytes]) -> Iterator[bytes]:
        # Not the gzip module: on a broken file it drops what it had of the last megabyte.
        stream = zlib.decompressobj(wbits=31)
        while chunk := stream.unused_data or file.read(1 << 16):
            if stream.eof:
                stream = zlib.decompressobj(wbits=31)
            while chunk:
                yield stream.decompress(chunk, CHUNK)
                chunk = stream.unconsumed_tail
        if not stream.eof:
            self.broken = "the gzip stream ends early"
