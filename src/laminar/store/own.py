"""Own: a layer is this store's own if its graph was traced here, from a model made by code of this machine. All others are foreign.

`own/<id>.json` names the graph objects that were written. Nothing that is pulled, imported or repaired writes such a file, and a layer
whose manifest names other objects is foreign, whatever its id. Layers of earlier versions of the store are foreign until they are built
again; until then they merely run in a child process (stack/foreign.py).

It also has the digest of the steps by which the model was made. They are not part of the id, and a manifest may be fetched again from a
remote (verify --repair), so they are believed only if they are those that were written here.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from laminar.core import atomic, digest
from laminar.store.manifest import Manifest
from laminar.store.store import Store

_STEPS: Final = "steps"


def note_own(store: Store, manifest: Manifest) -> None:
    """Record a manifest that this process has just made as the store's own."""
    path = store.layout.own / f"{manifest.id}.json"
    with atomic.explaining_os_errors(path):
        path.parent.mkdir(exist_ok=True)
    atomic.write_text(path, json.dumps(_graphs(manifest) | {_STEPS: _steps(manifest)}) + "\n")


def is_own(store: Store, manifest: Manifest) -> bool:
    """Was its graph traced here?"""
    return _noted(store, manifest).items() >= _graphs(manifest).items()


def has_own_steps(store: Store, manifest: Manifest) -> bool:
    """Were the steps by which its model is made written here?"""
    return is_own(store, manifest) and _noted(store, manifest).get(_STEPS) == _steps(manifest)


def _noted(store: Store, manifest: Manifest) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return dict(json.loads((store.layout.own / f"{manifest.id}.json").read_text()))
    return {}


def _steps(manifest: Manifest) -> str:
    return digest.of_json(manifest.model.get("steps", []))


def _graphs(manifest: Manifest) -> dict[str, str | None]:
    return {"train": manifest.graph.train, "eval": manifest.graph.eval}
