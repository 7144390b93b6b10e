"""flowers: 3,670 photographs of five flowers, from $LAMINAR_DATA/flowers, or from the cache, or downloaded into it.

Class folders of JPEG files, read as `folder:` reads them, with size = 128 unless another is given.
The flower photos of the TensorFlow tutorials (The TensorFlow Team, 2019), CC-BY 2.0; LICENSE.txt beside them names the photographers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from laminar.core.errors import LaminarError
from laminar.data.download import fetch
from laminar.data.sources.folder import ImageFolder
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Contents, Opening, Progress, silent
from laminar.data.sources.settings import refuse_args, refuse_rest
from laminar.data.spec import DataSpec
from laminar.data.unpack import unpack

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.pictures import Pictures
    from laminar.data.remember import Memory

ARCHIVE = "flower_photos.tgz"
HOMES = [
    "https://storage.googleapis.com/download.tensorflow.org/example_images/",
    "http://download.tensorflow.org/example_images/",
]
SHA256 = "4c54ace7911aaffe13a365c34f650e71dd5bf1be0a58b464e5a7183e3e595d9c"  # of the archive; 228,813,984 bytes
UNPACKED = "flower_photos"
SIZE = 128


@final
class Flowers:
    kind: ClassVar[str] = "flowers"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:  # noqa: ARG002 - not a file of the project
        refuse_rest(rest, self.kind)
        refuse_args(spec, self.kind)
        if spec.mirrors:
            raise LaminarError("L109", "mirrors: flowers has its own homes", hint="remove mirrors, or use a folder or index source")
        self._spec = spec

    def contents(self, memory: Memory) -> Contents:
        return self._folder(silent).contents(memory)

    def open(self, how: Opening) -> Opened:
        return self._folder(how.progress).open(how)

    def pictures(self, memory: Memory | None, progress: Progress = silent, *, whole: bool = False) -> Pictures:
        return self._folder(progress).pictures(memory, progress, whole=whole)

    def _folder(self, progress: Progress) -> ImageFolder:
        size = SIZE if self._spec.size is None else self._spec.size
        return ImageFolder(self._place(progress), size=size, grey=self._spec.grey, skip_bad=self._spec.skip_bad)

    def _place(self, progress: Progress) -> Path:
        """The folder with the class folders; the cache is filled where there is none."""
        shared = [Path(given).absolute() / self.kind] if (given := os.environ.get("LAMINAR_DATA")) else []
        for folder in shared:
            if folder.is_dir():
                return folder / UNPACKED if (folder / UNPACKED).is_dir() else folder
        cache = cache_folder() / self.kind
        if not (cache / UNPACKED).is_dir():
            fetch([home + ARCHIVE for home in HOMES], cache / ARCHIVE, SHA256, progress, looked_in=[*shared, cache], as_sent=True)
            unpack(cache / ARCHIVE, cache / UNPACKED, progress)
            (cache / ARCHIVE).unlink(missing_ok=True)
        return cache / UNPACKED
