"""The reader: fragments by number, from images that are loaded when they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import final

import numpy as np
from numpy.typing import NDArray

from laminar.data.fragments.cut import Pixels, Prepared, cut, prepare
from laminar.data.fragments.kept import Kept
from laminar.data.fragments.table import FragmentTable, Located
from laminar.data.sources.protocol import Progress, silent

BUDGET = 256 << 20


@final
class FragmentReader:
    """Memory: `budget` bytes of decoded images, and beside it one image a thread."""

    def __init__(
        self,
        load: Callable[[int], Pixels],
        table: FragmentTable,
        channels: int,
        *,
        budget: int = BUDGET,
        threads: int | None = None,
    ) -> None:
        """`load` gives image number i as (C, H, W) bytes of the size that the table knows; it is called from several threads."""
        self.table = table
        self.shape = (channels, table.spec.size, table.spec.size)  # of a fragment
        self._load = load
        self._kept: Kept[int, Prepared] = Kept(budget)
        self._threads = threads or min(4, os.cpu_count() or 1)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Pixels:
        one: Pixels = self.read(np.array([index if index >= 0 else index + len(self)]))[0]
        return one

    def read(self, index: NDArray[np.integer], out: Pixels | None = None, progress: Progress | None = None) -> Pixels:
        """(n, C, size, size) in the order asked for, each image loaded once. What `load` raises is passed on.

        A thread loads an image and cuts it, so images are loaded while others are cut.
        """
        if out is None:
            out = np.empty((len(index), *self.shape), dtype=np.uint8)
        elif out.shape != (len(index), *self.shape) or out.dtype != np.uint8:
            raise ValueError(f"out is {out.dtype} of shape {out.shape}, expected uint8 of {(len(index), *self.shape)}")
        at = self.table.locate(index)
        order = np.argsort(at.image, kind="stable")
        images, starts = np.unique(at.image[order], return_index=True)
        groups = list(zip(images.tolist(), np.split(order, starts[1:]), strict=True)) if len(images) else []
        groups.sort(key=lambda group: group[0] not in self._kept)  # before loading others drives them out
        tell, done = progress or silent, 0
        if len(groups) == 1 or self._threads == 1:
            for image, rows in groups:
                self._cut(image, rows, at, out)
                done += len(rows)
                tell("cutting fragments", done, len(index))
            return out
        pool = ThreadPoolExecutor(min(self._threads, max(1, len(groups))), thread_name_prefix="laminar-fragments")
        try:
            tasks = [pool.submit(self._cut, image, rows, at, out) for image, rows in groups]
            for task, (_, rows) in zip(tasks, groups, strict=True):
                task.result()
                done += len(rows)
                tell("cutting fragments", done, len(index))
        finally:
            pool.shutdown(cancel_futures=True)
        return out

    def _cut(self, image: int, rows: NDArray[np.intp], at: Located, out: Pixels) -> None:
        cut(self._prepared(image), at.x[rows], at.y[rows], at.angle[rows], out, rows)

    def _prepared(self, image: int) -> Prepared:
        prepared = self._kept.get(image)
        if prepared is None:
            pixels = self._load(image)
            width, height = self.table.size(image)
            if pixels.shape != (self.shape[0], height, width):
                raise ValueError(f"image {image} has shape {pixels.shape}, expected {(self.shape[0], height, width)}")
            prepared = prepare(pixels, self.table.spec)
            self._kept.put(image, prepared)
        return prepared
