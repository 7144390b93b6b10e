"""Remembering what was read: a fact about files is believed as long as their size, mtime, ctime and inode stand.

The racy-clean rule: a file may change twice within one tick of its file system's clock and look the same. So a fact is kept
only when every file was at rest for SLACK before it was looked at; a younger one is simply read again next time.
A memory that cannot be read, or was damaged, is no memory; one that cannot be written is only slow.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import msgspec

from laminar.core import atomic, digest
from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError

SLACK_NS = 2_000_000_000  # the coarsest clock still in use: FAT stamps every two seconds

Signature = tuple[int, int, int, int]  # size, mtime, ctime, inode
T = TypeVar("T", bound=msgspec.Struct)


class _Record(msgspec.Struct):
    check: str
    value: msgspec.Raw


class _Fact(msgspec.Struct):
    signature: str
    value: msgspec.Raw


@final
class Memory:
    """Checked JSON records in a folder, by name."""

    def __init__(self, folder: Path, *, clock: Clock = SYSTEM) -> None:
        self.folder = folder
        self._clock = clock

    def now_ns(self) -> int:
        return int(self._clock.now() * 1e9)

    def read(self, name: str, kind: type[T]) -> T | None:
        try:
            record = msgspec.json.decode((self.folder / f"{name}.json").read_bytes(), type=_Record)
            if hashlib.sha256(record.value).hexdigest() != record.check:
                return None
            return msgspec.json.decode(record.value, type=kind)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def write(self, name: str, value: msgspec.Struct) -> None:
        with contextlib.suppress(LaminarError, OSError, UnicodeError):
            raw = msgspec.json.encode(value)
            record = _Record(check=hashlib.sha256(raw).hexdigest(), value=msgspec.Raw(raw))
            atomic.write_bytes(self.folder / f"{name}.json", msgspec.json.encode(record))

    def forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self.folder / f"{name}.json").unlink(missing_ok=True)

    def about_files(self, files: Sequence[Path], kind: type[T], learn: Callable[[], T], *, of: Any) -> T:
        """What `learn()` finds out by reading `files`, without reading them again while they stand. `of` names the question."""
        name = digest.of_json([of, [str(f) for f in files]])
        for _ in range(3):
            at = self.now_ns()
            before = [digest.stat_signature(f) for f in files]
            signature = digest.of_json(before)
            fact = self.read(name, _Fact)
            if fact is not None and fact.signature == signature:
                with contextlib.suppress(msgspec.MsgspecError):
                    return msgspec.json.decode(fact.value, type=kind)
            found = learn()
            if [digest.stat_signature(f) for f in files] == before:
                if all(at_rest(s, at) for s in before):
                    self.write(name, _Fact(signature=signature, value=msgspec.Raw(msgspec.json.encode(found))))
                return found
        raise LaminarError(
            "L102", f"{files[0]} is being written: it changed three times while it was read", hint="wait until the data is complete"
        )


def at_rest(signature: Signature, at_ns: int) -> bool:
    return max(signature[1], signature[2]) + SLACK_NS <= at_ns
