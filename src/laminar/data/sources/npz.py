"""npz:file with x, y (or x_train, y_train, x_test, y_test); `classes` may name the classes. Real-valued y means regression."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Progress
from laminar.data.sources.settings import refuse_args, refuse_image_settings
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory


@final
class Npz:
    kind: ClassVar[str] = "npz"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        refuse_args(spec, self.kind)
        refuse_image_settings(spec, self.kind)
        self._file = find(rest, root, what="npz file")

    def contents(self, memory: Memory) -> Contents:
        def learn() -> Contents:
            from laminar.data.formats.content import opened_digest

            opened = self._open()
            return Contents(digest=opened_digest(opened), classes=opened.classes, own_test=opened.test is not None)

        return memory.about_files([self._file], Contents, learn, of=["npz", 1])

    def open(self, memory: Memory | None, progress: Progress) -> Opened:  # noqa: ARG002
        return self._open()

    def _open(self) -> Opened:
        from laminar.data.formats.npz import read_npz

        arrays = read_npz(self._file)
        sides = [("x", "y")] if "x" in arrays or "y" in arrays else [("x_train", "y_train"), ("x_test", "y_test")]
        if sides[0][0] == "x_train" and "x_test" not in arrays and "y_test" not in arrays:
            sides = sides[:1]
        for name in (name for side in sides for name in side):
            if name not in arrays:
                raise LaminarError(
                    "L102",
                    f"{self._file} has no array '{name}'; {did_you_mean(name, arrays)}",
                    hint="store x and y, or x_train, y_train, x_test and y_test",
                )
        names = tuple(str(n) for n in arrays["classes"]) if "classes" in arrays else None
        return assemble([(arrays[x], arrays[y]) for x, y in sides], str(self._file), names)


def assemble(sides: list[tuple[Any, Any]], where: str, names: tuple[str, ...] | None = None) -> Opened:
    """Samples and labels of train, and of test if there is one, as a source gives them."""
    from laminar.data.dataset import Opened, Split
    from laminar.data.wellformed import named_labels, tidy_samples

    labels, classes = named_labels([y for _, y in sides], where, names)
    splits = [Split(tidy_samples(x, where), y) for (x, _), y in zip(sides, labels, strict=True)]
    return Opened(splits[0], splits[1] if len(splits) > 1 else None, classes)
