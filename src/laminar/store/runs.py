"""Runs: what is known of a training that is done: which build it was, and what its files hold.

While a run is under way nobody can say what its files should be. When its layer is committed, the record `finished` in its folder says so:
the sha256 and size of every file but the checkpoints, and a second copy of the build record, from which a lost one is written again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.layout import Layout
from laminar.store.manifest import BuildRecord
from laminar.store.store import Store

FINISHED: Final = "finished"
ABOUT: Final = "run.json"  # what it is, from its beginning on: stack, layer, key, parent, strategy, spec
CHECKPOINTS: Final = "checkpoint*"
APART: Final = "apart"  # the same of a training by servers and workers: a folder


def begin(store: Store, run: str) -> Path:
    """The folder of a run that is to write its files, whatever was said of them before."""
    folder = store.run_folder(run)
    (folder / FINISHED).unlink(missing_ok=True)
    return folder


def tell_about(folder: Path, about: dict[str, Any]) -> None:
    """What a run is, for who looks while it is under way; what was told before and is not told now stays."""
    try:
        before = msgspec.json.decode((folder / ABOUT).read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        before = {}
    atomic.write_bytes(folder / ABOUT, msgspec.json.encode(before | about))


def finish(store: Store, record: BuildRecord) -> None:
    """Say that the run is done and what its files hold. They are on disk before this is."""
    folder = store.layout.run(record.run)
    with atomic.explaining_os_errors(folder):
        files = {path.relative_to(folder).as_posix(): _synced(path) for path in _files(folder)}
    content = {"id": record.id, "key": record.key, "files": files, "record": msgspec.to_builtins(record)}
    records.write(folder / FINISHED, content, tmp=store.layout.tmp)


def _files(folder: Path) -> Iterator[Path]:
    passing = {FINISHED, APART} | {path.name for path in folder.glob(CHECKPOINTS)}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] not in passing and not path.name.endswith(".tmp"):
            yield path


def _synced(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": found, "size": file.tell()}


def problems(folder: Path, content: dict[str, Any], *, deep: bool) -> Iterator[tuple[Path, str]]:
    """The files of a finished run that are not what `content`, its record, says, and why; by size only unless `deep`."""
    for name, wanted in content["files"].items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != wanted["size"]:
                yield path, f"it has {size} bytes, but had {wanted['size']} when the run was done"
            elif deep and digest.of_file(path) != wanted["sha256"]:
                yield path, "it is not what it was when the run was done"
        except FileNotFoundError:
            yield path, "it is gone"


def forget_file(layout: Layout, run: str, path: Path) -> None:
    """The record of a finished run no longer speaks of this file."""
    folder = layout.run(run)
    content = records.read(folder / FINISHED) or {"files": {}}
    if content["files"].pop(path.relative_to(folder).as_posix(), None) is not None:
        records.write(folder / FINISHED, content, tmp=layout.tmp)


def finished(layout: Layout) -> Iterator[dict[str, Any]]:
    """The record of every run that is done, as far as it can be read."""
    for path in sorted(layout.runs.glob(f"*/{FINISHED}")):
        try:
            content = records.read(path)
        except LaminarError as error:
            if error.code != "L303":
                raise
            continue
        if content is not None:
            yield content


def build_record(store: Store, key: str) -> BuildRecord | None:
    """The copy of a build record that its run keeps: the newest one whose layer is here."""
    found = [msgspec.convert(content["record"], BuildRecord) for content in finished(store.layout) if content["key"] == key]
    return max((record for record in found if store.has_layer(record.id)), key=lambda record: record.created, default=None)
