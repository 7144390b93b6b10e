"""folder:path: one folder of images a class; train/ and test/ with class folders inside are taken as they stand.

Where the folder is not on this machine and mirrors are named, it is opened through their index.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.core.nearest import did_you_mean
from laminar.data import file_lists
from laminar.data.formats.picture_facts import Facts, header_facts, whole_facts
from laminar.data.index import picture
from laminar.data.pictures import Here, Pictures
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Opening, Progress, Source, silent
from laminar.data.sources.settings import refuse_args
from laminar.data.spec import DataSpec
from laminar.data.trees import Listing, file_digests, file_facts, listing, path_in, size_in, tree_digest

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

SUFFIXES = (".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff")
READER = 1  # raised when the same files would give other samples
ByClass = dict[str, Listing]


def folder(spec: DataSpec, rest: str, root: Path) -> Source:
    refuse_args(spec, "folder")
    try:
        found = find(rest, root, what="folder of images")
    except LaminarError:
        if not spec.mirrors:
            raise
        from laminar.data.sources.index import IndexSource

        return IndexSource(spec, "", root)
    return ImageFolder(found, size=spec.size, grey=spec.grey, skip_bad=spec.skip_bad)


def image_settings(*, size: int | None, grey: bool) -> dict[str, Any]:
    """What else than the files decides the samples."""
    return {"size": size, "grey": grey, "reader": READER}


@final
class ImageFolder:
    kind: ClassVar[str] = "folder"

    def __init__(self, folder: Path, *, size: int | None = None, grey: bool = False, skip_bad: bool = False) -> None:
        self._size, self._grey, self._skip_bad = size, grey, skip_bad
        if not folder.is_dir():
            raise LaminarError(
                "L101", f"{folder} is a file, expected a folder with one folder of images a class", hint="correct the path in source"
            )
        self.folder, self._train, self._test = folder, folder, None
        if _has_folders(folder / "train"):
            self._train = folder / "train"
            if _has_folders(folder / "test"):
                self._test = folder / "test"

    def contents(self, memory: Memory) -> Contents:
        at = memory.now_ns()
        train, test = self._usable(memory, at, [])
        digests = {"train": tree_digest(self._train, _flat(train), memory, at=at)}
        if self._test:
            digests["test"] = tree_digest(self._test, _flat(test), memory, at=at)
        content = digest.of_json(digests)
        below = {"train": self._train, "test": self._test}
        file_lists.keep(memory, content, trees={"" if below[side] == self.folder else f"{side}/": tree for side, tree in digests.items()})
        return Contents(
            digest=content,
            classes=tuple(train),
            own_test=self._test is not None,
            settings=image_settings(size=self._size, grey=self._grey),
            sides=self._sides(next(iter(train.values()))[0], memory) if self._size is None else (self._size, self._size),
        )

    def _sides(self, first: str, memory: Memory) -> tuple[int, ...] | None:
        """Of the first image, for all: they must be alike. Whether that is so, and what is wrong with them, is found on opening."""
        path = self._train / path_in(first)
        fact = memory.about_files([path], Facts, lambda: header_facts(path), of="header")
        return None if fact.bad else (fact.height, fact.width)

    def open(self, how: Opening) -> Opened:
        import numpy as np

        from laminar.data.dataset import Opened, Split
        from laminar.data.formats.images import read_images

        train, test = self._usable(how.memory, how.memory.now_ns() if how.memory else 0, how.notes)
        paths = [self._train / path_in(line) for line in _flat(train)]
        cut = len(paths)
        if self._test:
            paths += [self._test / path_in(line) for line in _flat(test)]
        x = read_images(paths, size=self._size, grey=self._grey, room=how.room, progress=how.progress)
        index = {name: i for i, name in enumerate(train)}
        y = np.array([index[name] for side in (train, test) for name, files in side.items() for _ in files], dtype=np.int64)
        return Opened(Split(x[:cut], y[:cut]), Split(x[cut:], y[cut:]) if self._test else None, tuple(train))

    def pictures(self, memory: Memory | None, progress: Progress = silent, *, whole: bool = False) -> Pictures:
        """What is known of every image; `whole`: each is decoded to prove that it can be."""
        at = memory.now_ns() if memory else 0
        train, test = self._list()
        files, skipped = [], []
        sides: list[tuple[Path, ByClass, Literal["train", "test"] | None]] = [(self._train, train, "train" if self._test else None)]
        if self._test:
            sides.append((self._test, test, "test"))
        for folder, side, split in sides:
            lines = _flat(side)
            prefix = "" if folder == self.folder else f"{folder.name}/"
            progress("looking at images", 0, len(lines))
            shas = file_digests(folder, lines, memory, at=at)
            facts = _facts(folder, lines, memory, at, whole=whole or self._skip_bad)
            labels = [name for name, some in side.items() for _ in some]
            for line, label, sha, fact in zip(lines, labels, shas, facts, strict=True):
                if fact.bad and not self._skip_bad:
                    raise _bad(fact)
                if fact.bad:
                    skipped.append(fact.bad)
                else:
                    files.append(picture(prefix + path_in(line), label, sha, size_in(line), fact, split=split))
            progress("looking at images", len(lines), len(lines))
        return Pictures(files, tuple(train), self._test is not None, Here(self.folder), skipped)

    def _usable(self, memory: Memory | None, at: int, notes: list[str]) -> tuple[ByClass, ByClass]:
        """What is listed, without what cannot be read where that is to be skipped: the samples are those of a folder without it."""
        train, test = self._list()
        if self._skip_bad:
            train = _readable(self._train, train, memory, at, notes)
            test = _readable(self._test, test, memory, at, notes) if self._test else {}
        return train, test

    def _list(self) -> tuple[ByClass, ByClass]:
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


def _facts(folder: Path, lines: Listing, memory: Memory | None, at: int, *, whole: bool) -> list[Facts]:
    return file_facts(folder, lines, memory, Facts, whole_facts if whole else header_facts, of="decoded" if whole else "header", at=at)


def _bad(fact: Facts) -> LaminarError:
    return LaminarError("L102", fact.bad, hint="mend or remove the file; skip_bad = true (or --skip-bad) leaves out what cannot be read")


def _readable(folder: Path, side: ByClass, memory: Memory | None, at: int, notes: list[str]) -> ByClass:
    """The same without the images that cannot be decoded; a class that has no other is an error."""
    lines = _flat(side)
    bad = {line: f.bad for line, f in zip(lines, _facts(folder, lines, memory, at, whole=True), strict=True) if f.bad}
    kept = {name: [line for line in some if line not in bad] for name, some in side.items()}
    for name, some in kept.items():
        if not some:
            raise LaminarError(
                "L103", f"of {many(len(side[name]), 'image')} in {folder / name} none can be read: {bad[side[name][0]]}", hint="mend them"
            )
    if bad:
        notes.append(skipped_note(list(bad.values()), len(lines)))
    return kept


def skipped_note(bad: list[str], of: int) -> str:
    return (
        f"{len(bad)} of {many(of, 'image')} {'was' if len(bad) == 1 else 'were'} skipped: "
        + "; ".join(bad[:3])
        + ("; …" if len(bad) > 3 else "")
    )


def _by_class(folder: Path) -> ByClass:
    try:
        entries = [(entry.name, entry.is_dir()) for entry in folder.iterdir() if not entry.name.startswith(".")]
    except PermissionError as error:
        raise LaminarError("L102", f"{folder} cannot be listed: {error.strerror}", hint="check its permissions") from error
    names = sorted(name for name, is_folder in entries if is_folder)
    loose = sorted(name for name, is_folder in entries if not is_folder and name.lower().endswith(SUFFIXES))
    if not names:
        images = f"; {many(len(loose), 'image', 'is')} in it without a class" if loose else ""
        raise LaminarError(
            "L103", f"{folder} has no class folders{images}", hint="put the images of every class into a folder named after it"
        )
    if loose:
        raise LaminarError(
            "L103", f"{folder / loose[0]} lies outside of the class folders", hint=f"move it into one of: {', '.join(names[:8])}"
        )
    return {name: listing(folder / name, SUFFIXES, prefix=f"{name}/") for name in names}


def _flat(by_class: ByClass) -> Listing:
    return [line for files in by_class.values() for line in files]


def _has_folders(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(entry.is_dir() and not entry.name.startswith(".") for entry in folder.iterdir())
    except PermissionError as error:
        raise LaminarError("L102", f"{folder} cannot be listed: {error.strerror}", hint="check its permissions") from error
