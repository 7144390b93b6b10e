"""Own: a layer is this store's own if its graph was traced here, from a model made by code of this machine. All others are foreign.

`own/<id>.json` names the graph objects that were written. Nothing that is pulled, imported or repaired writes such a file, and a layer
whose manifest names other objects is foreign, whatever its id. Layers of earlier versions of the store are foreign until they are built
again; until then they merely run in a child process (stack/foreign.py).
"""

from __future__ import annotations

import contextlib
import json

from laminar.core import atomic
from laminar.store.manifest import Manifest
from laminar.store.store import Store


def note_own(store: Store, manifest: Manifest) -> None:
    """Record a manifest that this process has just made as the store's own."""
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
