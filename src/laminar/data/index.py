"""Indexes: a JSON file that names every image of a set with its class, sha256, size and form. It is what mirrors serve beside the images.

Who has the index has the data set: its fingerprint, its classes, its split, how many fragments it has. The images themselves are
fetched when they are needed, from whoever has them, and believed only where their sha256 is the one that stands here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from laminar.core.errors import LaminarError
from laminar.data.formats.picture_facts import Facts
from laminar.data.mirrors.wanted import CHUNK

FORMAT = 1
NAME = "index.json"  # of the index in the folder of a mirror

_HINT = "make the index anew with `laminar data index FOLDER --out index.json` where the images are"
_SHA = re.compile(r"[0-9a-f]{64}\Z")


class Picture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One image of a set."""

    path: str  # below the folder of the index, with "/"
    label: str = msgspec.field(name="class")
    sha256: str
    size: Annotated[int, Meta(ge=1)]  # bytes
    width: Annotated[int, Meta(ge=1)]
    height: Annotated[int, Meta(ge=1)]
    grey: bool = False
    split: Literal["train", "test"] | None = None  # where the set brings a test set of its own
    chunks: list[str] = []


class Index(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    files: list[Picture]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({file.label for file in self.files if file.split != "test"}))

    @property
    def own_test(self) -> bool:
        return any(file.split == "test" for file in self.files)

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def picture(path: str, label: str, sha256: str, size: int, facts: Facts, *, split: Literal["train", "test"] | None) -> Picture:
    return Picture(path=path, label=label, sha256=sha256, size=size, width=facts.width, height=facts.height, grey=facts.grey, split=split)


def with_chunks(picture: Picture, file: Path) -> Picture:
    """The same with a digest for every CHUNK of the file, where it is larger than one."""
    if picture.size <= CHUNK:
        return picture
    with open(file, "rb") as opened:
        found = [hashlib.sha256(part).hexdigest() for part in iter(lambda: opened.read(CHUNK), b"")]
    return msgspec.structs.replace(picture, chunks=found)


def read_index(data: bytes, where: str) -> Index:
    """The index in `data`, or L111 with what is wrong with it: an index comes from strangers."""
    try:
        version = msgspec.json.decode(data, type=_Version).format
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LaminarError("L111", f"{where} is not an index of images: {error}", hint=_HINT) from error
    if version != FORMAT:
        raise LaminarError(
            "L111", f"{where} has format {version}, this Laminar reads format {FORMAT}", hint="pip install -U laminar-train, or " + _HINT
        )
    try:
        index = msgspec.json.decode(data, type=Index)
    except msgspec.MsgspecError as error:
        raise LaminarError("L111", f"{where} is not an index of images: {error}", hint=_HINT) from error
    if not index.files:
        raise LaminarError("L103", f"{where} names no images", hint=_HINT)
    seen: set[str] = set()
    for file in index.files:
        wrong = _wrong(file) or ("it is there twice" if file.path in seen else "")
        if wrong:
            raise LaminarError("L111", f"{where} is refused: '{_printable(file.path)}': {wrong}", hint=_HINT)
        seen.add(file.path)
    if index.own_test:
        strangers = sorted({file.label for file in index.files if file.split == "test"} - set(index.classes))
        unsaid = next((file.path for file in index.files if file.split is None), None)
        if strangers or unsaid is not None:
            raise LaminarError(
                "L111",
                f"{where} is refused: "
                + (f"class '{strangers[0]}' is in test only" if strangers else f"'{unsaid}' is neither in train nor in test"),
                hint=_HINT,
            )
    return index


class _Version(msgspec.Struct):
    format: int


def _wrong(file: Picture) -> str:
    """Why this entry is not to be used; empty where it may be."""
    if not safe_path(file.path):
        return "the path points outside of the folder of the index, or is no plain relative path"
    if not file.label or file.label.startswith(".") or "/" in file.label or "\\" in file.label:
        return f"its class '{_printable(file.label)}' is no name"
    if not _SHA.match(file.sha256) or not all(_SHA.match(chunk) for chunk in file.chunks):
        return "a sha256 must have 64 hexadecimal digits in lower case"
    wanted = -(-file.size // CHUNK) if file.size > CHUNK else 0
    if file.chunks and len(file.chunks) != wanted:
        return f"{file.size:,} bytes in chunks of {CHUNK:,} have {wanted} digests, but {len(file.chunks)} are given"
    return ""


def safe_path(text: str) -> bool:
    """A plain relative path that stays below its folder, on every system."""
    path = PurePosixPath(text)
    plain = bool(text) and not path.is_absolute() and str(path) == text and "\\" not in text and ":" not in text and text.isprintable()
    return plain and bool(path.parts) and not any(part.startswith(".") for part in path.parts)


def by_class(files: Sequence[Picture], classes: Iterable[str], split: str | None) -> list[Picture]:
    """The images of one side, class by class in the order of `classes`, by path in each: the order of samples."""
    place = {name: i for i, name in enumerate(classes)}
    return sorted((file for file in files if file.split == split), key=lambda file: (place[file.label], file.path))


def _printable(text: str) -> str:
    return text.encode("unicode_escape").decode()[:120]
