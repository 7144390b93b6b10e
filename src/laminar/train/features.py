"""Kept features: the frozen prefix of a model is computed once per sample, kept in the store, and trained on.

    kept = prepare_features(model, frozen, data, augment, recipe, store, emit)
    KeptFeatures: train on kept.fit, test on kept.test        NotKept: train as always; .reason says why

Read in this order: this file; model/prefix.py (where a model can be cut); features_probe.py (is the cut pure?); features_measure.py
and features_decide.py (does keeping pay?); features_part.py (keys, and what is missing); features_rows.py (rows on disk, by the digest
of their sample); features_view.py (rows as arrays); features_evict.py (the budget); kept.py (what `status` shows).

The key of a prefix is a digest of its tensors and its graph, so layers, stacks and experiments with the same frozen part share
rows, and a data set that grew computes only what is new.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.data.dataset import Dataset
from laminar.model.prefix import Keeps, NoPrefix, as_it_was, find_prefix, training_mode
from laminar.train import features_measure as measure
from laminar.train.features_decide import Costs, Decision, budget, decide, size, too_short
from laminar.train.features_evict import make_room
from laminar.train.features_part import Part, parts_of
from laminar.train.features_probe import impurity, seconds_of_all, seconds_per_sample, spread
from laminar.train.job import Route
from laminar.train.recipe import Recipe

if TYPE_CHECKING:
    from laminar.store.store import Store

SAY_EVERY = 0.1  # seconds
PROBE_SAMPLES: Final = 16


class Augment(Protocol):
    @property
    def changes_nothing(self) -> bool: ...


@dataclass
class KeptFeatures:
    fit: Route
    test: Route
    decision: Decision
    fkey: str
    fkeys: tuple[str, ...]  # of both forms; mostly one
    bytes: int
    computed: int  # samples that went through the prefix now
    reused: int  # samples whose features were there
    seconds: float
    modules: tuple[str, ...]
    note: str = ""  # why the cut is at module boundaries, where it is

    def summary(self) -> str:
        news = f"computed for {self.computed} samples in {self.seconds:.1f} s" if self.computed else "found in the store"
        again = f", {self.reused} reused" if self.computed and self.reused else ""
        cut = f"; cut at module boundaries, as {self.note}" if self.note else ""
        return f"features kept: {news}{again}, {size(self.bytes)} ({self.decision.reason}){cut}"


@dataclass
class NotKept:
    reason: str
    decision: Decision | None = None

    def summary(self) -> str:
        return "" if self.reason == NOTHING_FROZEN else f"features not kept: {self.reason}"


NOTHING_FROZEN: Final = "nothing is frozen"


def prepare_features(
    model: nn.Module, frozen: Keeps | None, data: Dataset, augment: Augment | None, recipe: Recipe, store: Store, emit: Emit
) -> KeptFeatures | NotKept:
    """Find, prove, measure, decide, keep. Changes nothing about how `model` trains; a failure of keeping is a NotKept, not an error."""
    with _threads(recipe.threads):
        try:
            found = _prepare(model, frozen, data, augment, recipe, store, emit)
        except LaminarError as error:
            if error.code not in ("L301", "L302"):
                raise
            found = NotKept(f"they could not be written: {error.message}")
    if isinstance(found, KeptFeatures):
        emit(
            {
                "event": "features",
                "action": "kept",
                "key": found.fkey,
                "computed": found.computed,
                "reused": found.reused,
                "why": found.decision.reason,
            }
        )
    elif found.reason != NOTHING_FROZEN:
        emit({"event": "features", "action": "not-kept", "why": found.reason})
    return found


def _prepare(
    model: nn.Module, frozen: Keeps | None, data: Dataset, augment: Augment | None, recipe: Recipe, store: Store, emit: Emit
) -> KeptFeatures | NotKept:
    start = time.perf_counter()
    if frozen is None or all(p.requires_grad for p in model.parameters()):
        return NotKept(NOTHING_FROZEN)
    if recipe.keep_features == "never":
        return NotKept('the recipe says keep_features = "never"')
    if augment is not None and not augment.changes_nothing:
        return NotKept("random augmentation changes the samples in every epoch")
    if recipe.dtype != "float32":
        return NotKept(f"features are kept in float32 only, and dtype is {recipe.dtype}")
    if recipe.keep_features == "auto" and (why := _too_short(model, frozen, data, recipe)):
        return NotKept(why)
    samples = spread(data.train.x, PROBE_SAMPLES)
    prefix = find_prefix(model, samples[:3], frozen)
    if isinstance(prefix, NoPrefix):
        return NotKept(prefix.reason)
    if why := impurity(model, frozen, prefix, samples):
        return NotKept(why)

    parts = parts_of(prefix.fit, prefix.test, data, recipe.batch)
    with contextlib.ExitStack() as held:
        held.enter_context(as_it_was(model))
        training_mode(model, frozen)
        held.enter_context(store.lease(features=[part.fkey for part in parts]))
        for part in sorted(parts, key=lambda p: p.fkey):  # in one order everywhere, so that two builds never wait for each other
            waiting = {"event": "waiting", "why": "another build computes the same features"}
            held.enter_context(store.lock(f"features-{part.fkey}", on_wait=lambda event=waiting: emit(event)))  # type: ignore[misc]
            part.open(store)
            held.callback(part.rows.close)
        for part in parts:
            part.look(recipe.batch)
        costs = _costs(parts, data, recipe, store)
        decision = decide(costs, recipe.keep_features)
        if not decision.keep:
            return NotKept(decision.reason, decision)
        make_room(store, own=frozenset(part.fkey for part in parts), wanted=costs.missing * costs.row_bytes, budget=costs.budget)
        progress = _progress(emit, sum(len(part.missing) for part in parts))
        for part in parts:
            part.fill(recipe.batch, progress)
            part.rows.touch()
        routes = {
            name: Route(part.cut.suffix if name == "fit" else prefix.test.suffix, part.inputs(name)) for part in parts for name in part.x
        }
    return KeptFeatures(
        fit=routes["fit"],
        test=routes["test"],
        decision=decision,
        fkey=parts[0].fkey,
        fkeys=tuple(part.fkey for part in parts),
        bytes=sum(part.rows.bytes for part in parts),
        computed=sum(part.computed for part in parts),
        reused=sum(part.reused for part in parts),
        seconds=time.perf_counter() - start,
        modules=prefix.fit.modules,
        note=prefix.note,
    )


def _too_short(model: nn.Module, frozen: Keeps, data: Dataset, recipe: Recipe) -> str:
    """One batch says what the training can take at most, before anything that takes longer is begun."""
    samples = len(data.train.x) + len(data.test.x)
    try:
        compute = seconds_of_all(model, frozen, data.train.x, recipe.batch)
    except Exception:  # a model that fails in training mode: training will say so, with the step and the line
        return ""
    return too_short(epochs=recipe.epochs, samples=samples, compute=compute, modules=sum(1 for _ in model.modules()))


def _costs(parts: list[Part], data: Dataset, recipe: Recipe, store: Store) -> Costs:
    fit = parts[0]
    missing = sum(len(part.missing) for part in parts)
    row_bytes = max(part.rows.row_bytes for part in parts)
    kept = sum(part.rows.rows for part in parts)
    cold = not measure.fits_in_memory((missing + kept) * row_bytes)
    read, write = measure.read_and_write(store.root / "tmp", row_bytes, rows=len(data.train.x), cold=cold)
    limit, free = budget(store.root)
    plain = measure.gather_seconds(data.train.x)
    return Costs(
        train=len(data.train.x),
        test=len(data.test.x),
        missing=missing,
        kept=kept,
        epochs=recipe.epochs,
        compute=seconds_per_sample(fit.cut, data.train.x, recipe.batch),
        read=read + (plain if fit.cut.input_at is not None else 0.0),
        read_plain=plain,
        write=write,
        row_bytes=row_bytes,
        budget=limit,
        free=free,
    )


def _progress(emit: Emit, todo: int) -> Callable[[int], None]:
    """Counts samples done and says so ten times a second at most."""
    done, said = 0, 0.0

    def progress(more: int) -> None:
        nonlocal done, said
        done += more
        if done == todo or time.perf_counter() - said >= SAY_EVERY:
            said = time.perf_counter()
            emit({"event": "features", "action": "computing", "done": done, "of": todo})

    return progress


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """As many threads as training will use: the prefix is timed, and its sums are split, as in training."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
