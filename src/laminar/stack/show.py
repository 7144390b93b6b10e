"""Show: all that is known of one layer, as plain data. No torch."""

from __future__ import annotations

from typing import Any

import msgspec

from laminar.store.manifest import Manifest
from laminar.store.raw import byte_size
from laminar.store.resolve import resolve
from laminar.store.store import Store


def describe(store: Store, ref: str, stack: str | None) -> dict[str, Any]:
    manifest = store.layer(resolve(store, ref, stack))
    below = inherited(store, manifest)
    record = store.record(manifest.key)
    plain: dict[str, Any] = msgspec.to_builtins(manifest)
    plain["tensors"] = [
        {
            "name": name,
            "shape": list(t.shape),
            "dtype": t.dtype,
            "digest": t.digest,
            "own": t.digest not in below,
            "delta": t.delta is not None,
        }
        for name, t in manifest.tensors.items()
    ]
    plain["ancestors"] = [{"name": a.name, "stack": a.stack, "id": a.id} for a in ancestors(store, manifest)]
    plain["spec"] = record.spec if record else None
    plain["data"] = record.data if record else None
    plain["refs"] = [name for name in store.refs.names() if store.refs.get(name) == manifest.id]
    plain["tags"] = [name for name, id in store.refs.tags(damaged=False).items() if id == manifest.id]
    return plain


def own_bytes(store: Store, manifest: Manifest) -> int:
    """Bytes of the tensors that the parent does not have."""
    below = inherited(store, manifest)
    return sum(byte_size(t.dtype, t.shape) for t in manifest.tensors.values() if t.digest not in below)


def inherited(store: Store, manifest: Manifest) -> set[str]:
    """Digests of the tensors of the layer below."""
    parent = store.layer(manifest.parent) if manifest.parent and store.has_layer(manifest.parent) else None
    return {t.digest for t in parent.tensors.values()} if parent else set()


def ancestors(store: Store, manifest: Manifest) -> list[Manifest]:
    """The layers below, nearest first, as far as the store has them."""
    found: list[Manifest] = []
    seen = {manifest.id}
    while manifest.parent and manifest.parent not in seen and store.has_layer(manifest.parent):
        manifest = store.layer(manifest.parent)
        seen.add(manifest.id)
        found.append(manifest)
    return found
