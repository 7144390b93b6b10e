"""idx:folder, or idx:images,labels[,test-images,test-labels]: files in the format of MNIST, gzipped or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.augment_fit import sides_of
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import refuse_args, refuse_image_settings
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory
    from laminar.data.room import Room

ROLES = ("train-images", "train-labels", "t10k-images", "t10k-labels")
STANDARD = {role: f"{role}-idx{3 if role.endswith('images') else 1}-ubyte" for role in ROLES}


@final
class Idx:
    kind: ClassVar[str] = "idx"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        refuse_args(spec, self.kind)
        refuse_image_settings(spec, self.kind)
        names = [name.strip() for name in rest.split(",")]
        if len(names) == 1:
            self._files = standard_files(find(names[0], root, what="folder of idx files"))
        elif len(names) in (2, 4):
            self._files = {role: find(name, root, what="idx file") for role, name in zip(ROLES, names, strict=False)}
        else:
            raise LaminarError(
                "L109",
                f"source: '{spec.source}' names {len(names)} files; expected 2 (images, labels) or 4 (and test images, test labels)",
                hint='source = "idx:images,labels"',
            )

        self._memory = spec.memory

    def contents(self, memory: Memory) -> Contents:
        return idx_contents(self._files, memory, budget=self._memory)

    def open(self, how: Opening) -> Opened:
        return open_idx(self._files, how.room)[0]


def standard_files(folder: Path) -> dict[str, Path]:
    """The files of MNIST's names in a folder; those of the test set may be missing together."""
    if not folder.is_dir():
        raise LaminarError("L101", f"{folder} is a file, expected a folder of idx files", hint='source = "idx:images,labels" names files')
    found: dict[str, Path] = {}
    for role, name in STANDARD.items():
        # Some distributions write a point before "idx".
        candidates = [folder / (form + end) for form in (name, name.replace("-idx", ".idx")) for end in (".gz", "")]
        present = [path for path in candidates if path.is_file()]
        if present:
            found[role] = present[0]
    tests = [role for role in ROLES[2:] if role in found]
    wanted = ROLES if tests else ROLES[:2]
    for role in wanted:
        if role not in found:
            raise LaminarError(
                "L101", f"there is no {folder / STANDARD[role]} nor {STANDARD[role]}.gz", hint="put the file there, or correct source"
            )
    return {role: found[role] for role in wanted}


def idx_contents(
    files: Mapping[str, Path], memory: Memory, classes: tuple[str, ...] | None = None, *, budget: str | int | None = None
) -> Contents:
    def learn() -> Contents:
        from laminar.data.room import Room, budget_of

        opened, digests = open_idx(files, Room(budget_of(budget)), classes)
        return Contents(
            digest=digest.of_json(digests),
            classes=opened.classes,
            own_test=opened.test is not None,
            sides=sides_of(opened.train.x.shape[1:]),
        )

    return memory.about_files(list(files.values()), Contents, learn, of=["idx", 1, classes])


def open_idx(files: Mapping[str, Path], room: Room, classes: tuple[str, ...] | None = None) -> tuple[Opened, dict[str, str]]:
    """The samples, and the digest of every file's content."""
    from laminar.data.dataset import Opened, Split
    from laminar.data.formats.idx import read_idx
    from laminar.data.wellformed import named_labels, tidy_samples

    read = {role: read_idx(path, room) for role, path in files.items()}
    arrays = {role: array for role, (array, _) in read.items()}
    sides = [role.partition("-")[0] for role in ROLES if role in files and role.endswith("images")]
    for side in sides:
        images, labels = arrays[f"{side}-images"], arrays[f"{side}-labels"]
        if len(images) != len(labels):
            raise LaminarError(
                "L110",
                f"{files[f'{side}-images']} has {many(len(images), 'sample')}, {files[f'{side}-labels']} has {many(len(labels), 'label')}",
                hint="the files do not belong together, or stand in the wrong order in source",
            )
    labels_of, names = named_labels([arrays[f"{side}-labels"] for side in sides], str(files["train-labels"]), classes)
    splits = [
        Split(tidy_samples(arrays[f"{side}-images"], str(files[f"{side}-images"]), room), y)
        for side, y in zip(sides, labels_of, strict=True)
    ]
    opened = Opened(splits[0], splits[1] if len(splits) > 1 else None, names)
    return opened, {role: sha for role, (_, sha) in read.items()}
