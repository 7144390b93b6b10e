"""Records: JSON on disk that carries its own checksum.

A record file is the canonical JSON of its content with one more member at the end, "check": the sha256 of that canonical JSON. It is
checked over the bytes as they lie on disk, so one flipped bit anywhere in the file is found, and nothing has to be encoded again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from laminar.core import atomic
from laminar.core.digest import canonical, of_bytes, of_json
from laminar.core.errors import LaminarError

_MARK: Final = b'"check":"'
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SIGN: Final = re.compile(rb"[][{}]")
DEEPEST: Final = 100
_TAIL: Final = len(_MARK) + 64 + 2  # the digest, then `"}`

Record = dict[str, Any]


class BadRecord(ValueError):
    """The bytes are not a record, or not the record that was written."""


def dump(content: Record) -> bytes:
    """The bytes of a record. `content` must not have a member "check"."""
    if "check" in content:
        raise ValueError('a record may not have a member "check": it is added here')
    rest = canonical(content)
    comma = b"," if content else b""
    return rest[:-1] + comma + _MARK + of_bytes(rest).encode() + b'"}'


def body(data: bytes) -> bytes:
    """The canonical JSON inside a record's bytes, proved by its check; BadRecord if it is not."""
    tail = data[-_TAIL:]
    if not (tail.startswith(_MARK) and tail.endswith(b'"}')):
        raise BadRecord("it does not end in a check")
    rest = data[:-_TAIL].removesuffix(b",") + b"}"
    if of_bytes(rest).encode() != tail[len(_MARK) : -2]:
        raise BadRecord("its check does not fit its content")
    return rest


def must_be_shallow(data: bytes) -> None:
    """BadRecord for JSON that is nested deeper than any of ours: a reader that calls itself for every level would run out of stack."""
    depth = 0
    for sign in _SIGN.findall(_STRING.sub(b"", data)):
        depth += 1 if sign in b"[{" else -1
        if depth > DEEPEST:
            raise BadRecord(f"it is nested more than {DEEPEST} levels deep")


def load(data: bytes) -> Record:
    """The content of a record's bytes, proved; BadRecord if it is not."""
    value = json.loads(body(data))
    if not isinstance(value, dict):
        raise BadRecord("it is not a JSON object")
    return value


def load_any(data: bytes) -> Record:
    """As `load`, but the JSON may be laid out in any way: for files that others write with a "check" of their own."""
    try:
        value = json.loads(data)
    except ValueError as error:  # not UTF-8, or not JSON
        raise BadRecord(f"it is not JSON: {error}") from None
    if not isinstance(value, dict) or "check" not in value:
        raise BadRecord("it has no check")
    check = value.pop("check")
    if of_json(value) != check:
        raise BadRecord("its check does not fit its content")
    return value


def write(path: Path, content: Record, *, tmp: Path | None = None) -> None:
    """Atomically: a reader sees the old record or this one."""
    atomic.write_bytes(path, dump(content), tmp=tmp)


def read_body(path: Path) -> bytes | None:
    """The proved canonical JSON of the record at `path`; None when there is no file; L303 when it is corrupt."""
    try:
        data = atomic.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        return body(data)
    except BadRecord as error:
        raise corrupt(path, str(error)) from None


def read(path: Path) -> Record | None:
    """The record at `path`; None when there is no file; L303 when it is corrupt."""
    rest = read_body(path)
    return None if rest is None else json.loads(rest)


def corrupt(path: Path, why: str) -> LaminarError:
    return LaminarError("L303", f"{path} is corrupt: {why}", hint="laminar verify --repair")
