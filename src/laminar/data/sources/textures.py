"""kylberg, kth-tips2 and brodatz: sets of textures by name, read as `folder:` reads them.

They are looked for in $LAMINAR_DATA/NAME, then in the cache; kth-tips2 and brodatz are downloaded into it where they are in neither. None
of their publishers prints a sha256, so what the first download brought is pinned: another one on this machine must bring the same bytes.

kylberg    G. Kylberg, Kylberg Texture Dataset v. 1.0, External report (Blue series) 35, Uppsala University, 2011: 28 textures, 160 patches
           of 576x576 pixels of each
kth-tips2  P. Mallikarjuna, A. Tavakoli Targhi, M. Fritz, E. Hayman, B. Caputo and J.-O. Eklundh, The KTH-TIPS2 database, 2006; here
           KTH-TIPS2-b: 11 materials, photographs of about 200x200 pixels
brodatz    P. Brodatz, Textures: A Photographic Album for Artists and Designers, 1966, as scanned for S. Abdelmounaime and H. Dong-Chen,
           New Brodatz-Based Image Databases for Grayscale Color and Multiband Texture Analysis, 2013. A texture is one image of 640x640
           pixels, and an image is wholly for training or for testing; so each is cut into nine squares that do not overlap
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from filelock import FileLock

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.data.download import fetch
from laminar.data.sources.folder import SUFFIXES, ImageFolder
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Contents, Opening, Progress, silent
from laminar.data.sources.settings import refuse_args, refuse_rest
from laminar.data.spec import DataSpec
from laminar.data.trees import listing
from laminar.data.unpack import unpack

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.pictures import Pictures
    from laminar.data.remember import Memory

PARTS: Final = 3  # squares along a side that a Brodatz texture is cut into


@dataclass(frozen=True)
class Archive:
    name: str
    homes: tuple[str, ...]
    top: str  # the folder in it


@dataclass(frozen=True)
class TextureSet:
    kind: str
    archive: Archive | None  # None: it has to be fetched by hand
    size: int | None  # that images are scaled to where nothing else is asked for; None: they are all alike
    by_hand: str  # what to download, and where to put it
    prepare: Callable[[Path, Path], None] | None = None  # from the folder as it is published to one with class folders


KYLBERG: Final = TextureSet(
    kind="kylberg",
    archive=None,
    size=None,
    by_hand="download the patches without rotations from https://kylberg.org/kylberg-texture-dataset-v-1-0/ and unpack them into {folder}, "
    "one folder a texture ({folder}/blanket1/blanket1-a-p001.png)",
)
KTH_TIPS2: Final = TextureSet(
    kind="kth-tips2",
    archive=Archive("kth-tips2-b_col_200x200.tar", ("https://www.csc.kth.se/cvap/databases/kth-tips/",), "KTH-TIPS2-b"),
    size=200,
    by_hand="download kth-tips2-b_col_200x200.tar from https://www.csc.kth.se/cvap/databases/kth-tips/ and unpack it into {folder}",
)


def _cut_into_squares(published: Path, target: Path) -> None:
    """Every image of `published` as a class of its name, of nine squares. TIFF without compression: the same bytes on every machine."""
    from PIL import Image

    from laminar.data.formats.images import read_image

    originals = sorted(path for path in published.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    if not originals:
        raise LaminarError("L103", f"{published} has no images", hint="remove the folder, and the data is fetched again")
    for path in originals:
        pixels = read_image(path, grey=True)[0]
        side = min(pixels.shape) // PARTS
        (target / path.stem).mkdir()
        for number in range(PARTS**2):
            row, column = divmod(number, PARTS)
            square = pixels[row * side : (row + 1) * side, column * side : (column + 1) * side]
            Image.fromarray(square).save(target / path.stem / f"{path.stem}-{number}.tif", compression=None)


BRODATZ: Final = TextureSet(
    kind="brodatz",
    archive=Archive("Original_Brodatz.zip", ("http://multibandtexture.recherche.usherbrooke.ca/images/",), "Original Brodatz"),
    size=None,
    by_hand="download the archive at http://multibandtexture.recherche.usherbrooke.ca/original_brodatz.html and unpack its images into "
    "{folder} (D1.gif, D2.gif, …)",
    prepare=_cut_into_squares,
)


def kylberg(spec: DataSpec, rest: str, root: Path) -> Textures:  # noqa: ARG001 - not a file of the project
    return Textures(KYLBERG, spec, rest)


def kth_tips2(spec: DataSpec, rest: str, root: Path) -> Textures:  # noqa: ARG001
    return Textures(KTH_TIPS2, spec, rest)


def brodatz(spec: DataSpec, rest: str, root: Path) -> Textures:  # noqa: ARG001
    return Textures(BRODATZ, spec, rest)


@final
class Textures:
    def __init__(self, textures: TextureSet, spec: DataSpec, rest: str) -> None:
        refuse_rest(rest, textures.kind)
        refuse_args(spec, textures.kind)
        if spec.mirrors:
            raise LaminarError("L109", f"mirrors: {textures.kind} has its own home", hint="remove mirrors, or use a folder or index source")
        self._textures, self._spec = textures, spec

    @property
    def kind(self) -> str:
        return self._textures.kind

    def contents(self, memory: Memory) -> Contents:
        return self._folder(silent).contents(memory)

    def open(self, how: Opening) -> Opened:
        folder = self._folder(how.progress)
        if note := self._note():
            how.notes.append(note)
        return folder.open(how)

    def pictures(self, memory: Memory | None, progress: Progress = silent, *, whole: bool = False) -> Pictures:
        return self._folder(progress).pictures(memory, progress, whole=whole)

    def _folder(self, progress: Progress) -> ImageFolder:
        size = self._textures.size if self._spec.size is None else self._spec.size
        return ImageFolder(self._place(progress), size=size, grey=self._spec.grey, skip_bad=self._spec.skip_bad)

    def _place(self, progress: Progress) -> Path:
        """The folder with the class folders; the cache is filled where there is none."""
        textures, cache = self._textures, cache_folder() / self.kind
        shared = [Path(given).absolute() / self.kind] if (given := os.environ.get("LAMINAR_DATA")) else []
        top = textures.archive.top if textures.archive is not None else ""
        for folder in (*shared, cache):
            for place in dict.fromkeys((folder / top, folder)):
                if place.is_dir() and _has_images(place):
                    return place if textures.prepare is None else self._prepared(place)
        if textures.archive is None:
            looked = ", ".join(map(str, (*shared, cache)))
            raise LaminarError(
                "L101",
                f"source: {self.kind} is in none of {looked}, and it has no address from which it can be fetched as a whole",
                hint=textures.by_hand.format(folder=(shared or [cache])[0]),
            )
        self._fetch(textures.archive, cache, [*shared, cache], progress)
        place = cache / textures.archive.top
        return place if textures.prepare is None else self._prepared(place)

    def _fetch(self, archive: Archive, cache: Path, looked_in: list[Path], progress: Progress) -> None:
        file, pin = cache / archive.name, pin_of(archive)
        pinned = pin.read_text(encoding="utf-8").split()[0] if pin.is_file() else None
        try:
            fetch([home + archive.name for home in archive.homes], file, pinned, progress, looked_in=looked_in, as_sent=True)
        except LaminarError as error:
            also = f"; {pin} pins what an earlier download brought: remove it if another is to be taken" if pinned else ""
            by_hand = self._textures.by_hand.format(folder=looked_in[0])
            raise LaminarError(
                error.code, error.message, hint=f"with a network, run the same command again; without one, {by_hand}{also}"
            ) from error
        sha256 = digest.of_file(file)
        unpack(file, cache / archive.top, progress)
        if pinned is None:  # only now: what cannot be unpacked is nothing to hold later downloads to
            atomic.write_bytes(pin, f"{sha256}  {archive.name}\n".encode())
        file.unlink(missing_ok=True)

    def _prepared(self, published: Path) -> Path:
        """Made once, in the cache, whole or not at all. Two processes may call this."""
        assert self._textures.prepare is not None
        target = cache_folder() / "prepared" / f"{self.kind}-{digest.of_json(listing(published, SUFFIXES))[:16]}"
        with atomic.explaining_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(target.with_name(f".{target.name}.lock")):
                if not target.is_dir():
                    half = target.with_name(f".{target.name}.half")
                    shutil.rmtree(half, ignore_errors=True)  # of a process that was killed
                    half.mkdir()
                    self._textures.prepare(published, half)
                    os.replace(half, target)
                    atomic.fsync_folder(target.parent)
        return target

    def _note(self) -> str:
        """What the user should know of a download that nothing but itself proves."""
        archive = self._textures.archive
        if archive is None or not (pin := pin_of(archive)).is_file():
            return ""
        return (
            f"{self.kind}: the publisher of {archive.name} prints no sha256, so the first download of this machine is pinned: "
            f"{pin.read_text(encoding='utf-8').split()[0]} (in {pin})"
        )


def pin_of(archive: Archive) -> Path:
    """The file with the sha256 of the first download: beside the data, so that it stays when the data is removed."""
    return cache_folder() / "pins" / f"{archive.name}.sha256"


def _has_images(folder: Path) -> bool:
    """Does it hold anything that could be the set? An empty folder, or one with an archive only, does not."""
    return any(path.suffix.lower() in SUFFIXES for path in folder.rglob("*"))
