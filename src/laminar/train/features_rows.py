"""Kept rows: the features of one prefix on disk, one row per sample, found by the sample's digest.

    features/<fkey>/t0.bin t1.bin …   rows of each feature, contiguous, memory-mapped by readers
                    samples.bin       the 16-byte digest of each row's sample
                    index.json        how many rows count, and a sha256 for every block of every file
                    used              touched at each use

Rows are only ever appended. They reach the disk first and the index second, so a kill leaves bytes behind the index that nobody
reads and the next append cuts off. A file whose size, times or inode are not those in the index is hashed again before use;
rows from the first bad block on are dropped and will be computed again. Callers hold the store's lock of the prefix while they
open and append; readers need none, as files are never changed below the index, only replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from laminar.core import atomic, digest
from laminar.core.clock import SYSTEM, Clock
from laminar.store import records
from laminar.train.kept import INDEX, USED, read_index

SAMPLES: Final = "samples.bin"
DIGEST: Final = 16
FORMAT: Final = 1

Array = NDArray[Any]


@final
class KeptRows:
    """Open under the lock. `shapes` are those of a row; everything is float32."""

    def __init__(self, folder: Path, shapes: Sequence[tuple[int, ...]], about: dict[str, Any], *, clock: Clock = SYSTEM) -> None:
        self.folder = folder
        self.shapes = [tuple(s) for s in shapes]
        self.rows = 0
        self.dropped = 0  # rows found bad on opening
        self._about, self._clock = about, clock
        self._width = {f"t{i}.bin": 4 * math.prod(s) for i, s in enumerate(self.shapes)} | {SAMPLES: DIGEST}
        self._blocks: list[dict[str, Any]] = []
        self._digests: NDArray[np.bytes_] = np.empty(0, dtype="S16")
        self._writing: dict[str, tuple[IO[bytes], Any]] = {}
        self._unwritten = 0
        with atomic.explaining_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._open()

    @property
    def row_bytes(self) -> int:
        return sum(self._width.values())

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def find(self, digests: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The row of each sample, -1 where it has none."""
        wanted = _as_keys(digests)
        if not self.rows or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.int64)
        order = np.argsort(self._digests, kind="stable")
        at = np.minimum(np.searchsorted(self._digests[order], wanted), self.rows - 1)
        found = order[at]
        return np.where(self._digests[found] == wanted, found, -1).astype(np.int64)

    def append(self, digests: NDArray[np.uint8], features: Sequence[Array]) -> None:
        """Write rows behind the last ones. They count after commit()."""
        if not self._writing:
            self._begin()
        with atomic.explaining_os_errors(self.folder):
            for name, rows in zip(self._width, [*features, digests], strict=True):
                data = np.ascontiguousarray(rows, dtype=np.uint8 if name == SAMPLES else np.float32)
                if data.nbytes != len(digests) * self._width[name]:
                    raise ValueError(f"{name}: {data.nbytes} bytes for {len(digests)} rows of {self._width[name]}")
                file, hasher = self._writing[name]
                file.write(data.data if data.nbytes else b"")
                hasher.update(data.data if data.nbytes else b"")
        self._digests = np.concatenate([self._digests, _as_keys(digests)])
        self._unwritten += len(digests)

    def commit(self) -> None:
        """Make the appended rows count: bytes first, then the index."""
        if not self._unwritten:
            return
        with atomic.explaining_os_errors(self.folder):
            for name, (file, hasher) in self._writing.items():
                file.flush()
                os.fsync(file.fileno())
                width = self._width[name]
                block = {"file": name, "offset": self.rows * width, "size": self._unwritten * width, "sha256": hasher.hexdigest()}
                self._blocks.append(block)
                self._writing[name] = (file, hashlib.sha256())
            self.rows += self._unwritten
            self._unwritten = 0
            self._write_index()

    def close(self) -> None:
        """Stop writing. What was not committed is forgotten."""
        for file, _ in self._writing.values():
            with contextlib.suppress(OSError):
                file.close()
        self._writing = {}
        self._digests = self._digests[: self.rows]
        self._unwritten = 0

    def arrays(self) -> list[Array]:
        """Every feature as a read-only memory map over all rows."""
        found: list[Array] = []
        for i, shape in enumerate(self.shapes):
            whole = (self.rows, *shape)
            found.append(
                np.memmap(self.folder / f"t{i}.bin", np.float32, "r", shape=whole) if math.prod(whole) else np.empty(whole, np.float32)
            )
        return found

    def touch(self) -> None:
        """Remember that the rows were used now; what was used least goes first when space is wanted."""
        with contextlib.suppress(OSError):
            used = self.folder / USED
            used.touch()
            os.utime(used, (self._clock.now(), self._clock.now()))

    def forget(self) -> None:
        """Drop all rows: they are not what the prefix computes."""
        self.close()
        self._drop_from(0)

    # ---- opening and repairing ----------------------------------------------------------------------------------------

    def _open(self) -> None:
        index = read_index(self.folder)
        if index is None or index.get("format") != FORMAT or [tuple(s) for s in index.get("shapes", [])] != self.shapes:
            self._remove_files()
            return
        self.rows, self._blocks = int(index["rows"]), list(index["blocks"])
        seen: dict[str, list[int]] = index["seen"]
        changed = [name for name in self._width if self._signature(name) != seen.get(name)]
        good = min((self._good_rows(name) for name in changed), default=self.rows)
        if good < self.rows:
            self.dropped = self.rows - good
            self._drop_from(good)
        elif changed:
            self._cut_garbage()
            self._write_index()
        if self.rows:
            self._digests = np.fromfile(self.folder / SAMPLES, dtype="S16", count=self.rows)

    def _signature(self, name: str) -> list[int] | None:
        try:
            return list(digest.stat_signature(self.folder / name))
        except OSError:
            return None

    def _good_rows(self, name: str) -> int:
        """Rows before the first block of a file whose content is not what was written."""
        width = self._width[name]
        try:
            with open(self.folder / name, "rb") as file:
                for block in self._blocks:
                    if block["file"] != name or not block["size"]:
                        continue
                    file.seek(block["offset"])
                    if _hash(file, block["size"]) != block["sha256"]:
                        return int(block["offset"]) // width
        except OSError:
            return 0
        return self.rows

    def _drop_from(self, good: int) -> None:
        """Keep `good` rows. New files take the place of the old, so that whoever has those mapped is not disturbed."""
        for name, width in self._width.items():
            if good:
                with open(self.folder / name, "rb") as old, atomic.writing(self.folder / name) as new:
                    _copy(old, new, good * width)
        if not good:
            self._remove_files()
        self._blocks = [b for b in self._blocks if b["size"] == 0 or b["offset"] // self._width[b["file"]] < good]
        self.rows = good
        self._digests = self._digests[:good]
        if good:
            self._write_index()

    def _remove_files(self) -> None:
        for name in (INDEX, *self._width):
            (self.folder / name).unlink(missing_ok=True)
        self.rows, self._blocks = 0, []

    def _cut_garbage(self) -> None:
        for name, width in self._width.items():
            path = self.folder / name
            if path.is_symlink():  # lent by another store (launch/workspace.py), which is not ours to change
                with open(path, "rb") as theirs, atomic.writing(path) as own:
                    _copy(theirs, own, self.rows * width)
            if path.exists() and path.stat().st_size > self.rows * width:
                os.truncate(path, self.rows * width)

    def _begin(self) -> None:
        self._cut_garbage()
        self._writing = {name: (open(self.folder / name, "ab"), hashlib.sha256()) for name in self._width}  # noqa: SIM115 - closed by close()

    def _write_index(self) -> None:
        content = {
            "format": FORMAT,
            "rows": self.rows,
            "shapes": [list(s) for s in self.shapes],
            "dtypes": ["F32"] * len(self.shapes),
            "blocks": self._blocks,
            "seen": {name: self._signature(name) for name in self._width},
            "used": self._clock.now(),
            "prefix": self._about,
        }
        records.write(self.folder / INDEX, content)


def _as_keys(digests: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Digests as fixed strings, which numpy can sort. Zero bytes at the end are dropped by comparisons on both sides alike."""
    return np.ascontiguousarray(digests, dtype=np.uint8).reshape(-1, DIGEST).view("S16").ravel()


def _hash(file: IO[bytes], size: int) -> str:
    hasher = hashlib.sha256()
    while size > 0 and (data := file.read(min(size, digest.CHUNK))):
        hasher.update(data)
        size -= len(data)
    return hasher.hexdigest()


def _copy(old: IO[bytes], new: IO[bytes], size: int) -> None:
    while size > 0 and (data := old.read(min(size, digest.CHUNK))):
        new.write(data)
        size -= len(data)
