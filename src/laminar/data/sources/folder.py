"""folder:path: one folder of images a class; train/ and test/ with class folders inside are taken as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Progress
from laminar.data.sources.settings import refuse_args
from laminar.data.spec import DataSpec
from laminar.data.trees import Listing, listing, path_in, tree_digest

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

SUFFIXES = (".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff")
READER = 1  # raised when the same files would give other samples


@final
class ImageFolder:
    kind: ClassVar[str] = "folder"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        refuse_args(spec, self.kind)
        self._size, self._grey = spec.size, spec.grey
        folder = find(rest, root, what="folder of images")
        if not folder.is_dir():
            raise LaminarError(
                "L101", f"{folder} is a file, expected a folder with one folder of images a class", hint="correct the path in source"
            )
        self._train, self._test = folder, None
        if _has_folders(folder / "train"):
            self._train = folder / "train"
            if _has_folders(folder / "test"):
                self._test = folder / "test"

    def contents(self, memory: Memory) -> Contents:
        at = memory.now_ns()
        train, test = self._list()
        digests = {"train": tree_digest(self._train, _flat(train), memory, at=at)}
        if self._test:
            digests["test"] = tree_digest(self._test, _flat(test), memory, at=at)
        return Contents(
            digest=digest.of_json(digests),
            classes=tuple(train),
            own_test=self._test is not None,
            settings={"size": self._size, "grey": self._grey, "reader": READER},
        )

    def open(self, memory: Memory | None, progress: Progress) -> Opened:  # noqa: ARG002
        import numpy as np

        from laminar.data.dataset import Opened, Split
        from laminar.data.formats.images import read_images

        train, test = self._list()
        paths = [self._train / path_in(line) for line in _flat(train)]
        cut = len(paths)
        if self._test:
            paths += [self._test / path_in(line) for line in _flat(test)]
        x = read_images(paths, size=self._size, grey=self._grey, progress=progress)
        index = {name: i for i, name in enumerate(train)}
        y = np.array([index[name] for side in (train, test) for name, files in side.items() for _ in files], dtype=np.int64)
        return Opened(Split(x[:cut], y[:cut]), Split(x[cut:], y[cut:]) if self._test else None, tuple(train))

    def _list(self) -> tuple[dict[str, Listing], dict[str, Listing]]:
        """The images of every class, classes in order of name. Loose images, empty classes and strangers in test/ are errors."""
        train = _by_class(self._train)
        for name, files in train.items():
            if not files:
                raise LaminarError(
                    "L103", f"{self._train / name} has no images ({', '.join(SUFFIXES)})", hint="add images, or remove the empty folder"
                )
        test = _by_class(self._test) if self._test else {}
        for name in test:
            if name not in train:
                raise LaminarError(
                    "L104",
                    f"{self._test}: class '{name}' is not among the training classes; {did_you_mean(name, train)}",
                    hint=f"add {self._train / name}, or move the images",
                )
        return train, test


def _by_class(folder: Path) -> dict[str, Listing]:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    loose = sorted(entry.name for entry in folder.iterdir() if entry.name.lower().endswith(SUFFIXES) and entry.is_file())
    if not names:
        images = f"; {len(loose)} images lie in it without a class" if loose else ""
        raise LaminarError(
            "L103", f"{folder} has no class folders{images}", hint="put the images of every class into a folder named after it"
        )
    if loose:
        raise LaminarError(
            "L103", f"{folder / loose[0]} lies outside of the class folders", hint=f"move it into one of: {', '.join(names[:8])}"
        )
    return {name: listing(folder / name, SUFFIXES, prefix=f"{name}/") for name in names}


def _flat(by_class: dict[str, Listing]) -> Listing:
    return [line for files in by_class.values() for line in files]


def _has_folders(folder: Path) -> bool:
    return folder.is_dir() and any(entry.is_dir() and not entry.name.startswith(".") for entry in folder.iterdir())
