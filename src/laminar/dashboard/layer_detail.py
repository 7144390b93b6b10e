"""One layer in full: recipe, key inputs, parents, tensors changed, the ref's history, and the outline of its model."""

from __future__ import annotations

from typing import Any

from laminar.core.errors import LaminarError
from laminar.model.graph_outline import outline
from laminar.stack.explain import explain
from laminar.stack.read import StackFile
from laminar.stack.show import describe, inherited
from laminar.store.raw import byte_size
from laminar.store.resolve import resolve
from laminar.store.store import Store


def detail(file: StackFile | None, store: Store, ref: str, id: str | None) -> dict[str, Any]:
    """Of the layer that a ref shows, or of an earlier one (`id`). What is not built yet has a recipe and key inputs only."""
    stack, _, name = ref.partition("/")
    here = file is not None and stack == file.spec.stack.name and any(layer.name == name for layer in file.spec.layer)
    told: dict[str, Any] = {"ref": ref, "name": name or ref, "written": here, "layer": None, "explained": None, "trouble": None, "log": []}
    if ref in store.refs.names():
        state = store.refs.state(ref)
        told["log"] = [_entry(store, entry, state.id) for entry in reversed(store.refs.log(ref))]
        told["versions"] = [{"id": each, "here": store.has_layer(each)} for each in state.history]
        told["cursor"] = state.cursor
        wanted = resolve(store, id, stack) if id else state.id
        if wanted is not None:
            told["layer"] = described(store, wanted, stack)
    elif id is not None:
        told["layer"] = described(store, resolve(store, id, stack), stack)
    elif not here:
        raise LaminarError("L006", f"there is no layer {ref[:120]!r}", hint="laminar log")
    if here and file is not None and id is None:
        told["recipe"] = file.raw["layer"][file.layer_index(name)]
        try:
            told["explained"] = explain(file, store, name).to_json()
        except LaminarError as error:
            told["trouble"] = {"code": error.code, "message": error.message, "hint": error.hint}
    return told


def described(store: Store, id: str, stack: str | None) -> dict[str, Any]:
    """stack/show.py's description, with sizes, and each tensor's module."""
    plain = describe(store, id, stack)
    record = store.record(plain["key"])
    plain["inputs"] = record.inputs if record else None
    for tensor in plain["tensors"]:
        tensor["bytes"] = byte_size(tensor["dtype"], tuple(tensor["shape"]))
    return plain


def _entry(store: Store, entry: Any, current: str | None) -> dict[str, Any]:
    here = store.has_layer(entry.id)
    try:
        metrics = store.layer(entry.id).metrics if here else {}
    except LaminarError:  # a damaged version of before is no reason not to show this one
        here, metrics = False, {}
    return {
        "n": entry.n,
        "op": entry.op,
        "id": entry.id,
        "time": entry.time,
        "why": entry.why,
        "here": here,
        "current": entry.id == current,
        "metrics": metrics,
    }


def model_of(store: Store, id: str) -> dict[str, Any]:
    """The outline of a layer's model, every module said to be frozen, trained, new or without tensors."""
    manifest = store.layer(id)
    below = inherited(store, manifest)
    graph = manifest.graph.eval or manifest.graph.train
    drawn = outline(store.objects.read(graph)) if graph is not None else None
    states: dict[str, dict[str, Any]] = {}
    for name, tensor in manifest.tensors.items():
        path = name.rpartition(".")[0]
        size, own = byte_size(tensor.dtype, tensor.shape), tensor.digest not in below
        for at in _upwards(path):
            known = states.setdefault(at, {"tensors": 0, "own": 0, "bytes": 0, "added": 0})
            known["tensors"] += 1
            known["own"] += own
            known["bytes"] += size
            known["added"] += size if own else 0
    for path, known in states.items():
        frozen = any(path == f or path.startswith(f"{f}.") for f in manifest.frozen)
        known["state"] = "frozen" if frozen else "trained" if known["own"] else "unchanged"
    return {
        "note": manifest.graph.note,
        "modules": drawn.modules if drawn else [{"path": path, "kind": "", "facts": {}} for path in sorted(states)],
        "nodes": [vars(node) for node in drawn.nodes] if drawn else [],
        "edges": drawn.edges if drawn else [],
        "states": states,
    }


def _upwards(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: n + 1]) for n in range(len(parts)))]
