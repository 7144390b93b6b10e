"""Comparison: two or more layers side by side, from the store alone. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.stack.diff import Diff, TensorChange
from laminar.stack.key import flat
from laminar.store import records
from laminar.store.manifest import BuildRecord, Manifest
from laminar.store.resolve import resolve
from laminar.store.runs import FINISHED
from laminar.store.store import Store

MOST: Final = 6  # layers at once: more do not fit a screen
CHOICES: Final = 2000  # layers that are offered
PASSING: Final = frozenset({"name", "stack"})  # of a spec: they are in the head of the table


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as a column."""

    asked: str  # as it was written
    id: str
    name: str
    stack: str
    parent: str | None
    created: float
    seconds: float
    task: str
    data: str | None  # its name in the stack file, where that is known
    run: str
    parameters: int
    frozen: list[str]
    classes: list[str] | None
    notes: list[str]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One setting or figure, of every layer; None where a layer has none."""

    field: str
    values: list[Any]
    same: bool


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What was tested at the end of each epoch. Seconds count from the run's first event."""

    epochs: list[int]
    seconds: list[float]
    figures: dict[str, list[float | None]]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Item]
    recipe: list[Row]
    metrics: list[Row]
    modules: int  # of the first two: so much room their differences take


class ModuleChange(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of one module that differ, those of floating-point numbers taken as one vector.

    `state`: changed, added, removed, reshaped, or equal.
    """

    name: str
    state: str
    tensors: int
    elements: int
    moved: float | None = None
    cosine: float | None = None
    norms: tuple[float, float] | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be compared: a name that `resolve` knows."""

    ref: str
    id: str
    when: float
    what: str  # "now", "before" or "tag"


def choices(store: Store) -> list[Choice]:
    """What refs point at and have pointed at, newest first, and tags."""
    found: list[Choice] = []
    for name in store.refs.names():
        try:
            now, log = store.refs.get(name), store.refs.log(name)
        except LaminarError:  # a damaged log; the page of the stack says so
            continue
        seen: set[str] = set()
        for entry in reversed(log):
            if entry.id in seen or not store.has_layer(entry.id):
                continue
            seen.add(entry.id)
            what = "now" if entry.id == now else "before"
            found.append(Choice(ref=name if what == "now" else f"{name}@sha256:{entry.id[:12]}", id=entry.id, when=entry.time, what=what))
    found += [Choice(ref=name, id=id, when=0.0, what="tag") for name, id in store.refs.tags().items() if store.has_layer(id)]
    order = {"now": 0, "tag": 1, "before": 2}
    return sorted(found, key=lambda one: (order[one.what], -one.when))[:CHOICES]


def chosen(store: Store, asked: Sequence[str], stack: str | None) -> list[tuple[str, Manifest]]:
    """L008 for fewer than two or too many; L006 for what nobody knows. A layer that is named twice counts once."""
    found: dict[str, tuple[str, Manifest]] = {}
    for text in asked:
        manifest = store.layer(layer_of(store, text, stack))
        found.setdefault(manifest.id, (text, manifest))
    if not 2 <= len(found) <= MOST:
        raise LaminarError("L008", f"{len(found)} layers are named, and 2 to {MOST} can be compared", hint="choose others")
    return list(found.values())


def layer_of(store: Store, text: str, stack: str | None) -> str:
    """The id that `text` names: a layer in any way that `resolve` knows, or the layer that a run has made."""
    try:
        return resolve(store, text, stack)
    except LaminarError as error:
        folder = store.layout.runs / text
        if error.code != "L006" or folder.parent != store.layout.runs or not folder.is_dir():
            raise
        finished = records.read(folder / FINISHED)
        if finished is None:
            said = f"run {text} has not made a layer: it is under way, or has ended without one"
            raise LaminarError("L006", said, hint="the page Runs shows runs over each other") from None
        return str(finished["id"])


def compare(store: Store, asked: Sequence[str], stack: str | None = None) -> Comparison:
    layers = chosen(store, asked, stack)
    found = [_record(store, manifest) for _, manifest in layers]
    specs = [flat(_without(record.spec)) if record is not None else {} for record in found]
    return Comparison(
        items=[_item(text, manifest, record) for (text, manifest), record in zip(layers, found, strict=True)],
        recipe=_rows(specs),
        metrics=_rows([dict(manifest.metrics) for _, manifest in layers]),
        modules=len({module_of(name) for _, manifest in layers[:2] for name in manifest.tensors}),
    )


def _without(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in PASSING}


def _record(store: Store, manifest: Manifest) -> BuildRecord | None:
    """None: a layer that was pulled or imported may have none, and a damaged one says nothing here."""
    try:
        return store.record(manifest.key)
    except LaminarError:
        return None


def _item(text: str, manifest: Manifest, record: BuildRecord | None) -> Item:
    data = record.spec.get("data") if record is not None else None
    return Item(
        asked=text,
        id=manifest.id,
        name=manifest.name,
        stack=manifest.stack,
        parent=manifest.parent,
        created=manifest.created,
        seconds=manifest.seconds,
        task=manifest.task,
        data=data if isinstance(data, str) else None,
        run=manifest.run,
        parameters=sum(math.prod(tensor.shape) for tensor in manifest.tensors.values()),
        frozen=manifest.frozen,
        classes=manifest.classes,
        notes=manifest.notes,
    )


def _rows(tables: Sequence[dict[str, Any]]) -> list[Row]:
    """Those that differ first, in the order in which they are written."""
    fields = list(dict.fromkeys(field for table in tables for field in table))
    rows = [Row(field=field, values=[table.get(field) for table in tables], same=_equal(tables, field)) for field in fields]
    return sorted(rows, key=lambda row: row.same)


def _equal(tables: Sequence[dict[str, Any]], field: str) -> bool:
    return all(field in table and table[field] == tables[0].get(field) for table in tables)


def modules(diff: Diff, first: Manifest, second: Manifest) -> list[ModuleChange]:
    """By module, in the order of the second model; modules without a difference are there as equal."""
    changed: dict[str, list[TensorChange]] = {}
    for one in diff.tensors:
        changed.setdefault(module_of(one.name), []).append(one)
    sizes: dict[str, int] = {}
    for name, tensor in {**first.tensors, **second.tensors}.items():
        sizes[module_of(name)] = sizes.get(module_of(name), 0) + math.prod(tensor.shape)
    order = dict.fromkeys(module_of(name) for name in (*second.tensors, *first.tensors))
    # a counter of steps beside weights would be all that is seen of them
    learnt = {name for name, tensor in second.tensors.items() if tensor.dtype.startswith("F")}
    return [_module(name, changed.get(name, []), sizes[name], learnt) for name in order]


def module_of(tensor: str) -> str:
    """`features.0.weight` is of `features.0`; a tensor of the model itself is of `(model)`."""
    return tensor.rpartition(".")[0] or "(model)"


def _module(name: str, changed: Sequence[TensorChange], size: int, learnt: set[str]) -> ModuleChange:
    if not changed:
        return ModuleChange(name=name, state="equal", tensors=0, elements=size)
    states = {one.state for one in changed}
    state = next(state for state in ("reshaped", "added", "removed", "changed") if state in states)
    known = [(one.norms, one.cosine or 0.0) for one in changed if one.norms is not None and one.name in learnt]
    if not known:
        return ModuleChange(name=name, state=state, tensors=len(changed), elements=size)
    first, second = (math.sqrt(math.fsum(norms[side] ** 2 for norms, _ in known)) for side in (0, 1))
    along = math.fsum(cosine * norms[0] * norms[1] for norms, cosine in known)
    apart = math.sqrt(max(0.0, first**2 + second**2 - 2 * along))
    return ModuleChange(
        name=name,
        state=state,
        tensors=len(changed),
        elements=size,
        moved=apart / first if first else None,
        cosine=along / (first * second) if first and second else None,
        norms=(first, second),
    )


def curve(events: Sequence[Event]) -> Curve:
    """Of a run's events but its steps. What is damaged or has no figures is passed over."""
    times = [event["t"] for event in events if isinstance(event.get("t"), int | float)]
    epochs = [event for event in events if event.get("event") == "epoch" and isinstance(event.get("epoch"), int)]
    epochs = [event for event in epochs if isinstance(event.get("test"), dict) and isinstance(event.get("t"), int | float)]
    names = list(dict.fromkeys(name for event in epochs for name in event["test"]))
    begin = min(times, default=0.0)
    return Curve(
        epochs=[event["epoch"] + 1 for event in epochs],
        seconds=[event["t"] - begin for event in epochs],
        figures={name: [_finite(event["test"].get(name)) for event in epochs] for name in names},
    )


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def history_path(store: Store, run: str) -> Path:
    """Where the events of a layer's run are; the layer may have come without them."""
    return store.layout.runs / run / "events.jsonl"
