"""Layers: what the page Stack shows of a project and its store. Read anew each time; nothing is decided here that stack/ decides.

`overview` needs refs and manifests only, and is quick. `states` asks stack/plan.py what a build would do, which reads sources and data.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from laminar.core.errors import LaminarError
from laminar.dashboard.runs import Run
from laminar.dashboard.tree import Row, rows
from laminar.stack.plan import plan
from laminar.stack.project import Project
from laminar.stack.read import StackFile, parents_of
from laminar.stack.show import inherited
from laminar.store.drivers import masked_text
from laminar.store.manifest import Manifest, TensorRef
from laminar.store.raw import byte_size
from laminar.store.resolve import resolve
from laminar.store.store import Store

State = Literal["built", "stale", "never", "building"]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    ref: str
    name: str
    stack: str
    written: bool  # in laminar.toml
    id: str | None
    lost: str  # why the layer that the ref names cannot be read
    stands_on: str | None  # the ref below; None: a bottom layer, or below is elsewhere (`origin`)
    origin: str | None  # as laminar.toml says it, where that is no layer of this stack
    metrics: dict[str, float]
    added: int  # bytes of tensors that are not the parent's
    whole: int  # bytes of all tensors
    own: int  # tensors that are not the parent's
    tensors: int
    frozen: int  # modules
    seconds: float | None
    created: float | None
    run: str | None
    tags: list[str]
    versions: int
    cursor: int  # which of them the ref shows, from 0
    rolled_back: bool
    notes: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    stack: str | None
    folder: str
    file: str | None
    store: str
    made: bool  # there is a store
    layers: list[Layer]
    tree: list[Row]


def overview(project: Project, store: Store) -> Overview:
    """Layers of laminar.toml first, then what else the store has names for."""
    file = project.file
    tags: dict[str, list[str]] = {}
    for tag, id in store.refs.tags(damaged=False).items():
        tags.setdefault(id, []).append(tag)
    written = {f"{file.spec.stack.name}/{layer.name}": layer for layer in file.spec.layer} if file else {}
    refs = list(dict.fromkeys([*written, *store.refs.names()]))
    found: dict[str, Layer] = {}
    held: dict[str, str] = {}  # id -> the ref that shows it
    manifests: dict[str, Manifest] = {}
    parents = parents_of(file.spec) if file else {}
    for ref in refs:
        found[ref], manifest = _layer(store, ref, ref in written, _below(store, ref, parents) if ref in written else (None, None), tags)
        if manifest is not None:
            manifests[ref] = manifest
            held.setdefault(manifest.id, ref)
    for ref, layer in found.items():
        if layer.stands_on is None and layer.origin is None and ref in manifests:
            below = held.get(manifests[ref].parent or "")
            if below is not None and below != ref:
                found[ref] = msgspec.structs.replace(layer, stands_on=below)
    return Overview(
        stack=project.stack,
        folder=str(project.root),
        file=str(file.path) if file else None,
        store=str(store.root),
        made=store.layout.format.exists(),
        layers=list(found.values()),
        tree=rows({ref: layer.stands_on for ref, layer in found.items()}),
    )


def _layer(
    store: Store, ref: str, written: bool, standing: tuple[str | None, str | None], tags: dict[str, list[str]]
) -> tuple[Layer, Manifest | None]:
    stack, name = ref.split("/", 1)
    lost, manifest, history, cursor = "", None, 0, -1
    try:
        state = store.refs.state(ref)
        history, cursor = len(state.history), state.cursor
        manifest = store.layer(state.id) if state.id else None
    except LaminarError as error:
        lost = error.message
    below = inherited(store, manifest) if manifest else set()
    tensors = list(manifest.tensors.values()) if manifest else []
    own = [t for t in tensors if t.digest not in below]
    layer = Layer(
        ref=ref,
        name=name,
        stack=stack,
        written=written,
        id=manifest.id if manifest else None,
        lost=lost,
        stands_on=standing[0],
        origin=standing[1],
        metrics=manifest.metrics if manifest else {},
        added=_bytes(own),
        whole=_bytes(tensors),
        own=len(own),
        tensors=len(tensors),
        frozen=len(manifest.frozen) if manifest else 0,
        seconds=manifest.seconds if manifest else None,
        created=manifest.created if manifest else None,
        run=manifest.run if manifest else None,
        tags=tags.get(manifest.id, []) if manifest else [],
        versions=history,
        cursor=cursor,
        rolled_back=0 <= cursor < history - 1,
        notes=len(manifest.notes) if manifest else 0,
    )
    return layer, manifest


def _bytes(tensors: list[TensorRef]) -> int:
    return sum(byte_size(t.dtype, t.shape) for t in tensors)


def _below(store: Store, ref: str, parents: dict[str, str | None]) -> tuple[str | None, str | None]:
    """The ref that a layer of the file stands on; or, where that is a tag, an id or a remote's, how the file says it."""
    stack, name = ref.split("/", 1)
    parent = parents[name]
    if parent is None:
        return None, None
    if parent in parents:
        return f"{stack}/{parent}", None
    if "/" in parent and "#" not in parent:
        try:
            resolve(store, parent, stack)
        except LaminarError:
            return None, masked_text(parent)
        return parent.partition("@")[0], None
    return None, masked_text(parent)


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a build would do about a layer, now."""

    ref: str
    state: State
    why: str
    id: str | None  # of the layer that would be reused
    changes: list[dict[str, Any]]
    saved: float  # seconds of training that a build does not need, because this layer is there


def states(file: StackFile, store: Store, runs: list[Run]) -> list[Known]:
    stack = file.spec.stack.name
    live = [run for run in runs if run.state == "live" and run.stack == stack]
    building = {run.key for run in live} | {run.layer for run in live}
    found = []
    for step in plan(file, store):
        busy = step.action == "build" and (step.key in building if step.key else step.layer.name in building)
        ref = f"{stack}/{step.layer.name}"
        never = step.record is None and store.refs.get(ref) is None
        state: State = "building" if busy else "built" if step.action == "cached" else "never" if never else "stale"
        found.append(
            Known(
                ref=ref,
                state=state,
                why=step.why,
                id=step.id,
                changes=[{"input": f, "from": old, "to": new} for f, old, new in step.differences],
                saved=step.record.seconds if step.action == "cached" and step.record else 0.0,
            )
        )
    return found
