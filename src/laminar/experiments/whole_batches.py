"""Whole batches in sweeps: a variant whose batch is above the number of training samples is named as such, and no training has two rows.

A step takes all samples at most. So two variants that differ in nothing but batches above their number are one training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from laminar.core import digest
from laminar.core.figures import many
from laminar.data.count import at_most_training_samples, training_samples
from laminar.data.fingerprint import fingerprint
from laminar.data.spec import DataSpec
from laminar.experiments.record import Description, Variant
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile
from laminar.store.store import Store
from laminar.train.recipe import Recipe


class Sized(msgspec.Struct, frozen=True):
    """A variant, its recipe, and how many samples its data has at most; None: not known."""

    variant: Variant
    recipe: Recipe
    data: str
    samples: int | None


def without_twins(described: Description, stacks: Mapping[str, StackFile], store: Store) -> Description:
    """The description without variants that are the training of another one, and with a note on each batch that is above the samples.

    `stacks`: of each variant, by id.
    """
    path = f"layer.{described.layer}.train.batch"
    batches = {axis.name for axis in described.axes if axis.path == path}
    known: dict[str, int | None] = {}
    sized = []
    for variant in described.variants:
        file = stacks[variant.id]
        layer = next(one for one in file.spec.layer if one.name == described.layer)
        spec = file.spec.data[layer.data]
        name = digest.of_json(msgspec.to_builtins(spec))
        if name not in known:
            known[name] = _samples(spec, file.root, store, opened=bool(batches))
        sized.append(Sized(variant, layer.train, layer.data, known[name]))
    kept, notes = trainings(sized, batches)
    benchmark = kept.get(described.benchmark, described.benchmark)
    left = [one for one in described.variants if kept.get(one.id, one.id) == one.id]
    return msgspec.structs.replace(described, variants=tuple(left), benchmark=benchmark, notes=(*described.notes, *notes))


def trainings(sized: list[Sized], batches: set[str]) -> tuple[dict[str, str], list[str]]:
    """Which variant each one is the training of (itself, or one that is listed before it), and what is to be said. Pure."""
    first: dict[str, Variant] = {}
    found: dict[str, str] = {}
    notes: dict[str, None] = {}  # in order, each once
    for one in sized:
        batch = one.recipe.batch if one.samples is None else min(one.recipe.batch, one.samples)
        settings: dict[str, Any] = {name: value for name, value in one.variant.settings.items() if name not in batches}
        same = digest.of_json(msgspec.to_builtins({"settings": settings, "batch": batch, "rate": one.recipe.rate}))
        twin = first.setdefault(same, one.variant)
        found[one.variant.id] = twin.id
        if one.samples is not None and one.recipe.batch > one.samples:
            there = f"{many(one.samples, 'training sample')} of data.{one.data}"
            notes[f"batch {one.recipe.batch:,} is above the {there}: each step takes all of them"] = None
        if twin is not one.variant:
            notes[f"{one.variant.label}: the same training as {twin.label}, so it is no row of its own"] = None
    return found, list(notes)


def _samples(spec: DataSpec, root: Path, store: Store, *, opened: bool) -> int | None:
    """`opened`: where batches vary, data are opened to count them, unless they would have to be fetched or cut first."""
    cache = fingerprint_folder(store)
    content = fingerprint(spec, root, cache)
    sources = [spec.source] if isinstance(spec.source, str) else spec.source
    if opened and spec.fragment is None and not any(one.startswith(("index:", "python:")) for one in sources):
        return training_samples(spec, content, root, cache)
    return at_most_training_samples(spec, content, root, cache)
