"""Batches: samples shuffled once per epoch and gathered, scaled and augmented by a background thread, a block at a time.

    with Batches(split.x, split.y, batch=64, seed=0) as batches:
        for epoch in range(epochs):
            for block in batches.epoch(epoch):
                x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)      # once a block, no copy
                for s in block.slices:
                    step(x[s], y[s])

A block is many batches (small data sets: the whole epoch), so what a batch costs is slicing. A block is valid until the next
one is asked for: its memory is used again.
What is in batch k of epoch e depends on (seed, e, k) alone; so a run that was broken off goes on at any batch.
"""

from __future__ import annotations

import itertools
import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.data.augment import Augment
from laminar.data.dataset import Array, as_float
from laminar.data.order import Shuffled
from laminar.data.room import gather, is_mapped, will_need
from laminar.data.spec import AugmentSpec

WHOLE_EPOCH = 64 << 20  # bytes: up to this an epoch is one block
BLOCK = 16 << 20
_CHUNK = 1 << 20  # bytes gathered at once: source rows, scaled rows and augmentation stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Block:
    x: list[Array]  # one array per input; bytes and halves have become float32, other types stay
    y: Array
    slices: list[slice]  # of the batches in it; the last batch of an epoch may be short
    index: NDArray[np.intp]  # places of the samples in the data set
    epoch: int
    first: int  # number of its first batch in the epoch


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
        part: tuple[int, int] | None = None,
        background: bool = True,
    ) -> None:
        """`epochs`: nothing is prepared after so many. `block_bytes` never changes a batch, only memory and pace.

        `row_bytes`: of a sample as it is stored, where `x` is something computed from it; large data is shuffled in another way, and
        what is computed must come in the order of the samples. `part` (i, n): of every batch only the i-th of n parts, for one of n
        processes that share the work; it may be empty. Without `background` batches are gathered when they are asked for, a few at a
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
        self._gather = _Gather(inputs, y, batch, seed, stored if shuffle else None, change, part or (0, 1))
        row, own = self._gather.row_bytes, self._gather.own_rows
        if block_bytes is None:
            whole = row * own * self.count <= WHOLE_EPOCH and not any(is_mapped(a) for a in inputs)
            block_bytes = _CHUNK if not background else WHOLE_EPOCH if whole else BLOCK
        self._background = background
        self._per_block = min(self.count, max(1, block_bytes // max(1, row * own)))  # batches
        self._epochs = epochs
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
            yield from self._in_the_foreground(epoch, start_batch)
            return
        first = start_batch
        while first < self.count:
            if self._worker is None or self._next != (epoch, first):
                self._start(epoch, first)
            assert self._worker is not None
            worker, (block, buffer) = self._worker, self._worker.receive()
            first += len(block.slices)
            self._next = (epoch, first) if first < self.count else (epoch + 1, 0)
            try:
                yield block
            finally:
                worker.free.put(buffer)

    def _in_the_foreground(self, epoch: int, first: int) -> Iterator[Block]:
        order, never = self._gather.order(epoch), threading.Event()
        buffer = self._gather.buffer(min(self._per_block * self._gather.own_rows, self.samples))
        while first < self.count:
            last = min(first + self._per_block, self.count)
            yield self._gather.fill(buffer, order, epoch, first, last, never)
            first = last

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
        buffers = 2 if self._per_block == self.count else 3
        self._worker = _Worker(self._gather, self._per_block, self.count, buffers)
        self._finalizer = weakref.finalize(self, self._worker.stop)
        self._worker.start(epoch, first, self._epochs)
        self._next = (epoch, first)

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._worker = self._finalizer = None


@dataclass
class _Buffer:
    """Memory for one block, and for the source rows of one chunk (of all, where they come from a mapped file)."""

    x: list[Array]
    y: Array
    raw: list[Array | None] = field(default_factory=list)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Empty memory that begins on a cache line, as torch's does: loads of 64 bytes would otherwise touch two lines."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


@final
class _Gather:
    """Fills buffers. Knows the data, not the thread."""

    def __init__(
        self, inputs: list[Array], y: Array, batch: int, seed: int, stored: int | None, change: Augment | None, part: tuple[int, int]
    ) -> None:
        """`stored`: bytes of a sample, which decide how it is shuffled; None: not at all."""
        self.inputs, self.y, self.batch, self._part = inputs, y, batch, part
        self.own_rows = -(-batch // part[1])  # of a batch, at most
        self._seed, self._stored, self._change = seed, stored, change
        self._mapped = [is_mapped(a) for a in inputs]
        self._types = [np.dtype(np.float32) if a.dtype in (np.uint8, np.float16) else a.dtype for a in inputs]
        sizes = [int(np.prod(a.shape[1:])) * t.itemsize for a, t in zip(inputs, self._types, strict=True)]
        self.row_bytes = sum(sizes)
        self._rows = max(1, _CHUNK // max(1, self.row_bytes))

    def buffer(self, rows: int) -> _Buffer:
        x = [_aligned((rows, *a.shape[1:]), t) for a, t in zip(self.inputs, self._types, strict=True)]
        raw = [
            np.empty((rows if self._mapped[i] else min(rows, self._rows), *a.shape[1:]), dtype=a.dtype)
            if a.dtype != t or (i == 0 and self._change)
            else None
            for i, (a, t) in enumerate(zip(self.inputs, self._types, strict=True))
        ]
        return _Buffer(x, np.empty((rows, *self.y.shape[1:]), dtype=self.y.dtype), raw)

    def _bounds(self, k: int) -> tuple[int, int]:
        """The own rows of batch k, counted in the batch."""
        rows, (i, n) = min(self.batch, len(self.y) - k * self.batch), self._part
        return rows * i // n, rows * (i + 1) // n

    def _ends(self, first: int, last: int) -> list[int]:
        """Where each batch of a block ends, counted in own rows."""
        return list(itertools.accumulate(b - a for a, b in map(self._bounds, range(first, last))))

    def _own(self, first: int, last: int) -> NDArray[np.intp]:
        """The own rows of a block, counted in all its rows."""
        starts = (((k - first) * self.batch, *self._bounds(k)) for k in range(first, last))
        return np.concatenate([np.arange(at + a, at + b) for at, a, b in starts])

    def order(self, epoch: int) -> Shuffled | None:
        return Shuffled(len(self.y), self._stored, self._seed, epoch) if self._stored is not None else None

    def fill(self, buffer: _Buffer, order: Shuffled | None, epoch: int, first: int, last: int, stop: threading.Event) -> Block:
        start, end = first * self.batch, min(last * self.batch, len(self.y))
        index = np.arange(start, end) if order is None else order.part(start, end)
        ends = self._ends(first, last)
        if self._part[1] > 1:
            index = index[self._own(first, last)]
        for near, far in order.coming(end) if order is not None else ():
            for source in self.inputs:
                will_need(source, near, far)
        rows = len(index)
        for i, source in enumerate(self.inputs):
            if self._mapped[i]:
                raw = buffer.raw[i]
                gather(source, index, (buffer.x[i] if raw is None else raw)[:rows])
        stream = self._change.stream(epoch) if self._change else 0
        for start in range(0, rows, self._rows):
            if stop.is_set():
                break
            part = index[start : start + self._rows]
            for i, source in enumerate(self.inputs):
                out, raw = buffer.x[i][start : start + len(part)], buffer.raw[i]
                some = out if raw is None else raw[start : start + len(part)] if self._mapped[i] else raw[: len(part)]
                if not self._mapped[i]:
                    gather(source, part, some)
                if raw is None:
                    continue
                if i == 0 and self._change and self._change.moves:
                    some = self._change.move(some, part, stream)
                as_float(some, out)
                if i == 0 and self._change and self._change.disturbs:
                    self._change.disturb(out, part, stream)
        np.take(self.y, index, axis=0, out=buffer.y[:rows], mode="clip")
        slices = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        return Block([x[:rows] for x in buffer.x], buffer.y[:rows], slices, index, epoch, first)


@final
class _Worker:
    """The thread, with a queue of free buffers and one of filled ones. It holds no reference to the Batches it works for."""

    def __init__(self, gather: _Gather, per_block: int, count: int, buffers: int) -> None:
        self.free: queue.SimpleQueue[_Buffer | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[tuple[Block, _Buffer] | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._gather, self._per_block, self._count = gather, per_block, count
        self._buffers = buffers
        self._thread: threading.Thread | None = None

    def start(self, epoch: int, first: int, epochs: int | None) -> None:
        for _ in range(self._buffers):
            self.free.put(self._gather.buffer(min(self._per_block * self._gather.own_rows, len(self._gather.y))))
        self._thread = threading.Thread(target=self._work, args=(epoch, first, epochs), name="laminar-batches", daemon=True)
        self._thread.start()

    def receive(self) -> tuple[Block, _Buffer]:
        got = self._ready.get()
        if isinstance(got, BaseException):
            self._ready.put(got)  # asked again, it fails again
            raise got
        return got

    def stop(self) -> None:
        self._stop.set()
        self.free.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self, epoch: int, first: int, epochs: int | None) -> None:
        try:
            while epochs is None or epoch < max(epochs, 1):
                order = self._gather.order(epoch)
                while first < self._count:
                    last = min(first + self._per_block, self._count)
                    buffer = self.free.get()
                    if buffer is None or self._stop.is_set():
                        return
                    self._ready.put((self._gather.fill(buffer, order, epoch, first, last, self._stop), buffer))
                    first = last
                epoch, first = epoch + 1, 0
            self._ready.put(ValueError(f"batches were made for {epochs} epochs, and epoch {epoch} was asked for"))
        except BaseException as error:  # the edge of a thread: whoever waits for a block must hear of it
            self._ready.put(error)
