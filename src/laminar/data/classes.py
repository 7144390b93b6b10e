"""Classes: which of a source's classes a data set has, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

if TYPE_CHECKING:
    from laminar.data.dataset import Array, Split
    from laminar.data.room import Room


def resolve_classes(wanted: Sequence[int | str] | None, names: tuple[str, ...] | None) -> tuple[int, ...] | None:
    """Positions in `names` of the wanted classes, in the order written; None for regression.

    A number is a class of that name where names are numbers ("7" of digits, a folder called 12), otherwise a position.
    """
    if names is None:
        if wanted is not None:
            raise LaminarError(
                "L104", "classes: the data has real-valued targets, so there are no classes to choose", hint="remove classes"
            )
        return None
    if wanted is None:
        return tuple(range(len(names)))
    if not wanted:
        raise LaminarError("L104", "classes: the list is empty", hint="name at least one class, or remove classes to take all")
    numbered = any(name.isdecimal() for name in names)
    found: list[int] = []
    for item in wanted:
        if isinstance(item, int) and not numbered and 0 <= item < len(names):
            position = item
        elif str(item) in names:
            position = names.index(str(item))
        else:
            known = _what_there_is(names)
            what = did_you_mean(item, names) if isinstance(item, str) else f"known: {known}"
            raise LaminarError(
                "L104",
                f"classes: there is no class {item!r}; {what}",
                hint=f"take {item!r} out of classes" if what.startswith("known") else f"classes are {known}",
            )
        if position in found:
            raise LaminarError("L104", f"classes: {item!r} is named twice", hint="name every class once")
        found.append(position)
    return tuple(found)


def select(split: Split, positions: tuple[int, ...], room: Room | None = None) -> tuple[Array, Split]:
    """The samples of those classes: their old labels, and the samples with labels 0..k-1."""
    import numpy as np

    from laminar.data.dataset import Split

    top = max(int(split.y.max(initial=0)), *positions)
    new = np.full(top + 1, -1, dtype=np.int64)
    new[list(positions)] = np.arange(len(positions))
    labels = new[split.y]
    if (labels >= 0).all():
        return split.y, Split(split.x, labels)
    kept = np.flatnonzero(labels >= 0)
    old = split.take(kept, room)
    return old.y, Split(old.x, labels[kept])


def _what_there_is(names: Sequence[str], limit: int = 12) -> str:
    if len(names) > limit and all(n == str(i) for i, n in enumerate(names)):
        return f"0 to {len(names) - 1}"
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
