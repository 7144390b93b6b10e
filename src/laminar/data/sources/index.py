"""index:URL or index:file: images named by an index and fetched from mirrors, each checked by its sha256.

`#sha256=…` after the address pins the index itself: whatever a mirror sends, no other index is taken.
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


@final
class IndexSource:
    kind: ClassVar[str] = "folder"  # where the images lie makes no difference to what they are

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        """`rest` is empty for a folder that is only on its mirrors: then the index is asked of them."""
        refuse_args(spec, "index")
        self._size, self._grey = spec.size, spec.grey
        self._where, _, pin = rest.partition("#")
        self._pin = None
        if pin:
            match = _PIN.match(pin)
            if match is None:
                raise LaminarError(
                    "L109", f"source: '#{pin}' is no pin of an index", hint='write source = "index:URL#sha256=" and 64 hexadecimal digits'
                )
            self._pin = match[1]
        self._file = None if not self._where or "://" in self._where else find(self._where, root, what="index")
        if spec.mirrors:
            self._mirrors = [mirror if "://" in mirror else str(root / mirror) for mirror in spec.mirrors]
        else:
            self._mirrors = [str(self._file.parent) if self._file else parted(self._where)[0]]
        self._urls = [self._where] if self._where else [beneath(mirror, NAME) for mirror in self._mirrors]

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
        except LaminarError:
            if self._pin is None and kept.is_file() and not restricted():  # else a stranger would be given what only this user could fetch
                return kept.read_bytes()
            raise
        atomic.write_bytes(kept, data)
        _recent[asked] = (time.monotonic(), data)
        return data
