"""source = ["folder:a", "folder:b"]: several sources as one data set, whose classes go by name.

Classes are those of the first source, in its order, then what each further one adds. A class that two sources have is one class. Samples
keep their order: those of the first source, then those of the second. Where sources are images in files, so is the join: fragments are cut
from all of them, and an image that two sources have is wholly for training or wholly for testing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.data import file_lists
from laminar.data.index import Picture
from laminar.data.pictures import Pictures, PictureSource, Place
from laminar.data.sources import source_of
from laminar.data.sources.index import IndexSource
from laminar.data.sources.protocol import Contents, Opening, Progress, Source, kind_in_key, silent
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Array, Opened, Split
    from laminar.data.mirrors.fetch import Fetched
    from laminar.data.remember import Memory
    from laminar.data.room import Room

Classes = tuple[str, ...] | None
MARK: Final = ": "  # between the name of a source and the path of an image in it


def join(spec: DataSpec, root: Path) -> Source:
    names = spec.sources
    if not names:
        raise LaminarError("L109", "source: the list is empty", hint='source = ["folder:a", "folder:b"]')
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise LaminarError("L109", f"source: '{twice}' is named twice, so each of its samples would count twice", hint="name it once")
    parts = [source_of(msgspec.structs.replace(spec, source=name), root) for name in names]
    if len(parts) == 1:
        return parts[0]
    if spec.mirrors and sum(isinstance(part, IndexSource) for part in parts) > 1:
        raise LaminarError(
            "L109",
            "mirrors: all of them have the images of one index, but several indexes are joined here",
            hint="remove mirrors; further places of an index stand behind a comma: index:URL,URL",
        )
    return JoinedImages(names, parts) if all(isinstance(part, PictureSource) for part in parts) else Joined(names, parts)


class Joined:
    kind: ClassVar[str] = "joined"

    def __init__(self, names: Sequence[str], parts: Sequence[Source]) -> None:
        self._names, self._parts = list(names), list(parts)

    def contents(self, memory: Memory) -> Contents:
        found = [part.contents(memory) for part in self._parts]
        classes = self._classes([one.classes for one in found])
        own_test = self._own_test([one.own_test for one in found])
        content = digest.of_json([one.digest for one in found])
        file_lists.keep(memory, content, trees={f"{name}/": one.digest for name, one in zip(self._names, found, strict=True)})
        parts = [
            {"source": kind_in_key(part), "classes": None if one.classes is None else list(one.classes), "settings": one.settings}
            for part, one in zip(self._parts, found, strict=True)
        ]
        sides = {one.sides for one in found}
        return Contents(
            digest=content, classes=classes, own_test=own_test, settings={"parts": parts}, sides=sides.pop() if len(sides) == 1 else None
        )

    def open(self, how: Opening) -> Opened:
        from laminar.data.dataset import Opened

        found = [part.open(how) for part in self._parts]
        classes = self._classes([one.classes for one in found])
        own_test = self._own_test([one.test is not None for one in found])
        train = self._joined([one.train for one in found], [one.classes for one in found], classes, how.room)
        tests = [one.test for one in found if one.test is not None]
        return Opened(train, self._joined(tests, [one.classes for one in found], classes, how.room) if own_test else None, classes)

    def _classes(self, parts: Sequence[Classes]) -> Classes:
        of_values = [name for name, classes in zip(self._names, parts, strict=True) if classes is None]
        if of_values and len(of_values) < len(parts):
            other = next(name for name in self._names if name not in of_values)
            raise LaminarError(
                "L110",
                f"source: {of_values[0]} has real-valued targets and {other} has classes, so they are no data set together",
                hint="join sources of one kind",
            )
        if of_values:
            return None
        return tuple(dict.fromkeys(name for classes in parts for name in classes or ()))

    def _own_test(self, parts: Sequence[bool]) -> bool:
        if len(set(parts)) > 1:
            having = next(name for name, has in zip(self._names, parts, strict=True) if has)
            lacking = next(name for name, has in zip(self._names, parts, strict=True) if not has)
            raise LaminarError(
                "L110",
                f"source: {having} has a test set of its own and {lacking} has none, so it is not clear what to test on",
                hint="give every source a test set (a folder has train/ and test/), or none of them",
            )
        return parts[0]

    def _joined(self, sides: Sequence[Split], classes: Sequence[Classes], together: Classes, room: Room) -> Split:
        import numpy as np

        from laminar.data.dataset import Split
        from laminar.data.room import row_slices

        shapes = [side.x.shape[1:] for side in sides]
        shape = max(shapes, key=lambda shape: (len(shape), shape[:1]))  # three channels, where any has three
        for name, side in zip(self._names, sides, strict=True):
            if side.x.dtype != sides[0].x.dtype:
                raise LaminarError(
                    "L110",
                    f"source: samples of {self._names[0]} are {sides[0].x.dtype}, those of {name} {side.x.dtype}",
                    hint="store both alike",
                )
            grey = len(shape) == 3 and side.x.shape[1:] == (1, *shape[1:])
            if side.x.shape[1:] != shape and not grey:
                other = next(name for name, one in zip(self._names, shapes, strict=True) if one == shape)
                raise LaminarError(
                    "L106",
                    f"source: samples of {name} have shape {side.x.shape[1:]}, those of {other} {shape}",
                    hint="size = 64 crops and scales every image to one square" if len(shape) == 3 else "bring both to one shape",
                )
        if together is None and len({side.y.shape[1:] for side in sides}) > 1:
            raise LaminarError(
                "L110", f"source: targets have shapes {', '.join(str(side.y.shape[1:]) for side in sides)}", hint="store both alike"
            )
        x = room.empty((sum(map(len, sides)), *shape), sides[0].x.dtype)
        labels: list[Array] = []
        done = 0
        for side, names in zip(sides, classes, strict=True):
            for rows in row_slices(side.x):
                x[done + rows.start : done + rows.stop] = side.x[rows]  # one channel becomes three alike
            done += len(side)
            place = None if together is None else np.array([together.index(name) for name in names or ()], dtype=np.int64)
            labels.append(side.y if place is None else place[side.y])
        return Split(x, np.concatenate(labels))


class JoinedImages(Joined):
    """Sources whose samples are image files."""

    def pictures(self, memory: Memory | None, progress: Progress = silent) -> Pictures:
        """In the order of samples: the training images of each source, then the test images of each."""
        found = [part.pictures(memory, progress) for part in self._parts if isinstance(part, PictureSource)]
        classes = self._classes([one.classes for one in found])
        own_test = self._own_test([one.own_test for one in found])
        files = [
            msgspec.structs.replace(file, path=f"{name}{MARK}{file.path}")
            for test in ((False, True) if own_test else (None,))
            for name, one in zip(self._names, found, strict=True)
            for file in one.files
            if test is None or (file.split == "test") is test
        ]
        places = {name: one.place for name, one in zip(self._names, found, strict=True)}
        return Pictures(files, classes or (), own_test, Places(places), [why for one in found for why in one.skipped])


@dataclass(frozen=True)
class Places:
    """Where the images of several sources lie, by the name of the source, which their paths begin with."""

    places: dict[str, Place]

    def paths(self, files: Sequence[Picture], progress: Progress) -> list[Path]:
        found: dict[str, Path] = {}
        for place, given, own in self._by_place(files):
            found.update(zip(given, place.paths(own, progress), strict=True))
        return [found[file.path] for file in files]

    def name(self, file: Picture) -> str:
        ((place, _, (own,)),) = self._by_place([file])
        return place.name(own)

    def fetch(self, files: Sequence[Picture], progress: Progress) -> Fetched | None:
        fetched = [got for place, _, own in self._by_place(files) if (got := place.fetch(own, progress)) is not None]
        if not fetched:
            return None
        return type(fetched[0])(
            files=sum(got.files for got in fetched),
            bytes=sum(got.bytes for got in fetched),
            seconds=sum(got.seconds for got in fetched),
            mirrors=tuple(mirror for got in fetched for mirror in got.mirrors),
            by_others=sum(got.by_others for got in fetched),
        )

    def _by_place(self, files: Sequence[Picture]) -> list[tuple[Place, list[str], list[Picture]]]:
        """The place of each source that has any of these, their paths in the join, and the pictures as their source has them."""
        found: list[tuple[Place, list[str], list[Picture]]] = []
        for name, place in self.places.items():
            given = [file for file in files if file.path.startswith(name + MARK)]
            if given:
                own = [msgspec.structs.replace(file, path=file.path.removeprefix(name + MARK)) for file in given]
                found.append((place, [file.path for file in given], own))
        return found
