"""Opening a data set: the source's samples, then classes, split, and a sample or limit of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.augment_fit import refuse_unfit, sides_of
from laminar.data.classes import resolve_classes, select
from laminar.data.dataset import Dataset, Opened, Split
from laminar.data.pictures import PictureSource
from laminar.data.remember import Memory
from laminar.data.room import Room, budget_of
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Opening, Progress, Source, silent
from laminar.data.spec import DataSpec, SplitSpec, checked
from laminar.data.split import balanced_indices, limit_indices, source_sides, split_indices
from laminar.data.wellformed import check_opened, note_on_bytes

VOCABULARY: Final = 256  # numbered classes


def open_data(
    spec: DataSpec, root: Path, *, cache: Path | None = None, progress: Progress | None = None, notes: list[str] | None = None
) -> Dataset:
    """The data set that `spec` describes. `cache` is the folder that `fingerprint` was given, if it was; `notes` are for the user."""
    checked(spec)
    how = Opening(
        Room(budget_of(spec.memory)),
        memory=Memory(cache) if cache else None,
        progress=progress or silent,
        notes=notes if notes is not None else [],
    )
    if spec.fragment is not None:
        from laminar.data.fragments.open import open_fragments

        return open_fragments(spec, root, how)
    source = source_of(spec, root)
    opened = source.open(how)
    check_opened(opened, spec.where)
    if note := note_on_bytes(opened, spec.where):
        how.notes.append(note)
    refuse_unfit(spec.augment, sides_of(opened.train.x.shape[1:]))
    if spec.sample is not None and opened.classes is None:
        raise LaminarError("L109", "sample: the data has real-valued targets, so there are no classes to balance", hint="use limit")
    return _divide(spec, opened, _source_sides(spec, source, how), how)


def _divide(spec: DataSpec, opened: Opened, sides: NDArray[np.bool_] | None, opening: Opening) -> Dataset:
    """Classes, split, sample and limit. `sides` are those of the samples where the split is by source."""
    how, room, notes = spec.split or SplitSpec(), opening.room, opening.notes
    stratified = opened.classes is not None
    train, test, names = opened.train, opened.test, opened.classes
    strata, test_strata = train.y, None if test is None else test.y  # a sample's side goes by its class in the source
    positions = resolve_classes(spec.classes, names)
    if positions is not None and names is not None:
        names = tuple(names[p] for p in positions)
        if sides is not None:
            sides = sides[np.isin(train.y, positions)]
        kept, train = select(train, positions, room)
        strata = kept
        if test is not None:
            kept, test = select(test, positions, room)
            test_strata = kept
        if spec.classes is None and _is_vocabulary(names):
            if (used := len(np.unique(train.y))) < len(names):
                notes.append(f"{spec.where}: {used:,} of {len(names):,} classes have samples")
        else:
            _refuse_empty_classes(train, names, spec.where)
    if test is None or test_strata is None:
        if sides is not None:
            train_index, test_index = np.flatnonzero(~sides), np.flatnonzero(sides)
        else:
            train_index, test_index = split_indices(strata, how.test, how.seed, stratified=stratified)
        if not len(test_index):
            raise LaminarError(
                "L103", f"{spec.where}: {many(len(train), 'sample', 'is')} too few to keep any for testing", hint="add samples"
            )
        train, test = train.take(train_index, room), train.take(test_index, room)
        strata, test_strata = strata[train_index], strata[test_index]
    if not len(test):
        raise LaminarError(
            "L103", f"{spec.where}: the test set has no samples of the classes chosen", hint="add test samples, or change classes"
        )
    if spec.sample is not None and names is not None:
        share = max(1, min(round(spec.sample.per_class * len(test) / len(train)), int(np.bincount(test.y).min())))
        wanted = spec.sample.test_per_class or share
        train = train.take(balanced_indices(train.y, spec.sample.per_class, spec.sample.seed, names=names, label="sample"), room)
        test = test.take(balanced_indices(test.y, wanted, spec.sample.seed, names=names, label="sample-test"), room)
    if spec.limit is not None and spec.limit < len(train):
        share = max(round(len(test) * spec.limit / len(train)), len(np.unique(test.y)) if stratified else 1)
        train = train.take(limit_indices(strata, spec.limit, how.seed, stratified=stratified, label="limit"), room)
        test = test.take(limit_indices(test_strata, share, how.seed, stratified=stratified, label="limit-test"), room)
    return Dataset(_ready(train), _ready(test), names)


def _source_sides(spec: DataSpec, source: Source, how: Opening) -> NDArray[np.bool_] | None:
    """The sides of the samples of a source of image files; files with the same bytes are on one side."""
    split = spec.split or SplitSpec()
    if split.by != "source":
        return None
    if not isinstance(source, PictureSource):
        raise LaminarError(
            "L109", f'split.by: "source" needs images in files, but {spec.where} has none', hint='remove by, or write by = "sample"'
        )
    pictures = source.pictures(how.memory, how.progress)
    if pictures.own_test:
        return None
    labels = [pictures.classes.index(file.label) for file in pictures.files]
    return source_sides(labels, [file.sha256 for file in pictures.files], split.test, split.seed)


def _is_vocabulary(names: tuple[str, ...]) -> bool:
    """Numbered classes, and many: words of which some are not used, rather than classes of which some were forgotten."""
    return len(names) >= VOCABULARY and names == tuple(map(str, range(len(names))))


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
    # "any": a mapped array stays one, or its pages would never leave memory again
    return Split(np.asanyarray(split.x, order="C"), np.ascontiguousarray(split.y))
