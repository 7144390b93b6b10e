"""Index: which object files are known to hold what their name says.

An object is hashed when it is written. Afterwards its stat signature (size, mtime, ctime, inode) stands for its content: a file whose
signature is not the recorded one is hashed again before anybody believes it. A read-only bit or an equal size proves nothing.
What is not seen: a change of the bytes under an unchanged signature (a failing disk; an edit within the clock tick of the write).
`laminar verify` hashes everything for that.

The file is a cache, append-only, fixed-size entries with a CRC. Losing it costs one rehash.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, final

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.places import BINARY

Signature = tuple[int, int, int, int]
_ENTRY: Final = struct.Struct("<32s4qI4x")  # digest, signature, CRC of the 64 bytes before it
_BODY: Final = struct.Struct("<32s4q")
_SLACK: Final = 4096  # outdated entries that are not worth a rewrite


def signature(stat: os.stat_result) -> Signature:
    return (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@final
class Index:
    """Digest -> signature under which its file was last seen to be right."""

    def __init__(self, path: Path, tmp: Path) -> None:
        self._path = path
        self._tmp = tmp
        self._known: dict[bytes, Signature] = {}
        self._read = 0  # bytes of the file that are in `_known`
        self._inode = 0
        self._lock = threading.Lock()

    def trusts(self, digest: str, seen: Signature) -> bool:
        key = bytes.fromhex(digest)
        with self._lock:
            if self._known.get(key) == seen:
                return True
            self._catch_up()  # another process may have written it meanwhile
            return self._known.get(key) == seen

    def add(self, entries: Iterable[tuple[str, Signature]]) -> None:
        """Remember files that were just written or hashed. A store that cannot be written is no error: it only costs time."""
        new = {bytes.fromhex(digest): seen for digest, seen in entries}
        if not new:
            return
        with self._lock:
            self._known.update(new)
            data = b"".join(_packed(key, seen) for key, seen in new.items())
            with contextlib.suppress(OSError):
                fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, 0o644)
                try:
                    torn = os.fstat(fd).st_size % _ENTRY.size  # a writer died in the middle
                    os.write(fd, bytes(_ENTRY.size - torn) + data if torn else data)
                finally:
                    os.close(fd)

    def prune(self, live: Callable[[str], bool]) -> None:
        """Forget objects that are gone."""
        with self._lock:
            self._catch_up()
            dead = [key for key in self._known if not live(key.hex())]
            for key in dead:
                del self._known[key]
            if dead:
                self._compact()

    def damaged(self) -> int:
        """How many entries of the file hold something else than was written. Nobody believes them: they only cost a rehash each."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        whole = len(data) - len(data) % _ENTRY.size  # a torn end is that of a killed writer
        return sum(not _is_whole(data[at : at + _ENTRY.size]) for at in range(0, whole, _ENTRY.size))

    def rebuild(self) -> None:
        """Write the file anew, without what is damaged in it."""
        with self._lock:
            self._known, self._read = {}, 0
            self._catch_up()
            self._compact()

    def _catch_up(self) -> None:
        try:
            stat = os.stat(self._path)
        except OSError:
            return
        if stat.st_ino != self._inode or stat.st_size < self._read:  # rewritten
            self._read, self._inode = 0, stat.st_ino
        if stat.st_size - self._read < _ENTRY.size:
            return
        with contextlib.suppress(OSError), open(self._path, "rb") as file:
            file.seek(self._read)
            data = file.read()
            whole = len(data) - len(data) % _ENTRY.size
            for key, size, mtime, ctime, inode, crc in _ENTRY.iter_unpack(memoryview(data)[:whole]):
                seen = (size, mtime, ctime, inode)
                if zlib.crc32(_BODY.pack(key, *seen)) == crc:
                    self._known[key] = seen
            self._read += whole
            if self._read // _ENTRY.size > 2 * len(self._known) + _SLACK:
                with contextlib.suppress(LaminarError):  # a store that may not be written: it stays long
                    self._compact()

    def _compact(self) -> None:
        """Keep the newest entry of each object. An entry that another process appends meanwhile is lost: one rehash."""
        data = b"".join(_packed(key, seen) for key, seen in self._known.items())
        atomic.write_bytes(self._path, data, tmp=self._tmp)
        self._read, self._inode = len(data), os.stat(self._path).st_ino


def _is_whole(entry: bytes) -> bool:
    """As it was written; or what a killed writer left of it, which the next one filled up with zeros."""
    body, rest = entry[: _BODY.size], entry[_BODY.size :]
    return rest == zlib.crc32(body).to_bytes(4, "little") + bytes(4) or rest == bytes(8)


def _packed(key: bytes, seen: Signature) -> bytes:
    return _ENTRY.pack(key, *seen, zlib.crc32(_BODY.pack(key, *seen)))
