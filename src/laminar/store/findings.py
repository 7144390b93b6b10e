"""Findings: what verify says and repair mends."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from laminar.core import atomic

Kind = Literal[
    "object",
    "layer",
    "key",
    "ref",
    "log",
    "run",
    "features",
    "checkpoint",
    "fingerprint",
    "plan",
    "rollback",
    "project",
    "lease",
    "remotes",
    "sent",
    "index",
    "format",
]
Problem = Literal["corrupt", "missing", "dangling", "stray", "unreadable"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong: the file, what kind of thing it is, what is the matter, and the layers (ids) that need it."""

    path: str
    kind: Kind
    problem: Problem
    detail: str
    name: str = ""  # digest, id, key, ref … : what to fetch again
    layers: tuple[str, ...] = ()


def finding(
    path: Path,
    kind: Kind,
    problem: Problem,
    detail: str,
    *,
    name: str = "",
    layers: tuple[str, ...] = (),
) -> Finding:
    return Finding(path=str(path), kind=kind, problem=problem, detail=detail, name=name, layers=layers)


def read_or_nothing(path: Path) -> bytes:
    try:
        return atomic.read_bytes(path)
    except FileNotFoundError:
        return b""
