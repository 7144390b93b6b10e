"""Opening fragments: a local sample, or all of them, cut into contiguous arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from laminar.data.dataset import Dataset, Split
from laminar.data.fragments.virtual import DECODED, VirtualFragments
from laminar.data.sources.protocol import Opening
from laminar.data.spec import DataSpec


def open_fragments(spec: DataSpec, root: Path, how: Opening) -> Dataset:
    virtual = VirtualFragments.of(spec, root, how.memory, how.progress)
    how.notes.extend(virtual.notes)
    train, test = virtual.draw(spec.sample)
    budget = min(DECODED, max(how.room.budget // 4, 16 << 20)) if how.room.budget is not None else DECODED
    reader = virtual.reader(np.concatenate([train, test]), how.progress, budget=budget)

    def side(fragments: NDArray[np.int64]) -> Split:
        x = how.room.empty((len(fragments), *virtual.sample_shape), np.uint8)
        reader.read(fragments, out=x, progress=how.progress)
        return Split(x, virtual.labels_of(fragments))

    return Dataset(side(train), side(test), virtual.classes)
