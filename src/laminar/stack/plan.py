"""Plan: for each layer, whether a build would train it or reuse it, and why. Imports no torch, trains nothing, moves no ref."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from laminar.core import digest
from laminar.core.clock import iso
from laminar.core.errors import LaminarError
from laminar.data.remember import Memory
from laminar.stack import parents
from laminar.stack.in_words import in_words
from laminar.stack.key import changes, inputs_of, key_of
from laminar.stack.read import StackFile, bottom_up, parents_of
from laminar.stack.seen import SEEN, Seen
from laminar.stack.specs import LayerSpec
from laminar.store.manifest import BuildRecord
from laminar.store.runs import APART, FINISHED
from laminar.store.store import Store

Action = Literal["build", "cached"]
SHOWN = 3  # changes named in a `why`


@dataclass(frozen=True)
class Step:
    """One layer's part in a build. `key` is None while its parent is still to be built: only then is the parent's id known."""

    layer: LayerSpec
    action: Action
    why: str
    key: str | None
    inputs: dict[str, Any] | None
    parent: str | None
    record: BuildRecord | None  # of the layer reused, or of the nearest earlier build
    differences: list[tuple[str, Any, Any]] = field(default_factory=list)

    @property
    def id(self) -> str | None:
        return self.record.id if self.action == "cached" and self.record else None


def plan(file: StackFile, store: Store, *, targets: list[str] | None = None, force: bool = False) -> list[Step]:
    """Every layer to visit, bottom up. `force` is for the named targets, or for all layers when none are named."""
    steps: dict[str, Step] = {}
    named = parents_of(file.spec)
    for layer in bottom_up(file, targets):
        parent_name = named[layer.name]
        below = steps.get(parent_name) if parent_name else None
        if below is not None and below.action == "build":
            inputs_of(file, layer, None, fingerprint_folder(store))  # its mistakes are seen now, not when the layers below are trained
            steps[layer.name] = Step(layer, "build", f"stands on {parent_name}, which is built first", None, None, None, None)
            continue
        parent = below.id if below is not None else parents.resolve(file, store, layer, parent_name, fetch=False)
        forced = force and (not targets or layer.name in targets)
        steps[layer.name] = decide(file, store, layer, parent, forced=forced)
    return list(steps.values())


def decide(file: StackFile, store: Store, layer: LayerSpec, parent: str | None, *, forced: bool = False) -> Step:
    """Build or reuse one layer whose parent's id is known."""
    asked = inputs_of(file, layer, parent, fingerprint_folder(store))
    seen = seen_of(file, store)
    tried = list(seen.candidates(asked))
    if not forced and (step := _reused(store, layer, parent, tried)) is not None:
        return step
    records = list(store.records())
    more = list(seen.from_records(asked, records))
    if not forced and (step := _reused(store, layer, parent, more)) is not None:
        seen.remember(key_of(asked), step.inputs[SEEN] if step.inputs else ())
        return step
    inputs = [*tried, *more][min(1, len(tried) + len(more) - 1)]  # with what is now at the places that were looked at last time
    key = key_of(inputs)
    record = known(store, key)
    if forced:
        return Step(layer, "build", "--force", key, inputs, parent, record)
    if record is not None:
        why = f"built before as {digest.short(record.id)}, but the store has lost some of it"
        return Step(layer, "build", why + _resuming(store, key), key, inputs, parent, record)
    earlier = nearest_build(records, file.spec.stack.name, layer.name, inputs)
    if earlier is None:
        return Step(layer, "build", "never built" + _resuming(store, key), key, inputs, parent, None)
    differences = changes(earlier.inputs, inputs)
    why = summary(differences, f"data.{layer.data} ({file.spec.data[layer.data].where})")
    return Step(layer, "build", why + _resuming(store, key), key, inputs, parent, earlier, differences)


def _reused(store: Store, layer: LayerSpec, parent: str | None, candidates: Iterable[dict[str, Any]]) -> Step | None:
    for inputs in candidates:
        key = key_of(inputs)
        record = known(store, key)
        if record is not None and store.complete(record.id):
            return Step(layer, "cached", f"same inputs as the build of {iso(record.created)}", key, inputs, parent, record)
    return None


def seen_of(file: StackFile, store: Store) -> Seen:
    return Seen(file.root, Memory(fingerprint_folder(store)))


def known(store: Store, key: str) -> BuildRecord | None:
    """The build with this key. A record that is damaged is as good as none: the layer is trained again, and the record with it."""
    try:
        return store.record(key)
    except LaminarError as error:
        if error.code != "L303":
            raise
        return None


def nearest_build(records: Iterable[BuildRecord], stack: str, name: str, inputs: dict[str, Any]) -> BuildRecord | None:
    """The earlier build of this layer with the fewest inputs that differ; the newest of equals."""
    mine = [r for r in records if r.stack == stack and r.name == name]
    return min(mine, key=lambda r: (len(changes(r.inputs, inputs)), -r.created), default=None)


def summary(differences: list[tuple[str, Any, Any]], data: str) -> str:
    said = in_words(differences, data)
    more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return ", ".join(said[:SHOWN]) + more


def fingerprint_folder(store: Store) -> Path:
    """Of a store that was not made yet it is a place where nothing can be kept: looking makes no store."""
    return store.layout.fingerprints if store.layout.format.exists() else Path(os.devnull) / "fingerprints"


def run_of(store: Store, key: str, *, again: bool) -> str:
    """The run folder's name for a key: an unfinished run is taken up again; a forced rebuild of a finished one gets a number."""
    name, number = key[:16], 1
    while again and (store.layout.run(name) / FINISHED).exists():
        number += 1
        name = f"{key[:16]}-{number}"
    return name


def _resuming(store: Store, key: str) -> str:
    folder = store.layout.run(key[:16])
    kept = (folder / "checkpoint.json").exists() or (folder / APART / "chief.json").exists()
    return "; resumes from its checkpoint" if kept and not (folder / FINISHED).exists() else ""
