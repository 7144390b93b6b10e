"""Samples: a random local data set of fragments, as many of each class, none twice.

Every fragment of a class is as likely as any other, so an image with more fragments is drawn from more often. With `sources`, so
many images of each class are chosen first, all alike, and fragments from those only.
What is drawn for a class depends on the seed, its name and its images alone; other classes move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.fragments.table import FragmentTable
from laminar.data.order import subset


def draw(
    groups: Mapping[str, NDArray[np.integer]],
    table: FragmentTable,
    per_class: int,
    seed: int,
    *labels: str | int,
    sources: int | None = None,
    setting: str = "per_class",
) -> NDArray[np.int64]:
    """Numbers of fragments: class by class in the order of `groups` (name -> images), `per_class` of each, ascending in a class.

    `labels` name the random stream (training and test draw from two); `setting` is what a user would lower, for messages.
    """
    chosen = {name: _sources(name, images, sources, seed, *labels) for name, images in groups.items()}
    held = {name: int(table.counts(images).sum()) for name, images in chosen.items()}
    for name, count in held.items():
        if per_class > count:
            more = ", or more sources" if sources is not None and sources < min(map(len, groups.values())) else ""
            raise LaminarError(
                "L113",
                f"sample.{setting}: {many(per_class, 'fragment')} of class '{name}' asked for, "
                f"but its {many(len(chosen[name]), 'image', 'has')} {count:,}",
                hint=f"{setting} = {min(held.values())} is the largest that every class can give{more}",
            )
    parts = [_fragments(images, table, per_class, seed, *labels, name) for name, images in chosen.items()]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _sources(name: str, images: NDArray[np.integer], sources: int | None, seed: int, *labels: str | int) -> NDArray[np.integer]:
    if sources is None:
        return images
    if sources > len(images):
        raise LaminarError(
            "L113",
            f"sample.sources: {many(sources, 'image')} of class '{name}' asked for, but it has {many(len(images), 'image')}",
            hint=f"sources = {len(images)} is the largest for this class",
        )
    return images[np.sort(subset(len(images), sources, seed, *labels, name, "sources"))]


def _fragments(images: NDArray[np.integer], table: FragmentTable, count: int, seed: int, *labels: str | int) -> NDArray[np.int64]:
    """`count` of the fragments of `images`, by their place in the row of all of them, which is never made."""
    ends = np.cumsum(table.counts(images))
    place = subset(int(ends[-1]), count, seed, *labels)
    which = np.searchsorted(ends, place, side="right")
    return np.sort(place - ends[which] + table.counts(images[which]) + table.first[images[which]])
