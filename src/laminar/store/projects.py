"""Projects: the folders that share a store, and the layers each of them uses now, so that gc of one never takes from another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from laminar.core.digest import of_bytes
from laminar.store import records
from laminar.store.layout import Layout

STACK_FILE = "laminar.toml"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    refs: dict[str, str]
    at: float

    def exists(self) -> bool:
        return (Path(self.path) / STACK_FILE).is_file()


def register(layout: Layout, path: Path, refs: Mapping[str, str], now: float) -> None:
    """Note what the project at `path` uses; replaces what was noted before."""
    place = str(path.resolve())
    records.write(_file(layout, place), {"path": place, "refs": dict(refs), "at": now}, tmp=layout.tmp)


def is_registered(layout: Layout, path: Path, refs: Mapping[str, str]) -> bool:
    """Is this noted already?"""
    place = str(path.resolve())
    old = _read(_file(layout, place))
    return old is not None and old.path == place and old.refs == dict(refs)


def registered(layout: Layout) -> list[Project]:
    """Every project, also those whose folder is gone. L303 when a record is damaged."""
    found = (_read(path) for path in sorted(layout.projects.glob("*.json")))
    return [project for project in found if project is not None]


def forget(layout: Layout, path: str) -> None:
    _file(layout, path).unlink(missing_ok=True)


def _file(layout: Layout, path: str) -> Path:
    return layout.projects / f"{of_bytes(path.encode())[:32]}.json"


def _read(path: Path) -> Project | None:
    content = records.read(path)
    return None if content is None else msgspec.convert(content, Project)
