"""Shipment: the files that a worker on another machine needs to open a job.

    store/      the layer below, with what it needs; the run's folder with its checkpoint, to go on from
    project/    the project: code, stack file, data that lies in it. Only for machines that do not see the project's own folder

Kept features that the chief has computed are lent to machines that see its store: links, for reading only. Others compute those they need.
Not shipped: other layers, snapshots of servers, invitations.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.store.layout import Layout
from laminar.store.runs import APART
from laminar.store.store import Store
from laminar.train.kept import INDEX

STORE, PROJECT = "store", "project"
MOST: Final = 512 << 20  # bytes of a project
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})
_LEFT_OUT_ON_TOP: Final = frozenset({"venv", "build", "dist"})  # below, a class of images may be called so


@dataclass(frozen=True)
class Parcel:
    """A file to be sent."""

    path: str  # in the workspace
    source: Path
    sha256: str
    size: int


def store_parcels(told: dict[str, Any]) -> list[Parcel]:
    """Of a job (open_job.Description as JSON)."""
    store = Store.look(Path(told["store"]))
    layout = store.layout
    found = [_parcel(STORE, layout.root, layout.root / "format")]
    if told["parent"] is not None:
        manifest = store.layer(told["parent"])
        found += [_parcel(STORE, layout.root, layout.layer(id)) for id in _chain(store, told["parent"])]
        for name in dict.fromkeys(manifest.objects()):
            path = store.objects.path(name)
            found.append(Parcel(_within(STORE, layout.root, path), path, name, store.objects.size(name)))
    run = store.run_folder(told["run"])
    found += [_parcel(STORE, layout.root, path) for path in _files(run) if _of_workers(path.relative_to(run))]
    return found


def lent_features(told: dict[str, Any]) -> tuple[list[Parcel], list[tuple[str, str]]]:
    """Of a job: what is sent of its kept features, and what is lent, which are their rows."""
    layout = Layout(Path(told["store"]))
    files = [path for fkey in told["features"] for path in sorted(layout.feature(fkey).glob("*"))]
    rows = [path for path in files if path.suffix == ".bin"]
    return [_parcel(STORE, layout.root, path) for path in files if path.name == INDEX], [
        (_within(STORE, layout.root, path), str(path.resolve())) for path in rows
    ]


def run_folder(told: dict[str, Any]) -> str:
    """The folder of the run, in the workspace."""
    root = Path(told["store"])
    return _within(STORE, root, Layout(root).runs / told["run"])


def project_parcels(root: Path, store: Path) -> list[Parcel]:
    """L408 if it is too large to be sent."""
    paths = [path for path in _files(root) if not path.is_relative_to(store)]
    size = sum(path.stat().st_size for path in paths)
    if size > MOST:
        raise LaminarError(
            "L408",
            f"the project in {root} has {many(len(paths), 'file')} of {size / 1e6:,.0f} MB together, and there are workers that "
            f"do not see it; at most {MOST / 1e6:,.0f} MB are sent to them",
            hint="put the project on a file system that all machines share, or its data into mirrors",
        )
    return [_parcel(PROJECT, root, path) for path in paths]


def _chain(store: Store, id: str | None) -> Iterator[str]:
    while id is not None and store.has_layer(id):
        yield id
        id = store.layer(id).parent


def _of_workers(path: Path) -> bool:
    """A run's folder also has what is the chief's own."""
    return path.parts[0] != APART or path.name.startswith("worker-")


def _files(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for at, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(at)) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        left_out = _LEFT_OUT | (_LEFT_OUT_ON_TOP if Path(at) == folder else frozenset())
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in left_out)
        yield from (Path(at, name) for name in sorted(names) if not name.startswith(".") and Path(at, name).is_file())


def _within(top: str, root: Path, path: Path) -> str:
    return f"{top}/{path.relative_to(root).as_posix()}"


def _parcel(top: str, root: Path, path: Path) -> Parcel:
    return Parcel(_within(top, root, path), path, digest.of_file(path), path.stat().st_size)
