"""Own: the layers whose graph was made in this store, by tracing a model that code of this machine made. All others are foreign.

`own/<id>.json` names the graph objects that were written. Nothing that is pulled, imported or repaired writes such a file, and a layer
whose manifest names other objects is foreign, whatever its id says. Layers of a store of an earlier version are foreign until they are
built again, which costs them nothing but a child process (stack/foreign.py).
"""

from __future__ import annotations

import contextlib
import json

from laminar.core import atomic
from laminar.store.manifest import Manifest
from laminar.store.store import Store


def note_own(store: Store, manifest: Manifest) -> None:
    """The manifest is one that this process has just made."""
    path = store.layout.own / f"{manifest.id}.json"
    with atomic.explaining_os_errors(path):
        path.parent.mkdir(exist_ok=True)
    atomic.write_text(path, json.dumps(_graphs(manifest)) + "\n")


def is_own(store: Store, manifest: Manifest) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((store.layout.own / f"{manifest.id}.json").read_text()) == _graphs(manifest))
    return False


def _graphs(manifest: Manifest) -> dict[str, str | None]:
    return {"train": manifest.graph.train, "eval": manifest.graph.eval}
