"""Verifying what others keep in a store: features, checkpoints; and the small records beside the layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.findings import Finding, Kind, finding, read_or_nothing
from laminar.store.layout import FORMAT
from laminar.store.store import Store


def kept_findings(store: Store) -> Iterator[Finding]:
    yield from _features(store)
    yield from _checkpoints(store)
    yield from _small_records(store)


def _features(store: Store) -> Iterator[Finding]:
    """Every block of every features folder, as its index.json says."""
    for index in sorted(store.layout.features.glob("*/index.json")):
        problem: str | None = "?"
        data = b""
        while problem is not None and (now := read_or_nothing(index)) != data:  # a running build may replace files while we look
            data = now
            try:
                problem = _blocks(index.parent, records.load_any(data)) if data else None
            except records.BadRecord as error:
                problem = str(error)
        if problem is not None:
            yield finding(index.parent, "features", "corrupt", problem, name=index.parent.name)


def _blocks(folder: Path, content: dict[str, Any]) -> str | None:
    for block in content.get("blocks", []):
        path = folder / block["file"]
        try:
            with open(path, "rb") as file:
                file.seek(block["offset"])
                data = file.read(block["size"])
        except FileNotFoundError:
            return f"{path.name} is missing"
        if len(data) != block["size"]:
            return f"{path.name} ends after {block['offset'] + len(data)} bytes"
        if digest.of_bytes(data) != block["sha256"]:
            return f"{path.name}: the {block['size']} bytes from {block['offset']} on are damaged"
    return None


def _checkpoints(store: Store) -> Iterator[Finding]:
    """`checkpoint.json` of a run names its checkpoint files with their sha256."""
    for path in sorted(store.layout.runs.glob("*/checkpoint*.json")):
        problem: str | None = "?"
        data = b""
        while problem is not None and (now := read_or_nothing(path)) != data:  # a running build may write the next one while we look
            data = now
            problem = _checkpoint_problem(path, data) if data else None
        if problem is not None:
            yield finding(path, "checkpoint", "corrupt", problem, name=path.parent.name)


def _checkpoint_problem(path: Path, data: bytes) -> str | None:
    try:
        entries = records.load_any(data).get("checkpoints", [])
    except records.BadRecord as error:
        return str(error)
    for entry in entries:
        try:
            if digest.of_file(path.parent / entry["file"]) != entry["sha256"]:
                return f"{entry['file']} is damaged"
        except FileNotFoundError:
            return f"{entry['file']} is missing"
    return None


def _small_records(store: Store) -> Iterator[Finding]:
    kinds: list[tuple[Path, Kind]] = [(path, "project") for path in sorted(store.layout.projects.glob("*.json"))]
    if store.layout.remotes.exists():
        kinds.append((store.layout.remotes, "remotes"))
    for path, kind in kinds:
        try:
            records.read(path)
        except LaminarError as error:
            yield finding(path, kind, "corrupt", error.message, name=path.stem)
    if store.layout.format.read_bytes() != f"{FORMAT}\n".encode():
        yield finding(store.layout.format, "format", "corrupt", f"it should hold {FORMAT}", name="format")
