"""Digests: canonical JSON and sha256, the one way Laminar names content."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

CHUNK = 1 << 20


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces; equal values give equal bytes. NaN and infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def of_bytes(data: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def of_json(value: Any) -> str:
    return of_bytes(canonical(value))


def of_file(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stat_signature(path: Path | str) -> tuple[int, int, int, int]:
    """What must be unchanged for a cached digest of a file to be believed: size, mtime, ctime, inode."""
    s = os.stat(path)
    return (s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)


def short(digest: str) -> str:
    """The first twelve digits: what people see in tables."""
    return digest[:12]
