"""What features are kept in a store, for `laminar status`. Reads the indexes only; no torch, no numpy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from laminar.store import records

INDEX: Final = "index.json"
USED: Final = "used"  # its mtime is the time of last use


class HasRoot(Protocol):
    @property
    def root(self) -> Path: ...


@dataclass(frozen=True)
class Kept:
    """The kept features of one prefix."""

    fkey: str
    rows: int
    bytes: int
    used: float
    modules: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def describe_features(store: HasRoot) -> list[Kept]:
    """Last used first. A folder whose index cannot be read is left to `laminar verify`."""
    found: list[Kept] = []
    for folder in sorted((store.root / "features").glob("*/")):
        index = read_index(folder)
        if index is None:
            continue
        try:
            size = sum(int(block["size"]) for block in index["blocks"])
            used = folder / USED
            when = used.stat().st_mtime if used.exists() else float(index["used"])
            found.append(Kept(folder.name, int(index["rows"]), size, when, list(index["prefix"].get("modules", []))))
        except (KeyError, TypeError, ValueError, OSError):
            continue
    return sorted(found, key=lambda kept: -kept.used)


def read_index(folder: Path) -> dict[str, Any] | None:
    """The index of a features folder, proved by its check; None where there is none, or a broken one."""
    try:
        return records.load((folder / INDEX).read_bytes())
    except (OSError, records.BadRecord, json.JSONDecodeError):
        return None
