"""index:URL or index:file: images named by an index and fetched from mirrors, each checked by its sha256.

`index:URL,URL` gives more addresses of the same index: the first that answers is taken. Where none does, and none ever did, the mirrors
are asked for it. `#sha256=…` after the address pins the index itself: whatever a mirror sends, no other index is taken.
The samples, and so the fingerprint, are those of the folder that the index was made of.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.data import file_lists
from laminar.data.index import NAME, Index, by_class, read_index
from laminar.data.mirrors.readers.places import beneath, parted
from laminar.data.pictures import OnMirrors, Pictures
from laminar.data.sources.folder import image_settings
from laminar.data.sources.places import cache_folder, find
from laminar.data.sources.protocol import Contents, Opening, Progress, silent
from laminar.data.sources.settings import refuse_args
from laminar.data.spec import DataSpec
from laminar.data.trees import digest_of_files

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

FRESH = 60.0  # seconds for which one process asks for an index once
_PIN = re.compile(r"sha256=([0-9a-f]{64})\Z")
_recent: dict[tuple[tuple[str, ...], str | None], tuple[float, bytes]] = {}


_FURTHER = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)")


def addresses_of(where: str) -> list[str]:
    """Of one index, as they stand after `index:` and before `#`. A comma that no address follows belongs to a name."""
    return [address.strip() for address in _FURTHER.split(where) if address.strip()]


@final
class IndexSource:
    kind: ClassVar[str] = "folder"  # where the images lie makes no difference to what they are

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        """`rest` is empty for a folder that is only on its mirrors: then the index is asked of them."""
        refuse_args(spec, "index")
        self._size, self._grey = spec.size, spec.grey
        where, _, pin = rest.partition("#")
        addresses = addresses_of(where)
        self._pin = None
        if pin:
            match = _PIN.match(pin)
            if match is None:
                raise LaminarError(
                    "L109", f"source: '#{pin}' is no pin of an index", hint='write source = "index:URL#sha256=" and 64 hexadecimal digits'
                )
            self._pin = match[1]
        local = [address for address in addresses if "://" not in address]
        if local and len(addresses) > 1:
            raise LaminarError(
                "L109", f"source: '{local[0]}' is a file, and further addresses of an index are URLs", hint='source = "index:URL,URL"'
            )
        self._file = find(local[0], root, what="index") if local else None
        if spec.mirrors:
            self._mirrors = [mirror if "://" in mirror else str(root / mirror) for mirror in spec.mirrors]
        else:
            self._mirrors = [str(self._file.parent)] if self._file else [parted(address)[0] for address in addresses]
        self._urls = addresses or [beneath(mirror, NAME) for mirror in self._mirrors]
        name = parted(self._urls[0])[1]
        self._others = [url for mirror in self._mirrors if (url := beneath(mirror, name)) not in self._urls]

    def contents(self, memory: Memory) -> Contents:
        index = self._index()
        train = by_class(index.files, index.classes, "train" if index.own_test else None)
        sides = {"train": train}
        if index.own_test:
            sides["test"] = by_class(index.files, index.classes, "test")
        digests = {
            side: digest_of_files((file.path.removeprefix(f"{side}/") if index.own_test else file.path, file.sha256) for file in files)
            for side, files in sides.items()
        }
        content = digest.of_json(digests)
        file_lists.keep(memory, content, ((file.path, file.sha256) for files in sides.values() for file in files))
        return Contents(
            digest=content,
            classes=index.classes,
            own_test=index.own_test,
            settings=image_settings(size=self._size, grey=self._grey),
            sides=(train[0].height, train[0].width) if self._size is None else (self._size, self._size),
        )

    def open(self, how: Opening) -> Opened:
        import numpy as np

        from laminar.data.dataset import Opened, Split
        from laminar.data.formats.images import read_images

        pictures = self.pictures(how.memory, how.progress)
        paths = pictures.place.paths(pictures.files, how.progress)
        names = [pictures.place.name(file) for file in pictures.files]
        x = read_images(paths, size=self._size, grey=self._grey, room=how.room, progress=how.progress, names=names)
        place = {name: i for i, name in enumerate(pictures.classes)}
        y = np.array([place[file.label] for file in pictures.files], dtype=np.int64)
        cut = sum(file.split != "test" for file in pictures.files)
        return Opened(Split(x[:cut], y[:cut]), Split(x[cut:], y[cut:]) if pictures.own_test else None, pictures.classes)

    def pictures(self, memory: Memory | None, progress: Progress = silent) -> Pictures:  # noqa: ARG002
        index = self._index()
        sides = ["train", "test"] if index.own_test else [None]
        files = [file for side in sides for file in by_class(index.files, index.classes, side)]
        return Pictures(files, index.classes, index.own_test, OnMirrors(self._mirrors))

    def _index(self) -> Index:
        if self._file is not None:
            try:
                data = self._file.read_bytes()
            except OSError as error:
                raise LaminarError("L102", f"{self._file} cannot be read: {error.strerror}", hint="correct the path in source") from error
            if self._pin is not None and digest.of_bytes(data) != self._pin:
                raise LaminarError(
                    "L111",
                    f"{self._file} has sha256 {digest.of_bytes(data)[:12]}…, but the stack asks for {self._pin[:12]}…",
                    hint="fetch the index again, or change the pin in source",
                )
            return read_index(data, str(self._file))
        return read_index(self._fetched(), self._urls[0] if len(self._urls) == 1 else f"{NAME} of the mirrors")

    def _fetched(self) -> bytes:
        """From the mirrors; where none answers, as it was when one last did."""
        asked = (tuple(self._urls), self._pin)
        when, data = _recent.get(asked, (-FRESH, b""))
        if time.monotonic() - when < FRESH:
            return data
        from laminar.data.mirrors.fetch import fetch_index
        from laminar.data.mirrors.readers.reach import restricted

        kept = cache_folder() / "indexes" / f"{digest.of_json([self._urls, self._pin])}.json"
        if self._pin is not None and kept.is_file() and digest.of_file(kept) == self._pin:
            return kept.read_bytes()
        try:
            data = fetch_index(self._urls, sha256=self._pin)
        except LaminarError as error:
            if self._pin is None and kept.is_file() and not restricted():  # else a stranger would be given what only this user could fetch
                return kept.read_bytes()
            if error.code != "L112" or not self._others:
                raise
            data = self._of_mirrors(error)
        atomic.write_bytes(kept, data)
        _recent[asked] = (time.monotonic(), data)
        return data

    def _of_mirrors(self, silence: LaminarError) -> bytes:
        """The index of the mirrors, which are all alike, where its own addresses are silent."""
        from laminar.data.mirrors.fetch import fetch_index

        try:
            return fetch_index(self._others, sha256=self._pin)
        except LaminarError as error:
            also = error.message.partition(". ")[2]
            raise LaminarError(error.code, f"{silence.message}; {also}", hint=silence.hint) from error
