"""csv:file: a line of column names, then a line a sample. One column is the label, the others are numbers.

args: label (a column's name or number; default "label", else the last column), columns (which are samples; default all others),
delimiter (default ","), test (a second file, with the same columns).
With `shape` the numbers of a row are an image. A label that is text names its class, whole numbers are classes from 0, real numbers mean
regression.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import column_args, image_shape, known_args, refuse_image_settings
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Array, Opened
    from laminar.data.formats.delimited import Delimited
    from laminar.data.remember import Memory

READER = 1  # raised when the same file would give other samples


@final
class Csv:
    kind: ClassVar[str] = "csv"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        refuse_image_settings(spec, self.kind)
        args = known_args(spec.args, {"label": None, "columns": None, "delimiter": ",", "test": None}, self.kind)
        self._label, self._columns = column_args(args)
        self._shape = image_shape(spec)
        self._delimiter = args["delimiter"]
        if not isinstance(self._delimiter, str) or len(self._delimiter) != 1 or self._delimiter in '\r\n"':
            raise LaminarError("L109", f"args.delimiter: {self._delimiter!r}, expected one character", hint='args = { delimiter = ";" }')
        if args["test"] is not None and not isinstance(args["test"], str):
            raise LaminarError("L109", f"args.test: {args['test']!r}, expected the name of a file", hint='args = { test = "test.csv" }')
        self._files = [find(name, root, what="csv file") for name in (rest, args["test"]) if name is not None]

    def contents(self, memory: Memory) -> Contents:
        def learn() -> Contents:
            _, classes = _labels(self._tables())
            return Contents(
                digest=digest.of_json([digest.of_file(path) for path in self._files]),
                classes=classes,
                own_test=len(self._files) > 1,
                settings=self._settings(),
                sides=() if self._shape is None else self._shape[1:],
            )

        return memory.about_files(self._files, Contents, learn, of=["csv", self._settings()])

    def open(self, how: Opening) -> Opened:
        from laminar.data.dataset import Opened, Split
        from laminar.data.pixels import note_on_pixels, rows_as_images

        tables = self._tables()
        labels, classes = _labels(tables)
        samples = [table.samples(len(y), how.room) for table, y in zip(tables, labels, strict=True)]
        if self._shape is not None:
            samples = rows_as_images(samples, self._shape, str(self._files[0]), how.room)
        elif note := note_on_pixels([tables[0].columns[i] for i in tables[0].chosen], str(self._files[0])):
            how.notes.append(note)
        splits = [Split(x, y) for x, y in zip(samples, labels, strict=True)]
        return Opened(splits[0], splits[1] if len(splits) > 1 else None, classes)

    def _settings(self) -> dict[str, Any]:
        said = {"label": self._label, "columns": self._columns, "delimiter": self._delimiter, "reader": READER}
        return said if self._shape is None else {**said, "shape": list(self._shape)}  # it came later: older keys stand

    def _tables(self) -> list[Delimited]:
        from laminar.data.formats.delimited import open_delimited

        first = open_delimited(self._files[0], self._delimiter, self._label, self._columns)
        tables = [first]
        for path in self._files[1:]:
            names = first.columns
            other = open_delimited(path, self._delimiter, names[first.label], [names[i] for i in first.chosen])
            strange = sorted(set(other.columns) - set(names))
            if strange and self._columns is None:
                raise LaminarError(
                    "L110",
                    f"{path}: column '{strange[0]}' is not in {self._files[0]}; {did_you_mean(strange[0], names)}",
                    hint="make both alike",
                )
            tables.append(other)
        return tables


def _labels(tables: list[Delimited]) -> tuple[list[Array], tuple[str, ...] | None]:
    """The labels of train and test, brought to one kind, and the names of the classes."""
    import numpy as np

    from laminar.data.wellformed import refuse_far_labels

    found = [table.labels() for table in tables]
    if any(labels.kind == "text" for labels in found):
        found = [labels if labels.kind == "text" else table.labels(text=True) for labels, table in zip(found, tables, strict=True)]
        names = sorted({name for labels in found for name in labels.names})
        place = {name: i for i, name in enumerate(names)}
        return [np.array([place[n] for n in labels.names], dtype=np.int64)[labels.values] for labels in found], tuple(names)
    if any(labels.kind == "real" for labels in found):
        return [labels.values.astype(np.float32)[:, None] for labels in found], None
    refuse_far_labels([labels.values for labels in found], str(tables[0].path))
    top = max((int(labels.values.max(initial=-1)) for labels in found), default=-1)
    return [labels.values for labels in found], tuple(map(str, range(top + 1)))
