"""Well-formed samples: whatever a source gave, brought to the few shapes and types the rest of Laminar knows, or refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.dataset import Array, Opened, Split
from laminar.data.room import Room, row_slices

MOST_CLASSES: Final = 1_000_000


def tidy_samples(given: Any, where: str, room: Room | None = None) -> Array:
    """uint8 or float32; (N, D), or (N, C, H, W) with a channel added or moved to the front where it stands last.

    What must be changed is written into `room`, a few rows at a time.
    """
    x = _array(given, where, "samples")
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


def _array(given: Any, where: str, what: str) -> Array:
    """Convert the result of a source or a user's function to an array. Raises L110 for ragged rows, and for types that numpy lacks."""
    try:
        array: Array = np.asanyarray(given)
    except (ValueError, TypeError, RuntimeError) as error:
        shapes = _shapes(given)
        if shapes is None:
            dtype = str(getattr(given, "dtype", type(given).__name__)).removeprefix("torch.")
            raise LaminarError(
                "L110",
                f"{where}: {what} of type {dtype} cannot be read: {error}; expected {_ALLOWED}",
                hint=f"return {what} as a numpy array or as a dense tensor: t.detach().float().numpy()",
            ) from None
        raise _ragged(shapes, where, what) from None
    if array.dtype == object and (shapes := _shapes(array)) is not None:
        raise _ragged(shapes, where, what)
    return array


_ALLOWED = "bool, whole numbers, float16, float32 or float64, all rows of one shape"


def _shapes(rows: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """(the first row whose shape differs from that of row 0, its shape, the shape of row 0); None if all shapes are equal."""
    try:
        first = None
        for number, row in enumerate(rows):
            shape = tuple(np.shape(row))
            first = shape if first is None else first
            if shape != first:
                return number, shape, first
    except (ValueError, TypeError, RuntimeError):  # a row is ragged itself, or the value has no rows
        pass
    return None


def _ragged(shapes: tuple[int, tuple[int, ...], tuple[int, ...]], where: str, what: str) -> LaminarError:
    number, shape, first = shapes
    return LaminarError(
        "L110",
        f"{where}: {what} are ragged: row 0 has shape {first}, row {number} has shape {shape}; expected {_ALLOWED}",
        hint="pad or cut the rows to one shape",
    )


def tidy_labels(given: Any, where: str) -> Array:
    """int64 (N,), or float32 (N, K) where the labels are real numbers."""
    y = _array(given, where, "labels")
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
    arrays = [_array(part, where, "labels") for part in parts]
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
    """Refuse a label far above all others: it is probably mistyped, and could create a billion classes.

    More classes than samples are allowed: 2,000 texts may use 2,000 of 30,000 words. Then labels lie everywhere below the highest.
    """
    samples = sum(len(part) for part in parts)
    labels = np.unique(np.concatenate([part.ravel() for part in parts])) if samples else np.empty(0, np.int64)
    top = int(labels[-1]) if labels.size else 0
    if top < max(samples, 2):
        return
    below = int(labels[-2]) if labels.size > 1 else 0
    if top < MOST_CLASSES and top - below <= top // 2:
        return
    part = next(part for part in parts if part.size and int(part.max()) == top)
    why = (
        f"the next lower one is {below}, and there are"
        if top - below > top // 2
        else f"more than {MOST_CLASSES:,} classes are not possible;"
    )
    raise LaminarError(
        "L104",
        f"{where}: label {top} of sample {int(part.argmax())} is out of range: {why} {many(samples, 'sample')}",
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


def note_on_bytes(opened: Opened, where: str) -> str:
    """A note for samples of bytes that are not pictures, such as token ids; empty for all others."""
    x = opened.train.x
    if x.dtype != np.uint8 or (x.ndim == 4 and min(x.shape[2:]) > 1):
        return ""
    return (
        f"{where}: samples are bytes (uint8) of shape {x.shape[1:]}, and a model gets bytes divided by 255, as pixels are; "
        "store other numbers (token ids, counts) in a wider type, such as int32"
    )


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
