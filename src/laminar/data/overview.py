"""Overviews: what a data set holds, without opening it where it is virtual."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from laminar.data.dataset import Array, Dataset
from laminar.data.fragments.grid import way_of_counting
from laminar.data.fragments.sample import draw
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.open import open_data
from laminar.data.pictures import PictureSource
from laminar.data.remember import Memory
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Progress, silent
from laminar.data.spec import DataSpec, SampleSpec, checked

SHOWN = {"train": 8, "test": 4}  # samples of each class on a contact sheet


@dataclass(frozen=True)
class ClassCount:
    name: str
    train: int
    test: int
    train_images: int | None = None
    test_images: int | None = None


@dataclass(frozen=True)
class Overview:
    source: str
    classes: list[ClassCount]
    train: int
    test: int
    shape: tuple[int, ...]
    dtype: str
    bytes: int  # of all samples as they would lie in memory
    images: int | None = None  # source images, and their bytes
    image_bytes: int | None = None
    fragments_per_image: tuple[int, int] | None = None  # least, most
    counting: str | None = None  # how that number comes about, where all images are of one size
    sample: dict[str, int] | None = None  # train, test: what a build would use
    notes: list[str] = field(default_factory=list)
    shown: dict[str, list[list[Array]]] = field(default_factory=dict)  # side -> class -> samples to look at

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "classes": [
                {
                    "name": c.name,
                    "train": {"samples": c.train, "images": c.train_images},
                    "test": {"samples": c.test, "images": c.test_images},
                }
                for c in self.classes
            ],
            "samples": {"train": self.train, "test": self.test},
            "images": self.images,
            "fragments_per_image": None
            if self.fragments_per_image is None
            else {"least": self.fragments_per_image[0], "most": self.fragments_per_image[1]},
            "counting": self.counting,
            "sample": self.sample,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "bytes": {"samples": self.bytes, "images": self.image_bytes},
            "notes": self.notes,
        }


def overview(spec: DataSpec, root: Path, *, cache: Path | None = None, progress: Progress = silent, look: bool = False) -> Overview:
    """`look`: also some samples of each class, for a contact sheet."""
    checked(spec)
    memory = Memory(cache) if cache else None
    if spec.fragment is not None:
        return _of_fragments(spec, VirtualFragments.of(spec, root, memory, progress), progress, look=look)
    notes: list[str] = []
    data = open_data(spec, root, cache=cache, progress=progress, notes=notes)
    source = source_of(spec, root)
    files = source.pictures(memory).files if isinstance(source, PictureSource) else None
    return Overview(
        source=spec.where,
        classes=_class_counts(data),
        train=len(data.train),
        test=len(data.test),
        shape=data.sample_shape,
        dtype=str(data.train.x.dtype),
        bytes=data.train.x.nbytes + data.test.x.nbytes,
        images=None if files is None else len(files),
        image_bytes=None if files is None else sum(file.size for file in files),
        sample=None if spec.sample is None else {"train": len(data.train), "test": len(data.test)},
        notes=notes,
        shown=_some(data) if look else {},
    )


def _class_counts(data: Dataset) -> list[ClassCount]:
    if data.classes is None:
        return []
    train, test = (np.bincount(side.y, minlength=len(data.classes)) for side in (data.train, data.test))
    return [ClassCount(name, int(a), int(b)) for name, a, b in zip(data.classes, train, test, strict=True)]


def _some(data: Dataset) -> dict[str, list[list[Array]]]:
    """The first of each class on either side: in an image set those of different files."""
    found: dict[str, list[list[Array]]] = {}
    for name, side in (("train", data.train), ("test", data.test)):
        if side.x.ndim != 4:
            return {}
        groups = [np.flatnonzero(side.y == label) for label in range(len(data.classes))] if data.classes else [np.arange(len(side))]
        found[name] = [[np.array(side.x[i]) for i in group[: SHOWN[name]]] for group in groups]
    return found


def _of_fragments(spec: DataSpec, virtual: VirtualFragments, progress: Progress, *, look: bool) -> Overview:
    train, test = virtual.counts(test=False), virtual.counts(test=True)
    each = virtual.table.counts(np.arange(len(virtual.files)))
    sizes = {(file.width, file.height) for file in virtual.files}
    drawn = None if spec.sample is None else [len(side) for side in virtual.draw(spec.sample)]
    return Overview(
        source=spec.where,
        classes=[
            ClassCount(name, a.fragments, b.fragments, a.images, b.images) for name, a, b in zip(virtual.classes, train, test, strict=True)
        ],
        train=sum(c.fragments for c in train),
        test=sum(c.fragments for c in test),
        shape=virtual.sample_shape,
        dtype="uint8",
        bytes=len(virtual) * int(np.prod(virtual.sample_shape)),
        images=len(virtual.files),
        image_bytes=sum(file.size for file in virtual.files),
        fragments_per_image=(int(each.min()), int(each.max())),
        counting=way_of_counting(*sizes.pop(), virtual.spec) if len(sizes) == 1 else None,
        sample=None if drawn is None else {"train": drawn[0], "test": drawn[1]},
        notes=virtual.notes,
        shown=_some_fragments(spec, virtual, progress) if look else {},
    )


def _some_fragments(spec: DataSpec, virtual: VirtualFragments, progress: Progress) -> dict[str, list[list[Array]]]:
    """A few of each class, from few images: those may have to be fetched."""
    seed = (spec.sample or SampleSpec(per_class=1)).seed
    found: dict[str, list[list[Array]]] = {}
    for name, test in (("train", False), ("test", True)):
        groups = virtual.groups(test=test)
        count = min([SHOWN[name], *(int(virtual.table.counts(group).sum()) for group in groups)])
        sources = min([2, *(len(group) for group in groups)])
        count = min([count, *(int(np.sort(virtual.table.counts(group))[:sources].sum()) for group in groups)])
        chosen = draw(dict(zip(virtual.classes, groups, strict=True)), virtual.table, count, seed, "show", name, sources=sources)
        pixels = virtual.reader(chosen, progress).read(chosen)
        labels = virtual.labels_of(chosen)
        found[name] = [list(pixels[labels == label]) for label in range(len(virtual.classes))]
    return found
