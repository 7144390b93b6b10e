"""Comparison: two or more layers side by side, from the store alone; and runs, which keep no tensors before they are done. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.dashboard.history import is_figure
from laminar.dashboard.module_changes import module_of
from laminar.dashboard.runs import NAME, Run, find_run, recipe_of
from laminar.stack.key import flat
from laminar.store.manifest import BuildRecord, Manifest
from laminar.store.resolve import resolve
from laminar.store.store import Store
from laminar.train.history import EVENTS

MOST: Final = 6  # layers at once: more do not fit a screen
CHOICES: Final = 2000  # layers that are offered
PASSING: Final = frozenset({"name", "stack"})  # of a spec: they are in the head of the table


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as a column; or a run that has made none, of which less is known."""

    asked: str  # as it was written
    state: str  # "layer", or how the run stands
    why: str  # it stands so
    id: str | None
    name: str
    stack: str
    parent: str | None
    created: float | None  # when it was made; of a run, when it was heard of last
    seconds: float | None
    task: str | None
    data: str | None  # its name in the stack file, where that is known
    run: str
    parameters: int | None
    frozen: list[str]
    classes: list[str] | None
    notes: list[str]
    epochs: tuple[int | None, int | None] = (None, None)  # of a run: how many are behind it, of how many


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

    @property
    def last(self) -> dict[str, float]:
        """The newest figures."""
        return {name: values[-1] for name, values in self.figures.items() if values and values[-1] is not None}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Item]
    recipe: list[Row]
    metrics: list[Row]
    curves: list[Curve]
    modules: int  # of the first two layers: so much room their differences take


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be compared: a name that `resolve` knows, or a run."""

    ref: str
    id: str | None
    when: float
    what: str  # "now", "before" or "tag"; of a run, how it stands
    layer: str  # its name


@dataclass(frozen=True)
class Side:
    """One of those that are compared: a layer, or a run that has made none."""

    asked: str
    id: str  # of the layer, or the run
    run: str
    manifest: Manifest | None = None
    told: Run | None = None


def choices(store: Store, runs: Sequence[Run] = ()) -> list[Choice]:
    """What refs point at and have pointed at, newest first, tags, and runs that have made no layer."""
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
            ref = name if what == "now" else f"{name}@sha256:{entry.id[:12]}"
            found.append(Choice(ref=ref, id=entry.id, when=entry.time, what=what, layer=name))
    tags = store.refs.tags(damaged=False)
    found += [Choice(ref=name, id=id, when=0.0, what="tag", layer=name) for name, id in tags.items() if store.has_layer(id)]
    for run in runs:
        if run.state != "finished":
            layer = f"{run.stack}/{run.layer}" if run.stack and run.layer else run.run
            found.append(Choice(ref=run.run, id=None, when=run.last or 0.0, what=run.state, layer=layer))
    order = {"live": 0, "now": 1, "tag": 2, "before": 4}  # and between these, runs that ended without a layer
    return sorted(found, key=lambda one: (order.get(one.what, 3), -one.when))[:CHOICES]


def sides(store: Store, asked: Sequence[str], stack: str | None) -> list[Side]:
    """L008 for fewer than two or too many; L006 for what nobody knows. What is named twice counts once."""
    found: dict[str, Side] = {}
    for text in asked:
        side = side_of(store, text, stack)
        found.setdefault(side.id, side)
    if not 2 <= len(found) <= MOST:
        raise LaminarError("L008", f"{len(found)} layers or runs are named, and 2 to {MOST} can be compared", hint="choose others")
    return list(found.values())


def side_of(store: Store, text: str, stack: str | None) -> Side:
    """What `text` names: a layer in any way that `resolve` knows, the layer that a run has made, or the run itself."""
    try:
        id = resolve(store, text, stack)
    except LaminarError as error:
        run = find_run(store, text) if error.code == "L006" else None
        if run is None:
            raise
        if run.id is None or not store.has_layer(run.id):
            return Side(text, run.run, run.run, told=run)
        id = run.id
    manifest = store.layer(id)
    return Side(text, id, manifest.run, manifest=manifest)


def layers(store: Store, asked: Sequence[str], stack: str | None) -> list[Manifest]:
    """Those of them that have tensors. L008 where fewer than two have."""
    found = [side.manifest for side in sides(store, asked, stack) if side.manifest is not None]
    if len(found) < 2:
        said = f"it takes two layers, and {len(found)} of these {'is' if len(found) == 1 else 'are'}: a run becomes one when it is done"
        raise LaminarError("L008", said, hint="choose layers")
    return found


def compare(store: Store, asked: Sequence[str], stack: str | None, look: Callable[[Path], Curve]) -> Comparison:
    """`look(events.jsonl)`: what they tell."""
    found = sides(store, asked, stack)
    records = [_record(store, side.manifest) if side.manifest is not None else None for side in found]
    specs = [_spec(store, side, record) for side, record in zip(found, records, strict=True)]
    curves = [look(_events(store, side.run)) for side in found]
    figures = [dict(s.manifest.metrics) if s.manifest is not None else c.last for s, c in zip(found, curves, strict=True)]
    both = [side.manifest for side in found if side.manifest is not None][:2]
    return Comparison(
        items=[_item(store, side, spec) for side, spec in zip(found, specs, strict=True)],
        recipe=_rows([flat(_without(spec)) if spec else {} for spec in specs]),
        metrics=_rows(figures),
        curves=curves,
        modules=len({module_of(name) for manifest in both for name in manifest.tensors}) if len(both) == 2 else 0,
    )


def _events(store: Store, run: str) -> Path:
    """A layer may have come without its run; and what a stranger's manifest calls one is never a path."""
    return store.layout.runs / (run if NAME.fullmatch(run) else "-") / EVENTS


def _spec(store: Store, side: Side, record: BuildRecord | None) -> dict[str, Any]:
    """A layer that was pulled or imported may have none."""
    if side.told is not None:
        return recipe_of(store.layout.runs / side.run)[0]
    return record.spec if record is not None else {}


def _without(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in PASSING}


def _record(store: Store, manifest: Manifest) -> BuildRecord | None:
    """None: a layer that was pulled or imported may have none, and a damaged one says nothing here."""
    try:
        return store.record(manifest.key)
    except LaminarError:
        return None


def _item(store: Store, side: Side, spec: dict[str, Any]) -> Item:
    data = spec.get("data")
    named = data if isinstance(data, str) else None
    if side.manifest is not None:
        return _of_layer(side.asked, side.manifest, named)
    assert side.told is not None
    return _of_run(side.asked, side.told, recipe_of(store.layout.runs / side.run), named)


def _of_layer(asked: str, manifest: Manifest, data: str | None) -> Item:
    return Item(
        asked=asked,
        state="layer",
        why="",
        id=manifest.id,
        name=manifest.name,
        stack=manifest.stack,
        parent=manifest.parent,
        created=manifest.created,
        seconds=manifest.seconds,
        task=manifest.task,
        data=data,
        run=manifest.run,
        parameters=sum(math.prod(tensor.shape) for tensor in manifest.tensors.values()),
        frozen=manifest.frozen,
        classes=manifest.classes,
        notes=manifest.notes,
    )


def _of_run(asked: str, run: Run, recipe: tuple[dict[str, Any], str | None], data: str | None) -> Item:
    freeze = recipe[0].get("freeze")
    return Item(
        asked=asked,
        state=run.state,
        why=run.why,
        id=None,
        name=run.layer or run.run,
        stack=run.stack or "",
        parent=recipe[1],
        created=run.last,
        seconds=run.seconds,
        task=None,
        data=data,
        run=run.run,
        parameters=None,
        frozen=[str(one) for one in freeze] if isinstance(freeze, list) else [],
        classes=None,
        notes=[],
        epochs=(run.epoch, run.epochs),
    )


def _rows(tables: Sequence[dict[str, Any]]) -> list[Row]:
    """Those that differ first, in the order in which they are written."""
    fields = list(dict.fromkeys(field for table in tables for field in table))
    rows = [Row(field=field, values=[table.get(field) for table in tables], same=_equal(tables, field)) for field in fields]
    return sorted(rows, key=lambda row: row.same)


def _equal(tables: Sequence[dict[str, Any]], field: str) -> bool:
    return all(field in table and table[field] == tables[0].get(field) for table in tables)


def curve(events: Sequence[Event]) -> Curve:
    """Of a run's events but its steps. What is damaged or has no figures is passed over."""
    times = [event["t"] for event in events if is_figure(event.get("t"))]
    epochs = [event for event in events if event.get("event") == "epoch" and isinstance(event.get("epoch"), int)]
    epochs = [event for event in epochs if isinstance(event.get("test"), dict) and is_figure(event["epoch"]) and is_figure(event.get("t"))]
    names = list(dict.fromkeys(name for event in epochs for name in event["test"]))
    begin = min(times, default=0.0)
    return Curve(
        epochs=[event["epoch"] + 1 for event in epochs],
        seconds=[event["t"] - begin for event in epochs],
        figures={name: [_figure(event["test"].get(name)) for event in epochs] for name in names},
    )


def _figure(value: Any) -> float | None:
    return float(value) if is_figure(value) else None
