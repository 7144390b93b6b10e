"""parquet:file-or-folder and hf:folder (what save_to_disk of Hugging Face's `datasets` wrote): tables with a label column.

args: label (default: the class label that `datasets` declares, else "label", else the last column), columns (which are samples).
A sample is the one column of images, else the one column of lists of numbers, else all columns of numbers together. With `shape` numbers
are an image.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.sources.places import find
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import column_args, image_shape, known_args
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Array, Opened
    from laminar.data.formats.arrow import ArrowFile
    from laminar.data.remember import Memory

READER = 1  # raised when the same files would give other samples
_OTHER_TESTS = ("validation", "valid", "val", "dev")
_SAVE = "write it with dataset.save_to_disk(folder)"


@final
class Tables:
    """`sides` are the files of train, and of test if there is one."""

    def __init__(self, kind: str, sides: list[list[Path]], notes: list[str], spec: DataSpec) -> None:
        for name, given in (("mirrors", spec.mirrors), ("fragment", spec.fragment), ("skip_bad", spec.skip_bad)):
            if given:
                raise LaminarError("L109", f"{name}: applies to folder and index sources, not to {kind}", hint=f"remove {name}")
        self.kind, self._sides, self._notes = kind, sides, notes
        self._label, self._columns = column_args(known_args(spec.args, {"label": None, "columns": None}, kind))
        self._size, self._grey, self._shape = spec.size, spec.grey, image_shape(spec)

    def contents(self, memory: Memory) -> Contents:
        def learn() -> Contents:
            tables = self._tables()
            label, columns = self._chosen(tables)
            _, classes = _labels(tables, label, self._where())
            return Contents(
                digest=digest.of_json([[digest.of_file(path) for path in side] for side in self._sides]),
                classes=classes,
                own_test=len(self._sides) > 1,
                settings=self._settings(),
                sides=self._known_sides(tables, columns),
            )

        files = [path for side in self._sides for path in side]
        return memory.about_files(files, Contents, learn, of=[self.kind, len(self._sides[0]), self._settings()])

    def _known_sides(self, tables: list[list[ArrowFile]], columns: list[str]) -> tuple[int, ...] | None:
        from laminar.data.formats.columns import kind_of

        kinds = {kind_of(tables[0][0].schema.field(name).type) for name in columns}
        if self._shape is not None and "image" not in kinds:
            return self._shape[1:]
        if kinds == {"image"} and self._size is not None:
            return (self._size, self._size)
        return () if kinds == {"number"} else None

    def open(self, how: Opening) -> Opened:
        from laminar.data.dataset import Opened, Split
        from laminar.data.pixels import rows_as_images

        how.notes.extend(self._notes)
        tables = self._tables()
        label, columns = self._chosen(tables)
        labels, classes = _labels(tables, label, self._where())
        read = self._reader(tables, label, columns, how)
        samples = [read(side) for side in tables]
        if self._shape is not None:
            samples = rows_as_images(samples, self._shape, self._where(), how.room)
        splits = [Split(x, y) for x, y in zip(samples, labels, strict=True)]
        return Opened(splits[0], splits[1] if len(splits) > 1 else None, classes)

    def _settings(self) -> dict[str, Any]:
        said = {"label": self._label, "columns": self._columns, "size": self._size, "grey": self._grey, "reader": READER}
        return said if self._shape is None else {**said, "shape": list(self._shape)}  # it came later: older keys stand

    def _where(self) -> str:
        return str(self._sides[0][0])

    def _tables(self) -> list[list[ArrowFile]]:
        from laminar.data.formats.arrow import ArrowFile

        tables = [[ArrowFile(path, self.kind) for path in side] for side in self._sides]
        first = tables[0][0]
        for file in (file for side in tables for file in side):
            for name in first.schema.names:
                there = file.schema.names
                if name not in there:
                    raise LaminarError("L110", f"{file.path} has no column '{name}'; {did_you_mean(name, there)}", hint="make all alike")
                one, other = first.schema.field(name).type, file.schema.field(name).type
                if one != other:
                    raise LaminarError(
                        "L110", f"column '{name}' is {one} in {first.path}, but {other} in {file.path}", hint="make all files alike"
                    )
        return tables

    def _chosen(self, tables: list[list[ArrowFile]]) -> tuple[str, list[str]]:
        """The label's column and those of the samples."""
        from laminar.data.formats.columns import kind_of
        from laminar.data.formats.delimited import find_column

        file = tables[0][0]
        names = list(file.schema.names)
        if len(names) < 2:
            raise LaminarError(
                "L110", f"{file.path} has the columns {', '.join(names) or 'none'}; expected a label and another", hint="add them"
            )
        declared = [name for name, about in file.features().items() if name in names and _names_in(about) is not None]
        usual = declared[0] if declared else "label" if "label" in names else names[-1]
        label = names[find_column(usual if self._label is None else self._label, names, file.path, "label")]
        if self._columns is not None:
            return label, [names[find_column(column, names, file.path, "columns")] for column in self._columns]
        kinds = {name: kind_of(file.schema.field(name).type) for name in names if name != label}
        for kind in ("image", "list"):
            some = [name for name, found in kinds.items() if found == kind]
            if len(some) == 1:
                return label, some
            if some:
                raise LaminarError(
                    "L109",
                    f"{file.path} has {len(some)} columns of {kind}s: {', '.join(some[:8])}",
                    hint=f'say which is the sample: args = {{ columns = ["{some[0]}"] }}',
                )
        return label, list(kinds)

    def _reader(self, tables: list[list[ArrowFile]], label: str, columns: list[str], how: Opening) -> Callable[[list[ArrowFile]], Array]:
        """What reads the samples of one side."""
        from laminar.data.formats.columns import all_grey, kind_of, read_encoded, read_lists, read_numbers
        from laminar.data.wellformed import tidy_samples

        fields, name = tables[0][0].schema, columns[0]
        kinds = {name: kind_of(fields.field(name).type) for name in columns}
        for other, kind in kinds.items():
            if kind == "other" or (kind != "number" and len(columns) > 1):
                numbers = [name for name in fields.names if kind_of(fields.field(name).type) == "number" and name != label]
                raise LaminarError(
                    "L110",
                    f"{self._where()}: column '{other}' is of type {fields.field(other).type}; a sample is one column of images, "
                    "one of lists of numbers, or columns of numbers",
                    hint="args = { columns = [" + ", ".join(f'"{n}"' for n in numbers[:8]) + "] }"
                    if numbers
                    else f"add samples: beside the label '{label}' there is no column of images, of lists of numbers or of numbers",
                )
        if kinds[name] == "image":
            if self._shape is not None:
                raise LaminarError("L109", f"shape: column '{name}' of {self._where()} has images, which have a shape", hint="remove shape")
            grey = self._grey or all(all_grey(side, name) for side in tables)
            return lambda side: read_encoded(side, name, size=self._size, grey=grey, room=how.room, progress=how.progress)
        if self._size is not None or self._grey:
            setting = "grey" if self._size is None else "size"
            raise LaminarError("L109", f"{setting}: the samples of {self._where()} are numbers, not images", hint=f"remove {setting}")
        if kinds[name] == "list":
            return lambda side: tidy_samples(read_lists(side, name, how.room), self._where(), how.room)
        return lambda side: read_numbers(side, columns, how.room)


def parquet(spec: DataSpec, rest: str, root: Path) -> Tables:
    found = find(rest, root, what="Parquet file or folder")
    if not found.is_dir():
        return Tables("parquet", [[found]], [], spec)
    files = sorted(path for path in found.rglob("*.parquet") if not any(p.startswith(".") for p in path.relative_to(found).parts))
    if not files:
        raise LaminarError("L103", f"{found} has no files *.parquet", hint="correct source, or add the files")
    sides: dict[str, list[Path]] = {}
    for path in files:
        sides.setdefault(_side_of(path.relative_to(found)), []).append(path)
    if len(sides) == 1:
        return Tables("parquet", [files], [], spec)
    return Tables("parquet", *_train_and_test(sides, found), spec)


def hf(spec: DataSpec, rest: str, root: Path) -> Tables:
    found = find(rest, root, what="folder of save_to_disk")
    if not found.is_dir():
        raise LaminarError("L101", f"{found} is a file, expected a folder that `datasets` wrote", hint=_SAVE)
    if (found / "dataset_dict.json").is_file():
        splits = _json(found / "dataset_dict.json").get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) for name in splits):
            raise LaminarError("L102", f"{found / 'dataset_dict.json'} does not name its splits", hint=_SAVE)
        return Tables("hf", *_train_and_test({name: _saved_files(found / name) for name in splits}, found), spec)
    return Tables("hf", [_saved_files(found)], [], spec)


def _train_and_test(sides: dict[str, list[Path]], where: Path) -> tuple[list[list[Path]], list[str]]:
    """The files of train and test, and what the user should know of the others."""
    if "train" not in sides:
        names = [name or "neither" for name in sides]
        raise LaminarError("L103", f"{where} has no split 'train'; {did_you_mean('train', names)}", hint="name the files train… and test…")
    test = next((name for name in ("test", *_OTHER_TESTS) if name in sides), None)
    left = sorted(name or "(neither train nor test)" for name in sides if name not in ("train", test))
    notes = [f"{where}: {', '.join(left)} left out; train and {test or 'a share of it'} are used"] if left else []
    return [sides["train"], *([sides[test]] if test else [])], notes


def _side_of(path: Path) -> str:
    """train, test or the like where a part of the path begins so, as in data/train-00000-of-00002.parquet."""
    for part in path.parts:
        word = re.match(r"[a-z]*", part.lower())
        if word and word.group() in ("train", "test", *_OTHER_TESTS):
            return word.group()
    return ""


def _saved_files(folder: Path) -> list[Path]:
    if not (folder / "state.json").is_file():
        parquet = next(folder.rglob("*.parquet"), None) if folder.is_dir() else None
        raise LaminarError(
            "L101",
            f"there is no {folder / 'state.json'}: not a folder that save_to_disk wrote",
            hint=f'source = "parquet:{folder.name}"' if parquet else _SAVE,
        )
    state = _json(folder / "state.json")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise LaminarError(
            "L102", f"{folder} has its rows in another order than its files", hint="dataset.flatten_indices().save_to_disk(folder)"
        )
    entries = state.get("_data_files")
    names = [str(entry.get("filename")) if isinstance(entry, dict) else "" for entry in entries] if isinstance(entries, list) else []
    if not names or not all(re.fullmatch(r"\w[\w.-]*", name) for name in names):
        raise LaminarError("L102", f"{folder / 'state.json'} does not name its files, or names some outside of the folder", hint=_SAVE)
    for name in names:
        if not (folder / name).is_file():
            raise LaminarError("L101", f"there is no {folder / name}, which state.json names", hint="copy the whole folder, or " + _SAVE)
    return [folder / name for name in names]


def _json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LaminarError("L102", f"{path} cannot be read: {error}", hint=_SAVE) from error


def _names_in(about: Any) -> tuple[str, ...] | None:
    """The names of a ClassLabel."""
    if isinstance(about, dict) and about.get("_type") == "ClassLabel" and isinstance(about.get("names"), list):
        return tuple(str(name) for name in about["names"])
    return None


def _labels(tables: list[list[ArrowFile]], label: str, where: str) -> tuple[list[Array], tuple[str, ...] | None]:
    import numpy as np

    from laminar.data.formats.columns import read_labels
    from laminar.data.wellformed import named_labels

    found = [read_labels(side, label) for side in tables]
    words = [part for part in found if isinstance(part, tuple)]
    if words:
        names = tuple(sorted({name for _, some in words for name in some}))
        return [np.array([names.index(n) for n in some], dtype=np.int64)[codes] for codes, some in words], names
    return named_labels(found, f"{where}, column '{label}'", _names_in(tables[0][0].features().get(label)))
