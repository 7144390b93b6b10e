"""Virtual fragments: every square of every image of a set, by number. On which side each is, and which of them a local sample has.

Sides are given to images before anything is cut, so no fragment of a test image, not even one that touches another image's, is ever
trained on. Two files with the same bytes are one image, whatever they are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.classes import resolve_classes
from laminar.data.formats.images import read_image
from laminar.data.fragments.reader import FragmentReader
from laminar.data.fragments.sample import draw
from laminar.data.fragments.table import FragmentTable
from laminar.data.index import Picture
from laminar.data.pictures import Pictures, PictureSource
from laminar.data.remember import Memory
from laminar.data.sources import source_of
from laminar.data.sources.folder import skipped_note
from laminar.data.sources.protocol import Progress, silent
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec, SplitSpec, checked
from laminar.data.split import source_sides

Index = NDArray[np.int64]
DECODED = 256 << 20  # bytes of decoded images that are kept for the next cut


@dataclass(frozen=True)
class SideCount:
    """Of one class on one side."""

    images: int
    fragments: int


@final
class VirtualFragments:
    def __init__(self, spec: DataSpec, pictures: Pictures, where: str) -> None:
        fragment = _fragment_of(spec)
        how = spec.split or SplitSpec()
        files, test = pictures.files, _sides(pictures, how, where)
        positions = resolve_classes(spec.classes, pictures.classes)
        assert positions is not None
        number = {pictures.classes[p]: i for i, p in enumerate(positions)}
        chosen = [i for i, file in enumerate(files) if file.label in number]
        self.spec, self.where, self.place = fragment, where, pictures.place
        self.classes = tuple(pictures.classes[p] for p in positions)
        self.files: list[Picture] = [files[i] for i in chosen]
        _refuse_small(self.files, fragment, where)
        self.labels: NDArray[np.int64] = np.array([number[file.label] for file in self.files], dtype=np.int64)
        self.test: NDArray[np.bool_] = test[chosen]
        self.table = FragmentTable([(file.width, file.height) for file in self.files], fragment)
        self.channels = 1 if spec.grey or all(file.grey for file in self.files) else 3
        self.notes = [skipped_note(pictures.skipped, len(files) + len(pictures.skipped))] if pictures.skipped else []
        self.notes += _contradictions(self.files)
        self._refuse_empty()

    @classmethod
    def of(cls, spec: DataSpec, root: Path, memory: Memory | None = None, progress: Progress = silent) -> VirtualFragments:
        source = source_of(checked(spec), root)
        _fragment_of(spec)
        if not isinstance(source, PictureSource):
            raise LaminarError("L109", f"fragment: {spec.where} has no image files to cut", hint="remove fragment, or use folder:…")
        return cls(spec, source.pictures(memory, progress), spec.where)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        return (self.channels, self.spec.size, self.spec.size)

    def groups(self, *, test: bool) -> list[Index]:
        """The numbers of the images of each class on one side."""
        return [np.flatnonzero((self.labels == label) & (self.test == test)) for label in range(len(self.classes))]

    def counts(self, *, test: bool) -> list[SideCount]:
        return [SideCount(len(group), int(self.table.counts(group).sum())) for group in self.groups(test=test)]

    def draw(self, sample: SampleSpec | None) -> tuple[Index, Index]:
        """The fragments of the training and of the test side: all of them, or those of a local sample. Ascending."""
        if sample is None:
            side = np.repeat(self.test, self.table.counts(np.arange(len(self.files))))
            return np.flatnonzero(~side), np.flatnonzero(side)
        train, test = (dict(zip(self.classes, self.groups(test=side), strict=True)) for side in (False, True))
        sources = self._test_sources(sample)
        few = self._test_per_class(sample, sources)
        return (
            np.sort(draw(train, self.table, sample.per_class, sample.seed, "sample", sources=sample.sources)),
            np.sort(draw(test, self.table, few, sample.seed, "sample-test", sources=sources, setting="test_per_class")),
        )

    def _test_sources(self, sample: SampleSpec) -> int | None:
        """Images of each class that the test sample is drawn from: in the proportion of the split, as its fragments are."""
        if sample.sources is None:
            return None
        share = sample.sources * float(self.test.mean()) / (1 - float(self.test.mean()))
        return min([max(1, round(share)), *(len(group) for group in self.groups(test=True))])

    def _test_per_class(self, sample: SampleSpec, sources: int | None) -> int:
        if sample.test_per_class is not None:
            return sample.test_per_class
        train, test = (sum(count.fragments for count in self.counts(test=side)) for side in (False, True))
        held = [np.sort(self.table.counts(group))[:sources].sum() for group in self.groups(test=True)]  # the least they may come to
        return max(1, min([round(sample.per_class * test / train), *map(int, held)]))

    def describe(self, fragments: Index) -> Iterator[dict[str, Any]]:
        located = self.table.locate(fragments)
        for image, x, y, angle in zip(located.image, located.x, located.y, located.angle, strict=True):
            file = self.files[int(image)]
            side = "test" if self.test[image] else "train"
            yield {"split": side, "source": file.path, "class": file.label, "x": int(x), "y": int(y), "angle": int(angle)}

    def labels_of(self, fragments: Index) -> NDArray[np.int64]:
        return np.take(self.labels, self.images_of(fragments))

    def images_of(self, fragments: Index) -> Index:
        return np.asarray(self.table.locate(fragments).image, dtype=np.int64)

    def reader(self, fragments: Index, progress: Progress, *, budget: int = DECODED) -> FragmentReader:
        """What cuts these fragments; their images are fetched first where they are elsewhere."""
        images = np.unique(self.images_of(fragments))
        paths = self.place.paths([self.files[int(i)] for i in images], progress)
        path_of = {int(image): path for image, path in zip(images, paths, strict=True)}

        def load(image: int) -> NDArray[np.uint8]:
            file = self.files[image]
            array = read_image(path_of[image], grey=self.channels == 1, name=self.place.name(file))
            if array.shape[1:] != (file.height, file.width):
                raise LaminarError(
                    "L111",
                    f"{self.place.name(file)} is {array.shape[2]}x{array.shape[1]}, but it is listed as {file.width}x{file.height}",
                    hint="make the index anew with `laminar data index`",
                )
            return array

        return FragmentReader(load, self.table, self.channels, budget=budget)

    def _refuse_empty(self) -> None:
        for test in (False, True):
            for name, group in zip(self.classes, self.groups(test=test), strict=True):
                if not len(group):
                    total = int((self.labels == self.classes.index(name)).sum())
                    raise LaminarError(
                        "L103",
                        f"{self.where}: class '{name}' has {many(total, 'source image')} and so none for "
                        f"{'testing' if test else 'training'}: an image is wholly on one side",
                        hint="add images of that class (two that differ at the least), or leave it out of classes",
                    )


def _fragment_of(spec: DataSpec) -> FragmentSpec:
    if spec.fragment is None:
        raise LaminarError(
            "L109", f"{spec.where}: the data set is not cut into fragments", hint="fragment = { size = 96, overlap = 0.5, rotate = 5 }"
        )
    return spec.fragment


def _sides(pictures: Pictures, how: SplitSpec, where: str) -> NDArray[np.bool_]:
    """True for every image of the test side."""
    shas = [file.sha256 for file in pictures.files]
    if not pictures.own_test:
        return source_sides([pictures.classes.index(file.label) for file in pictures.files], shas, how.test, how.seed)
    train = {file.sha256: file.path for file in pictures.files if file.split != "test"}
    both = [(train[file.sha256], file.path) for file in pictures.files if file.split == "test" and file.sha256 in train]
    if both:
        raise LaminarError(
            "L110",
            f"{where}: {many(len(both), 'image', 'is')} both in train and in test: {both[0][0]} is {both[0][1]}",
            hint="remove one of the two",
        )
    return np.array([file.split == "test" for file in pictures.files], dtype=np.bool_)


def _contradictions(files: list[Picture]) -> list[str]:
    """The same image in two classes: it is on one side, but half of what is said of it is wrong."""
    first: dict[str, Picture] = {}
    found = [(first[f.sha256], f) for f in files if first.setdefault(f.sha256, f).label != f.label]
    if not found:
        return []
    one, other = found[0]
    return [f"{many(len(found), 'image', 'is')} in two classes with the same bytes: {one.path} and {other.path}"]


def _refuse_small(files: list[Picture], fragment: FragmentSpec, where: str) -> None:
    small = [file for file in files if min(file.width, file.height) < fragment.size]
    if small:
        least = min(min(file.width, file.height) for file in small)
        raise LaminarError(
            "L106",
            f"{where}: {many(len(small), 'image', 'is')} smaller than a fragment of {fragment.size} pixels: "
            f"{small[0].path} is {small[0].width}x{small[0].height}",
            hint=f"fragment.size = {least} or less, or remove the small images",
        )
