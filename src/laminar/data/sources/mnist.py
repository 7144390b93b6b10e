"""mnist and fashion-mnist: from $LAMINAR_DATA, or from the cache, or downloaded into it.

MNIST: Y. LeCun, C. Cortes, C. Burges. Fashion-MNIST: H. Xiao, K. Rasul, R. Vollgraf, arXiv 1708.07747 (MIT licence).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, final

from laminar.core.errors import LaminarError
from laminar.data.download import fetch
from laminar.data.sources.idx import STANDARD, idx_contents, open_idx, standard_files
from laminar.data.sources.places import cache_folder
from laminar.data.sources.protocol import Contents, Opening, Progress, silent
from laminar.data.sources.settings import refuse_args, refuse_image_settings, refuse_rest
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

DIGITS = tuple("0123456789")
GARMENTS = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
HOMES = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
}
# Of the unzipped content: the same images are about in differently zipped files.
SHA256 = {
    "mnist": {
        "train-images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion-mnist": {
        "train-images": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
}


@final
class Mnist:
    def __init__(self, kind: str, classes: tuple[str, ...], spec: DataSpec, rest: str) -> None:
        refuse_rest(rest, kind)
        refuse_args(spec, kind)
        refuse_image_settings(spec, kind)
        self.kind = kind
        self._classes, self._memory = classes, spec.memory

    def contents(self, memory: Memory) -> Contents:
        return idx_contents(self._files(silent), memory, self._classes, budget=self._memory)

    def open(self, how: Opening) -> Opened:
        return open_idx(self._files(how.progress), how.room, self._classes)[0]

    def _files(self, progress: Progress) -> dict[str, Path]:
        """The first place that has the four files; the cache is filled if none has."""
        places = [Path(shared).absolute() / self.kind] if (shared := os.environ.get("LAMINAR_DATA")) else []
        cache = cache_folder() / self.kind
        for place in (*places, cache):
            if place.is_dir():
                try:
                    files = standard_files(place)
                except LaminarError:
                    if place != cache:  # half a data set that someone put there: say which file is missing
                        raise
                    continue
                if len(files) == len(STANDARD) or place != cache:
                    return files
        for role, name in STANDARD.items():
            urls = [f"{home}{name}.gz" for home in HOMES[self.kind]]
            fetch(urls, cache / f"{name}.gz", SHA256[self.kind][role], progress, looked_in=[*places, cache])
        return standard_files(cache)


def mnist(spec: DataSpec, rest: str, root: Path) -> Mnist:  # noqa: ARG001 - not a file of the project
    return Mnist("mnist", DIGITS, spec, rest)


def fashion_mnist(spec: DataSpec, rest: str, root: Path) -> Mnist:  # noqa: ARG001
    return Mnist("fashion-mnist", GARMENTS, spec, rest)
