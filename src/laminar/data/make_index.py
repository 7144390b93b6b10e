"""Making an index: from a folder of images, each read whole, to the file that names them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.data.index import Index, safe_path, with_chunks
from laminar.data.remember import Memory
from laminar.data.sources.folder import ImageFolder
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Progress, silent


@dataclass(frozen=True)
class Written:
    out: Path
    sha256: str
    images: int
    bytes: int
    classes: tuple[str, ...]
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "sha256": self.sha256,
            "images": self.images,
            "bytes": self.bytes,
            "classes": list(self.classes),
            "skipped": self.skipped,
        }


def index_of(folder: Path, *, skip_bad: bool = False, progress: Progress = silent) -> tuple[Index, list[str]]:
    """The index of the images in `folder`, and why any were left out. What is remembered of files that stand is not read again."""
    if not folder.exists():
        raise LaminarError("L101", f"there is no folder {folder.absolute()}", hint="name the folder that has one folder of images a class")
    source = ImageFolder(folder.absolute(), skip_bad=skip_bad)
    pictures = source.pictures(Memory(cache_folder() / "fingerprints"), progress, whole=True)
    for file in pictures.files:
        if not safe_path(file.path):
            raise LaminarError(
                "L111",
                f"{folder / file.path}: the name cannot stand in an index (a part begins with a dot, or has a colon or an odd character)",
                hint="rename it",
            )
    with ThreadPoolExecutor(max_workers=2) as pool:
        files = list(pool.map(lambda file: with_chunks(file, folder / file.path), pictures.files))
    return Index(files=sorted(files, key=lambda file: file.path)), pictures.skipped


def write_index(folder: Path, out: Path, *, skip_bad: bool = False, progress: Progress = silent) -> Written:
    index, skipped = index_of(folder, skip_bad=skip_bad, progress=progress)
    data = index.encode()
    atomic.write_bytes(out, data)
    return Written(out, digest.of_bytes(data), len(index.files), sum(file.size for file in index.files), index.classes, skipped)
