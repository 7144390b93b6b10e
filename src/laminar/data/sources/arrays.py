"""npz:file and safetensors:file with x, y (or x_train, y_train, x_test, y_test), and npy:x,y[,x-test,y-test].

`classes` in a file of named arrays may name the classes. Real-valued y means regression.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.augment_fit import sides_of
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import refuse_args, refuse_image_settings
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory
    from laminar.data.room import Room

_ROLES = ("x", "y", "x_test", "y_test")


@final
class Arrays:
    """`files` is one file of named arrays, or one file an array in the order of _ROLES."""

    def __init__(self, kind: str, files: list[Path], spec: DataSpec) -> None:
        refuse_args(spec, kind)
        refuse_image_settings(spec, kind)
        self.kind, self._files, self._memory = kind, files, spec.memory

    def contents(self, memory: Memory) -> Contents:
        def learn() -> Contents:
            from laminar.data.formats.content import opened_digest
            from laminar.data.room import Room, budget_of

            opened = self._open(Room(budget_of(self._memory)))
            return Contents(
                digest=opened_digest(opened),
                classes=opened.classes,
                own_test=opened.test is not None,
                sides=sides_of(opened.train.x.shape[1:]),
            )

        return memory.about_files(self._files, Contents, learn, of=[self.kind, 1])

    def open(self, how: Opening) -> Opened:
        return self._open(how.room)

    def _open(self, room: Room) -> Opened:
        if self.kind == "npy":
            from laminar.data.formats.npy import read_npy

            arrays: dict[str, Any] = {role: read_npy(path, room) for role, path in zip(_ROLES, self._files, strict=False)}
            sides = [("x", "y"), ("x_test", "y_test")][: len(arrays) // 2]
        elif self.kind == "npz":
            from laminar.data.formats.npz import read_npz

            arrays = read_npz(self._files[0], room, self._chosen)
            sides = self._sides(arrays)
        else:
            from laminar.data.formats.safetensors import read_safetensors

            arrays = read_safetensors(self._files[0], room, self._chosen)
            sides = self._sides(arrays)
        names = tuple(str(n) for n in arrays["classes"]) if "classes" in arrays else None
        # Taken out one by one: what had to be converted need not be kept beside what it became.
        return assemble([(arrays.pop(x), arrays.pop(y)) for x, y in sides], ", ".join(map(str, self._files)), names, room)

    def _chosen(self, there: list[str]) -> list[str]:
        return [name for side in self._sides(there) for name in side] + (["classes"] if "classes" in there else [])

    def _sides(self, there: Iterable[str]) -> list[tuple[str, str]]:
        names = set(there)
        sides = [("x", "y")] if names & {"x", "y"} else [("x_train", "y_train"), ("x_test", "y_test")]
        if sides[0][0] == "x_train" and not names & {"x_test", "y_test"}:
            sides = sides[:1]
        for name in (name for side in sides for name in side):
            if name not in names:
                raise LaminarError(
                    "L102",
                    f"{self._files[0]} has no array '{name}'; {did_you_mean(name, names)}",
                    hint="store x and y, or x_train, y_train, x_test and y_test",
                )
        return sides


def npz(spec: DataSpec, rest: str, root: Path) -> Arrays:
    return Arrays("npz", [find(rest, root, what="npz file")], spec)


def safetensors(spec: DataSpec, rest: str, root: Path) -> Arrays:
    return Arrays("safetensors", [find(rest, root, what="safetensors file")], spec)


def npy(spec: DataSpec, rest: str, root: Path) -> Arrays:
    names = [name.strip() for name in rest.split(",")]
    if len(names) not in (2, 4):
        raise LaminarError(
            "L109",
            f"source: '{spec.source}' names {len(names)} of them; expected 2 files (samples, labels) or 4 (and those of a test set)",
            hint='source = "npy:x.npy,y.npy"',
        )
    return Arrays("npy", [find(name, root, what="npy file") for name in names], spec)


def assemble(sides: list[tuple[Any, Any]], where: str, names: tuple[str, ...] | None = None, room: Room | None = None) -> Opened:
    """Samples and labels of train, and of test if there is one, as a source gives them."""
    from laminar.data.dataset import Opened, Split
    from laminar.data.wellformed import named_labels, tidy_samples

    labels, classes = named_labels([y for _, y in sides], where, names)
    splits = []
    for y in labels:
        x, _ = sides.pop(0)
        splits.append(Split(tidy_samples(x, where, room), y))
    return Opened(splits[0], splits[1] if len(splits) > 1 else None, classes)
