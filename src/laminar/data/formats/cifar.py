"""The binary form of CIFAR-10: records of a label and 3,072 bytes of pixels, red, green and blue planes of 32x32."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import IO

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array, Split
from laminar.data.room import Room

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
_AT_ONCE = 1000  # records


def read_cifar(files: Iterable[tuple[str, int, IO[bytes]]], count: int, classes: int, room: Room) -> tuple[Split, str]:
    """`files` are (name, bytes, stream) in their order, `count` records in all; and the sha256 of all their content."""
    x, y = room.empty((count, *SHAPE), np.uint8), np.empty(count, dtype=np.int64)
    seen, done = hashlib.sha256(), 0
    for name, size, stream in files:
        for start in range(0, size // RECORD, _AT_ONCE):
            wanted = min(_AT_ONCE, size // RECORD - start)
            data = stream.read(wanted * RECORD)
            if len(data) != wanted * RECORD:
                raise truncated(name, start * RECORD + len(data))
            seen.update(data)
            rows: Array = np.frombuffer(data, dtype=np.uint8).reshape(wanted, RECORD)
            labels = rows[:, 0]
            if labels.max() >= classes:
                bad = int(np.argmax(labels >= classes))
                raise LaminarError(
                    "L110",
                    f"{name}: label {labels[bad]} of record {start + bad} is out of range, expected 0 to {classes - 1}",
                    hint="the file is damaged, or not CIFAR-10: fetch it again",
                )
            x[done : done + wanted] = rows[:, 1:].reshape(wanted, *SHAPE)
            y[done : done + wanted] = labels
            done += wanted
    return Split(x, y), seen.hexdigest()


def records_in(name: str, size: int) -> int:
    if size % RECORD or not size:
        raise truncated(name, size)
    return size // RECORD


def truncated(name: str, size: int) -> LaminarError:
    return LaminarError(
        "L102", f"{name} is truncated: {size:,} bytes, expected a multiple of {RECORD:,}", hint="the file is incomplete: fetch it again"
    )
