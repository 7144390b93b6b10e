"""Pictures: the images of a set, with what is known of each, and where their bytes are. What fragments and indexes are made from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.core.sizes import parse_bytes
from laminar.data.index import Picture
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Progress, Source, silent

if TYPE_CHECKING:
    from laminar.data.mirrors.cache import FileCache
    from laminar.data.mirrors.fetch import Fetched
    from laminar.data.remember import Memory

CACHE_BYTES = "LAMINAR_CACHE_BYTES"
DEFAULT_CACHE = 20 << 30


class Place(Protocol):
    """Where images lie."""

    def paths(self, files: Sequence[Picture], progress: Progress) -> list[Path]:
        """Local files with the bytes of these images, fetched where they are elsewhere."""
        ...

    def fetch(self, files: Sequence[Picture], progress: Progress) -> Fetched | None:
        """Have these on this machine; None where they always are."""
        ...

    def name(self, file: Picture) -> str:
        """What messages call it."""
        ...


@dataclass(frozen=True)
class Pictures:
    files: list[Picture]  # the order of samples: train, then test; class by class
    classes: tuple[str, ...]
    own_test: bool
    place: Place
    skipped: list[str] = field(default_factory=list)  # why, of each that cannot be read

    @property
    def grey(self) -> bool:
        return all(file.grey for file in self.files)


@runtime_checkable
class PictureSource(Source, Protocol):
    """A source whose samples are image files."""

    def pictures(self, memory: Memory | None, progress: Progress = silent) -> Pictures: ...


@final
class Here:
    """In a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self, files: Sequence[Picture], progress: Progress) -> list[Path]:  # noqa: ARG002 - nothing to wait for
        return [self.folder / file.path for file in files]

    def fetch(self, files: Sequence[Picture], progress: Progress) -> None:
        """Nothing to do."""

    def name(self, file: Picture) -> str:
        return str(self.folder / file.path)


@final
class OnMirrors:
    """On other machines; kept in the cache once fetched and checked."""

    def __init__(self, mirrors: Sequence[str]) -> None:
        self.mirrors = list(mirrors)

    def paths(self, files: Sequence[Picture], progress: Progress) -> list[Path]:
        cache = file_cache()
        for _ in range(3):  # another process may make room in the cache between our fetching and our looking
            found = [cache.path(file.sha256) for file in files]
            if None not in found:
                return [path for path in found if path is not None]
            self.fetch(files, progress)
        raise LaminarError(
            "L109",
            f"{many(len(files), 'image')} of {sum(f.size for f in files):,} bytes cannot stay in the cache, which keeps {cache.budget:,}",
            hint=f"set {CACHE_BYTES} to more, or let sample.sources take fewer images",
        )

    def fetch(self, files: Sequence[Picture], progress: Progress) -> Fetched:
        """Have these in the cache; what is there already is left."""
        from laminar.data.mirrors.fetch import fetch
        from laminar.data.mirrors.wanted import Wanted

        return fetch([Wanted(f.path, f.sha256, f.size, tuple(f.chunks)) for f in files], self.mirrors, file_cache(), progress=progress)

    def name(self, file: Picture) -> str:
        return f"{file.path} (sha256 {file.sha256[:12]}…, from a mirror)"


def file_cache() -> FileCache:
    """The cache of fetched files that all projects of this user share."""
    from laminar.data.mirrors.cache import FileCache

    given = os.environ.get(CACHE_BYTES)
    budget = parse_bytes(given) if given else DEFAULT_CACHE
    if not budget:
        raise LaminarError("L109", f"{CACHE_BYTES}: {given!r} is no size; expected one such as 20GB", hint=f"export {CACHE_BYTES}=20GB")
    return FileCache(cache_folder() / "files", budget)
