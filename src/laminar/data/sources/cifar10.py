"""cifar10: the binary form, from $LAMINAR_DATA/cifar10 (unpacked or as it is sent), or from the cache, or downloaded into it.

CIFAR-10: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, final

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.data.augment_fit import sides_of
from laminar.data.download import fetch
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Contents, Opening, Progress, silent
from laminar.data.sources.settings import refuse_args, refuse_image_settings, refuse_rest
from laminar.data.spec import DataSpec
from laminar.data.unpack import BROKEN, refused, unpack

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory
    from laminar.data.room import Room

ARCHIVE = "cifar-10-binary.tar.gz"
HOMES = ["https://www.cs.toronto.edu/~kriz/"]
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"  # of the archive; 170,052,171 bytes
UNPACKED = "cifar-10-batches-bin"
NAMES = "batches.meta.txt"
SIDES = ([f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"])


@final
class Cifar10:
    kind: ClassVar[str] = "cifar10"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:  # noqa: ARG002 - not a file of the project
        refuse_rest(rest, self.kind)
        refuse_args(spec, self.kind)
        refuse_image_settings(spec, self.kind)
        self._memory = spec.memory

    def contents(self, memory: Memory) -> Contents:
        place = self._place(silent)

        def learn() -> Contents:
            from laminar.data.room import Room, budget_of

            opened, digests = _open(place, Room(budget_of(self._memory)))
            return Contents(digest=digest.of_json(digests), classes=opened.classes, own_test=True, sides=sides_of(opened.train.x.shape[1:]))

        files = [place] if place.is_file() else [place / name for name in (*SIDES[0], *SIDES[1], NAMES)]
        return memory.about_files(files, Contents, learn, of=["cifar10", 1])

    def open(self, how: Opening) -> Opened:
        return _open(self._place(how.progress), how.room)[0]

    def _place(self, progress: Progress) -> Path:
        """The folder with the files, or the archive with them; the cache is filled where there is neither."""
        shared = [Path(given).absolute() / self.kind] if (given := os.environ.get("LAMINAR_DATA")) else []
        cache = cache_folder() / self.kind
        for folder in (*shared, cache):
            for place in (folder / UNPACKED, folder):
                if (place / SIDES[0][0]).is_file():
                    return _complete(place)
            if (folder / ARCHIVE).is_file() and folder != cache:
                return folder / ARCHIVE
        fetch([home + ARCHIVE for home in HOMES], cache / ARCHIVE, SHA256, progress, looked_in=[*shared, cache], as_sent=True)
        unpack(cache / ARCHIVE, cache / UNPACKED, progress)
        (cache / ARCHIVE).unlink(missing_ok=True)
        return _complete(cache / UNPACKED)


def _complete(folder: Path) -> Path:
    for name in (*SIDES[0], *SIDES[1], NAMES):
        if not (folder / name).is_file():
            raise LaminarError("L101", f"there is no {folder / name}", hint="put the file there, or remove the folder to fetch all of them")
    return folder


def _open(place: Path, room: Room) -> tuple[Opened, list[str]]:
    """The samples, and the sha256 of the records of train and test and of the names."""
    from laminar.data.dataset import Opened
    from laminar.data.formats.cifar import read_cifar, records_in

    with _files(place) as files:
        with files.open(NAMES) as file:
            names = tuple(line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip())
        if not names:
            raise LaminarError("L102", f"{place}: {NAMES} names no classes", hint="fetch the data again")
        sides = []
        for side in SIDES:
            count = sum(records_in(str(place / name), files.size(name)) for name in side)
            sides.append(read_cifar(files.all_of(side), count, len(names), room))
    opened = Opened(sides[0][0], sides[1][0], names)
    return opened, [sides[0][1], sides[1][1], digest.of_json(list(names))]


@final
class _Files:
    """The files by name, in a folder or in an archive."""

    def __init__(self, place: Path, tar: tarfile.TarFile | None) -> None:
        self._place, self._tar = place, tar
        self._members = {Path(member.name).name: member for member in tar if member.isreg()} if tar else {}

    def size(self, name: str) -> int:
        return self._member(name).size if self._tar else (self._place / name).stat().st_size

    def open(self, name: str) -> IO[bytes]:
        found = self._tar.extractfile(self._member(name)) if self._tar else open(self._place / name, "rb")  # noqa: SIM115 - given away
        if found is None:
            raise refused(self._place, f"'{name}' is not a file")
        return found

    def all_of(self, names: list[str]) -> Iterator[tuple[str, int, IO[bytes]]]:
        for name in names:
            with self.open(name) as file:
                yield str(self._place / name), self.size(name), file

    def _member(self, name: str) -> tarfile.TarInfo:
        if name not in self._members:
            raise LaminarError("L102", f"{self._place} holds no {name}", hint="fetch the archive again")
        return self._members[name]


@contextlib.contextmanager
def _unzipped(archive: Path) -> Iterator[tarfile.TarFile]:
    """The archive without its compression, in a file without a name: its parts do not lie in the order in which we want them."""
    from laminar.data.formats.streams import Unzipped
    from laminar.data.mapped import spacious_folder

    content = Unzipped(archive)
    with atomic.explaining_os_errors(spacious_folder() / archive.stem), tempfile.TemporaryFile(dir=spacious_folder()) as file:
        for part in content.parts():
            file.write(part)
        if content.broken:
            raise refused(archive, content.broken)
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            yield tar


@contextlib.contextmanager
def _files(place: Path) -> Iterator[_Files]:
    try:
        if not place.is_file():
            yield _Files(place, None)
            return
        with _unzipped(place) as tar:
            yield _Files(place, tar)
    except BROKEN as error:
        raise refused(place, str(error) or type(error).__name__) from error
    except PermissionError as error:
        raise LaminarError("L102", f"{error.filename or place} cannot be read: {error.strerror}", hint="check its permissions") from error
