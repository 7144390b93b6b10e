"""Well-formed samples: whatever a source gave, brought to the few shapes and types the rest of Laminar knows, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.dataset import Array, Opened, Split
from laminar.data.room import Room, row_slices


def tidy_samples(given: Any, where: str, room: Room | None = None) -> Array:
    """uint8 or float32; (N, D), or (N, C, H, W) with a channel added or moved to the front where it stands last.

    What must be changed is written into `room`, a few rows at a time.
    """
    x: Array = np.asanyarray(given)
    if x.dtype.kind not in "biuf":
        raise LaminarError("L110", f"{where}: samples are of dtype {x.dtype}, expected numbers", hint="store x as uint8 or float32")
    if x.ndim == 0:
        raise LaminarError("L110", f"{where}: samples are a single number, expected an array of samples", hint="x needs shape (N, ...)")
    if x.ndim in (1, 3):
        x = x[:, None]
    last = x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4)
    kind = np.dtype(np.uint8 if x.dtype == np.uint8 else np.float32)
    if x.dtype == kind and not last and x.flags.c_contiguous:
        return x
    turned = x.transpose(0, 3, 1, 2) if last else x
    out = (room or Room()).empty(turned.shape, kind)
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinity, and is refused as such
        for part in row_slices(out):
            out[part] = turned[part]
    return out


def tidy_labels(given: Any, where: str) -> Array:
    """int64 (N,), or float32 (N, K) where the labels are real numbers."""
    y: Array = np.asarray(given)
    if y.dtype.kind == "f":
        y = y.astype(np.float32, copy=False)
        return y.reshape(len(y), -1) if y.ndim else y.reshape(1, 1)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind not in "biu" or y.ndim != 1:
        raise LaminarError(
            "L110",
            f"{where}: labels have dtype {y.dtype} and shape {y.shape}; expected whole numbers (N,), or real numbers for regression",
            hint="store y as one whole number per sample, or as floats",
        )
    return y.astype(np.int64, copy=False)


def named_labels(parts: list[Any], where: str, names: tuple[str, ...] | None = None) -> tuple[list[Array], tuple[str, ...] | None]:
    """Tidy the labels of train and test together, and name the classes: given names, the strings themselves, or "0".."k-1"."""
    arrays = [np.asarray(part) for part in parts]
    if all(a.dtype.kind in "US" for a in arrays):
        texts = [a.astype(str) for a in arrays]
        known = names or tuple(str(t) for t in np.unique(np.concatenate(texts)))
        index = {name: i for i, name in enumerate(known)}
        for text in texts:
            for word in np.unique(text):
                if str(word) not in index:
                    raise LaminarError(
                        "L104", f"{where}: label '{word}' is not among the classes {', '.join(known)}", hint="add it to classes"
                    )
        return [np.array([index[str(t)] for t in text], dtype=np.int64) for text in texts], known
    tidy = [tidy_labels(a, where) for a in arrays]
    if any(t.dtype == np.float32 for t in tidy):
        if not all(t.dtype == np.float32 for t in tidy):
            raise LaminarError(
                "L110", f"{where}: train and test labels differ: one has whole numbers, one has real ones", hint="store both alike"
            )
        return tidy, None
    for t in tidy:
        if t.size and t.min() < 0:
            raise LaminarError("L110", f"{where}: label {t.min()} of sample {int(t.argmin())} is negative", hint="number classes from 0")
    top = max((int(t.max()) for t in tidy if t.size), default=-1) + 1
    if names is None:
        refuse_far_labels(tidy, where)
        return tidy, tuple(map(str, range(top)))
    if top > len(names):
        raise LaminarError(
            "L104",
            f"{where}: a label is {top - 1}, but only {many(len(names), 'class', 'is')} named",
            hint="name every class, or correct the labels",
        )
    return tidy, names


def refuse_far_labels(parts: list[Array], where: str) -> None:
    """A class more than there are samples: some would be empty, and one mistyped label could ask for a billion of them."""
    samples = sum(len(part) for part in parts)
    for part in parts:
        top = int(part.max()) if part.size else 0
        if top >= max(samples, 2):
            raise LaminarError(
                "L104",
                f"{where}: label {top} of sample {int(part.argmax())} is out of range: {many(samples, 'sample')} cannot have so many",
                hint="correct the label; classes are numbered from 0 without gaps",
            )


def check_opened(opened: Opened, where: str) -> None:
    """Refuse what no later step could use: nothing at all, samples without labels, test unlike train, numbers that are none."""
    if not len(opened.train):
        raise LaminarError("L103", f"{where}: the data set has no samples", hint="add samples, or correct source")
    parts = [("train", opened.train)] + ([("test", opened.test)] if opened.test is not None else [])
    for name, split in parts:
        if len(split.x) != len(split.y):
            raise LaminarError(
                "L110",
                f"{where}: {many(len(split.x), f'{name} sample')}, but {many(len(split.y), 'label')}",
                hint="give every sample one label",
            )
        if split.x.shape[1:] != opened.train.x.shape[1:]:
            raise LaminarError(
                "L106",
                f"{where}: {name} samples have shape {split.x.shape[1:]}, train samples {opened.train.x.shape[1:]}",
                hint="bring both to one shape",
            )
        if split.x.dtype != opened.train.x.dtype:
            raise LaminarError(
                "L110", f"{where}: {name} samples are {split.x.dtype}, train samples {opened.train.x.dtype}", hint="store both alike"
            )
        _refuse_unreal(split, f"{where}: {name}")


def _refuse_unreal(split: Split, where: str) -> None:
    for what, values in (("sample", split.x), ("target of sample", split.y)):
        if values.dtype.kind != "f":
            continue
        for part in row_slices(values):
            good = np.isfinite(values[part])
            if not good.all():
                bad = part.start + int(np.argmin(good.reshape(len(good), -1).all(axis=1)))
                raise LaminarError(
                    "L110", f"{where}: {what} {bad} has a value that is not finite", hint="clean the data: no NaN, no infinity"
                )
