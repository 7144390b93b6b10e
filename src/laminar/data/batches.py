"""Batches: samples shuffled once per epoch and gathered, scaled and augmented by a background thread, a block at a time.

    with Batches(split.x, split.y, batch=64, seed=0) as batches:
        for epoch in range(epochs):
            for block in batches.epoch(epoch):
                x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)      # once a block, no copy
                for s in block.slices:
                    step(x[s], y[s])

A block is many batches, so what a batch costs is slicing. A block's inputs are valid until the next one is asked for: their memory is
used again. Its labels stay.
What is in batch k of epoch e depends on (seed, e, k) alone; so a run that was broken off goes on at any batch.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import final

import numpy as np

from laminar.core.seeds import derive
from laminar.data.augment import Augment
from laminar.data.dataset import Array
from laminar.data.gather import NEAR, Block, Buffer, Filling, Gather, RowsOf, Scratch
from laminar.data.order import Shuffled
from laminar.data.spec import AugmentSpec

BLOCK = 16 << 20  # bytes
AT_ONCE = 4 << 20  # bytes whose samples are looked up together when they are asked for; of a mapped file they are gathered together, too


@final
class Batches:
    def __init__(
        self,
        x: Array | Sequence[Array],
        y: Array,
        *,
        batch: int,
        seed: int,
        augment: AugmentSpec | None = None,
        shuffle: bool = True,
        epochs: int | None = None,
        block_bytes: int | None = None,
        row_bytes: int | None = None,
        rows: RowsOf | None = None,
        background: bool = True,
    ) -> None:
        """`epochs`: nothing is prepared after so many. `block_bytes` never changes a batch, only memory and pace.

        `row_bytes`: of a sample as it is stored, where `x` is something computed from it; large data is shuffled in another way, and
        what is computed must come in the order of the samples. `rows`: of every batch only these, for one of several processes that
        share the work; there may be none. Without `background` batches are gathered when they are asked for, a few at a
        time: where every core has a process of its own, a thread would only hold up the others.
        """
        inputs = [x] if isinstance(x, np.ndarray) else list(x)
        if batch < 1 or not len(y) or any(len(a) != len(y) for a in inputs):
            raise ValueError(f"batch {batch}, {len(y)} labels, inputs of {[len(a) for a in inputs]} samples")
        self.batch = batch
        self.samples = len(y)
        self.count = -(-len(y) // batch)  # batches in an epoch
        change = None
        if augment is not None and not augment.changes_nothing:
            change = Augment(augment, derive(seed, "augment"), inputs[0].shape[1:], clip=inputs[0].dtype == np.uint8)
        stored = sum(a[:1].nbytes for a in inputs) if row_bytes is None else row_bytes
        self._gather = Gather(inputs, y, batch, seed, stored if shuffle else None, change)
        self._block_bytes = (BLOCK if background else AT_ONCE) if block_bytes is None else block_bytes
        self._background = background
        self._epochs = epochs
        self._rows = rows
        self._order: tuple[int, Shuffled | None] | None = None
        self._buffer: tuple[Buffer, Scratch] | None = None
        self._next = (-1, 0)
        self._closed = False
        self._worker: _Worker | None = None
        self._finalizer: weakref.finalize[[], Batches] | None = None

    def __len__(self) -> int:
        return self.count

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Block]:
        """The blocks of an epoch from batch `start_batch` on. One iteration at a time."""
        if self._closed:
            raise ValueError("these batches are closed")
        if epoch < 0 or not 0 <= start_batch <= self.count:
            raise ValueError(f"epoch {epoch}, batch {start_batch} of {self.count}")
        if not self._background:
            yield from self._in_the_foreground(epoch, start_batch, self.count, self._rows)
            return
        first = start_batch
        while first < self.count:
            if self._worker is None or self._next != (epoch, first):
                self._start(epoch, first)
            assert self._worker is not None
            worker = self._worker
            try:
                block, buffer = worker.receive()
            except BaseException:
                self._stop()  # a block may be half done: asked again, it is begun again
                raise
            first += len(block.slices)
            self._next = (epoch, first) if first < self.count else (epoch + 1, 0)
            try:
                yield block
            finally:
                worker.free.put(buffer)

    def some(self, epoch: int, first: int, last: int, rows: RowsOf | None = None) -> Iterator[Block]:
        """Batches `first` to `last` of an epoch, or these rows of each: for a process that is told from time to time what to do."""
        if epoch < 0 or not 0 <= first <= last <= self.count:
            raise ValueError(f"epoch {epoch}, batches {first} to {last} of {self.count}")
        yield from self._in_the_foreground(epoch, first, last, rows)

    def _in_the_foreground(self, epoch: int, first: int, end: int, rows: RowsOf | None) -> Iterator[Block]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._gather.order(epoch)
        gather, (per_block, room) = self._gather, self._room(rows, self._block_bytes)
        near, near_room = (0, room) if any(gather.mapped) else self._room(rows, min(NEAR, self._block_bytes))
        if self._buffer is None or len(self._buffer[0].x[0]) < near_room:
            self._buffer = gather.buffer(near_room), gather.scratch()
        order, (buffer, scratch) = self._order[1], self._buffer
        while first < end:
            last = min(first + per_block, end)
            wanted = gather.wanted(order, epoch, first, last, rows)
            if near:
                yield from gather.in_turn(buffer, wanted, near, scratch)
            else:
                filling = gather.begin(buffer, wanted)
                filling.work(scratch)
                yield filling.block()
            first = last

    def _room(self, rows: RowsOf | None, size: int) -> tuple[int, int]:
        """Batches of about so many bytes, and samples in them at most."""
        most = self._gather.most(rows)
        batches = min(self.count, max(1, size // max(1, self._gather.row_bytes * most)))
        return batches, min(batches * most, self.samples)

    def rest(self) -> None:
        """End the thread until an epoch is asked for, if ever."""
        self._stop()

    def close(self) -> None:
        """End the thread and free the buffers. Also done when the batches are forgotten, and at the end of the process."""
        self._closed = True
        self._stop()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self, epoch: int, first: int) -> None:
        self._stop()
        per_block, room = self._room(self._rows, self._block_bytes)
        buffers = [self._gather.buffer(room) for _ in range(2 if per_block == self.count else 3)]
        self._worker = _Worker(self._gather, self._rows, per_block, self.count, buffers)
        self._finalizer = weakref.finalize(self, self._worker.stop)
        self._worker.start(epoch, first, self._epochs)
        self._next = (epoch, first)

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._worker = self._finalizer = None


@final
class _Worker:
    """The thread, with a queue of free buffers and one of blocks that are begun. It holds no reference to the Batches it works for."""

    def __init__(self, gather: Gather, rows: RowsOf | None, per_block: int, count: int, buffers: Sequence[Buffer]) -> None:
        self.free: queue.SimpleQueue[Buffer | None] = queue.SimpleQueue()
        self._begun: queue.SimpleQueue[Filling | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._gather, self._rows, self._per_block, self._count = gather, rows, per_block, count
        for buffer in buffers:
            self.free.put(buffer)
        self._scratch = gather.scratch()  # of whoever waits
        self._thread: threading.Thread | None = None

    def start(self, epoch: int, first: int, epochs: int | None) -> None:
        self._thread = threading.Thread(target=self._work, args=(epoch, first, epochs), name="laminar-batches", daemon=True)
        self._thread.start()

    def receive(self) -> tuple[Block, Buffer]:
        """The next block. What is missing in it is shared with the thread rather than waited for."""
        got = self._begun.get()
        if isinstance(got, BaseException):
            raise got
        got.work(self._scratch)
        return got.block(), got.buffer

    def stop(self) -> None:
        self._stop.set()
        self.free.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self, epoch: int, first: int, epochs: int | None) -> None:
        scratch = self._gather.scratch()
        try:
            while epochs is None or epoch < max(epochs, 1):
                order = self._gather.order(epoch)
                while first < self._count:
                    last = min(first + self._per_block, self._count)
                    buffer = self.free.get()
                    if buffer is None or self._stop.is_set():
                        return
                    filling = self._gather.begin(buffer, self._gather.wanted(order, epoch, first, last, self._rows))
                    self._begun.put(filling)
                    filling.work(scratch, self._stop)
                    first = last
                epoch, first = epoch + 1, 0
            self._begun.put(ValueError(f"batches were made for {epochs} epochs, and epoch {epoch} was asked for"))
        except BaseException as error:  # the edge of a thread: whoever waits for a block must hear of it
            self._begun.put(error)
