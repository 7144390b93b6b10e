"""Splits: which samples are for training and which for testing, class by class.

The side of a sample depends on the seed, its class and its place in that class only. So the same source under another choice
of classes never moves a sample from test to training.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.dataset import Array
from laminar.data.order import permutation

Index = NDArray[np.intp]


def split_indices(y: Array, test: float, seed: int, *, stratified: bool) -> tuple[Index, Index]:
    """(train, test) positions, each ascending; every class (of two samples or more) is on both sides."""
    chosen = [
        group[permutation(len(group), seed, "split", label)[: _share(len(group), test)]]
        for label, group in _groups(y, stratified=stratified)
    ]
    test_index = np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.intp)
    side = np.zeros(len(y), dtype=bool)
    side[test_index] = True
    return np.flatnonzero(~side), test_index


def source_sides(y: Sequence[int], contents: Sequence[str], test: float, seed: int) -> NDArray[np.bool_]:
    """True for the sources of the test side, class by class. Sources of one content are on one side, that of the first of them."""
    first: dict[str, int] = {}
    group = [first.setdefault(content, len(first)) for content in contents]
    label_of = dict(zip(reversed(group), reversed(y), strict=True))
    _, tests = split_indices(np.array([label_of[g] for g in range(len(first))], dtype=np.int64), test, seed, stratified=True)
    side = np.zeros(len(first), dtype=np.bool_)
    side[tests] = True
    return side[np.array(group, dtype=np.intp)]


def balanced_indices(y: Array, per_class: int, seed: int, *, names: Sequence[str], label: str) -> Index:
    """`per_class` positions of every class, ascending, none twice."""
    chosen = []
    for name, group in _groups(y, stratified=True):
        if len(group) < per_class:
            least = min(len(some) for _, some in _groups(y, stratified=True))
            raise LaminarError(
                "L113",
                f"sample: {per_class:,} of class '{names[name]}' {'is' if per_class == 1 else 'are'} asked for, "
                f"but there {'is' if len(group) == 1 else 'are'} {len(group):,}",
                hint=f"per_class = {least} is the most that every class has",
            )
        chosen.append(group[permutation(len(group), seed, label, name)[:per_class]])
    return np.sort(np.concatenate(chosen))


def limit_indices(y: Array, limit: int, seed: int, *, stratified: bool, label: str) -> Index:
    """At most `limit` positions, ascending, in the proportions of the classes and at least one of each."""
    if len(y) <= limit:
        return np.arange(len(y))
    groups = _groups(y, stratified=stratified)
    if limit < len(groups):
        raise LaminarError(
            "L103",
            f"limit: {many(limit, 'sample')} cannot cover {len(groups)} classes",
            hint=f"limit must be {len(groups)} or more, or name fewer classes",
        )
    sizes = _proportional([len(group) for _, group in groups], limit)
    kept = [group[permutation(len(group), seed, label, name)[:size]] for (name, group), size in zip(groups, sizes, strict=True)]
    return np.sort(np.concatenate(kept))


def _groups(y: Array, *, stratified: bool) -> list[tuple[int, Index]]:
    if not stratified:
        return [(0, np.arange(len(y)))]
    if not len(y):
        return []
    order = np.argsort(y, kind="stable")
    labels, starts = np.unique(y[order], return_index=True)
    return [(int(label), group) for label, group in zip(labels, np.split(order, starts[1:]), strict=True)]


def _share(count: int, part: float) -> int:
    if count < 2:
        return 0
    return min(max(int(count * part + 0.5), 1), count - 1)


def _proportional(sizes: list[int], limit: int) -> list[int]:
    """Whole numbers that sum to `limit`, near `sizes` in proportion, none zero: one each, the rest by largest remainder."""
    spare, total = limit - len(sizes), sum(sizes) - len(sizes)
    exact = [(size - 1) * spare / total for size in sizes]
    shares = [int(e) for e in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: spare - sum(shares)]:
        shares[i] += 1
    return [share + 1 for share in shares]
