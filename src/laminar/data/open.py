"""Opening a data set: the source's samples, then classes, split and limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.classes import resolve_classes, select
from laminar.data.dataset import Dataset, Split
from laminar.data.remember import Memory
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Progress, silent
from laminar.data.spec import DataSpec, SplitSpec, checked
from laminar.data.split import limit_indices, split_indices
from laminar.data.wellformed import check_opened


def open_data(spec: DataSpec, root: Path, *, cache: Path | None = None, progress: Progress | None = None) -> Dataset:
    """The data set that `spec` describes. `cache` is the folder that `fingerprint` was given, if it was."""
    source = source_of(checked(spec), root)
    opened = source.open(Memory(cache) if cache else None, progress or silent)
    check_opened(opened, spec.source)
    how = spec.split or SplitSpec()
    stratified = opened.classes is not None
    train, test, names = opened.train, opened.test, opened.classes
    strata, test_strata = train.y, None if test is None else test.y  # a sample's side goes by its class in the source
    positions = resolve_classes(spec.classes, names)
    if positions is not None and names is not None:
        names = tuple(names[p] for p in positions)
        kept, train = select(train, positions)
        strata = kept.y
        if test is not None:
            kept, test = select(test, positions)
            test_strata = kept.y
        _refuse_empty_classes(train, names, spec.source)
    if test is None or test_strata is None:
        train_index, test_index = split_indices(strata, how.test, how.seed, stratified=stratified)
        if not len(test_index):
            raise LaminarError("L103", f"{spec.source}: {len(train)} samples are too few to keep any for testing", hint="add samples")
        train, test = train.take(train_index), train.take(test_index)
        strata, test_strata = strata[train_index], strata[test_index]
    if not len(test):
        raise LaminarError(
            "L103", f"{spec.source}: the test set has no samples of the classes chosen", hint="add test samples, or change classes"
        )
    if spec.limit is not None and spec.limit < len(train):
        share = max(round(len(test) * spec.limit / len(train)), len(np.unique(test.y)) if stratified else 1)
        train = train.take(limit_indices(strata, spec.limit, how.seed, stratified=stratified, label="limit"))
        test = test.take(limit_indices(test_strata, share, how.seed, stratified=stratified, label="limit-test"))
    return Dataset(_ready(train), _ready(test), names)


def _refuse_empty_classes(train: Split, names: tuple[str, ...], source: str) -> None:
    counts = np.bincount(train.y, minlength=len(names))
    empty = [name for name, count in zip(names, counts, strict=True) if not count]
    if empty:
        others = [name for name in names if name not in empty]
        shown = ", ".join(repr(name) for name in empty[:5]) + (", …" if len(empty) > 5 else "")
        raise LaminarError(
            "L103",
            f"{source}: no training samples of class {shown}, but {len(train)} of the {len(others)} others",
            hint="add samples, or choose classes = ["
            + ", ".join(f'"{name}"' for name in others[:12])
            + (", …" if len(others) > 12 else "")
            + "]",
        )


def _ready(split: Split) -> Split:
    return Split(np.ascontiguousarray(split.x), np.ascontiguousarray(split.y))
