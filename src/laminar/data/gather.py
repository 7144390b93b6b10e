"""Gathering: the samples of a block taken together, scaled and augmented, chunk by chunk, by one thread or by two.

A chunk needs nothing of the others. So whoever waits for a block takes some of its chunks: a trainer that is slower than its data never
does, and one that is faster waits half as long. Where the trainer's own thread gathers, it does so just before it computes: what it takes
then lies in the processor's cache.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from laminar.data.augment import Augment
from laminar.data.dataset import Array, as_float
from laminar.data.order import Shuffled
from laminar.data.room import gather, is_mapped, will_need

CHUNK = 4 << 20  # bytes of gathered rows: two threads that take turns at the interpreter should not do so too often
CHANGED_CHUNK = 1 << 20  # the same of rows that are augmented: all that this takes should stay in the processor's cache

NEAR = 512 << 10  # bytes gathered by who computes with them next: half of a core's own cache

RowsOf = Callable[[int], "slice[int, int]"]  # of a batch of so many samples: those that are taken, counted in the batch


@dataclass(frozen=True, slots=True)
class Block:
    x: list[Array]  # one array per input; bytes and halves have become float32, other types stay
    y: Array
    slices: list[slice]  # of the batches in it; the last batch of an epoch may be short
    index: NDArray[np.intp]  # places of the samples in the data set
    epoch: int
    first: int  # number of its first batch in the epoch


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory for one block; also for its source rows where they come from a mapped file and are read all at once."""

    x: list[Array]
    raw: list[Array | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Batches whose samples are known and not gathered yet. The labels are; unlike a buffer's memory, theirs is not used again."""

    y: Array
    slices: list[slice]
    index: NDArray[np.intp]
    epoch: int
    first: int


Scratch = list[Array | None]  # for each input, memory for the source rows of one chunk; a thread has its own


@final
class Gather:
    """Fills buffers. Knows the data, not the threads."""

    def __init__(self, inputs: list[Array], y: Array, batch: int, seed: int, stored: int | None, change: Augment | None) -> None:
        """`stored`: bytes of a sample, which decide how it is shuffled; None: not at all."""
        self.inputs, self.y, self.batch = inputs, y, batch
        self._seed, self._stored, self.change = seed, stored, change
        self.mapped = [is_mapped(a) for a in inputs]
        self._types = [np.dtype(np.float32) if a.dtype in (np.uint8, np.float16) else a.dtype for a in inputs]
        # What need not be scaled or moved is gathered to its place at once.
        self._straight = [a.dtype == t and not (i == 0 and change) for i, (a, t) in enumerate(zip(inputs, self._types, strict=True))]
        self.row_bytes = sum(int(np.prod(a.shape[1:])) * t.itemsize for a, t in zip(inputs, self._types, strict=True))
        self.chunk_rows = max(1, (CHANGED_CHUNK if change else CHUNK) // max(1, self.row_bytes))

    def buffer(self, rows: int) -> Buffer:
        x = [_aligned((rows, *a.shape[1:]), t) for a, t in zip(self.inputs, self._types, strict=True)]
        return Buffer(x, self._raw(rows, of_mapped=True))

    def scratch(self) -> Scratch:
        return self._raw(self.chunk_rows, of_mapped=False)

    def _raw(self, rows: int, *, of_mapped: bool) -> list[Array | None]:
        wanted = [mapped == of_mapped and not straight for mapped, straight in zip(self.mapped, self._straight, strict=True)]
        return [np.empty((rows, *a.shape[1:]), dtype=a.dtype) if want else None for a, want in zip(self.inputs, wanted, strict=True)]

    def order(self, epoch: int) -> Shuffled | None:
        return Shuffled(len(self.y), self._stored, self._seed, epoch) if self._stored is not None else None

    def most(self, taken: RowsOf | None) -> int:
        """Rows of a batch, at most. What is taken of the last one, if it is short, may be more than of a whole one."""
        if taken is None:
            return self.batch
        whole, rest = min(self.batch, len(self.y)), len(self.y) % self.batch
        return max(part.stop - part.start for part in (taken(whole), taken(rest or whole)))

    def wanted(self, order: Shuffled | None, epoch: int, first: int, last: int, taken: RowsOf | None) -> Wanted:
        """Batches first..last-1. `taken` None: every row."""
        start, end = first * self.batch, min(last * self.batch, len(self.y))
        index = np.arange(start, end) if order is None else order.part(start, end)
        counts = [min(self.batch, len(self.y) - k * self.batch) for k in range(first, last)]
        if taken is not None:
            parts = [taken(count) for count in counts]
            index = index[np.concatenate([np.arange(k * self.batch + p.start, k * self.batch + p.stop) for k, p in enumerate(parts)])]
            counts = [part.stop - part.start for part in parts]
        ends = list(itertools.accumulate(counts))
        for near, far in order.coming(end) if order is not None else ():
            for source in self.inputs:
                will_need(source, near, far)
        slices = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        return Wanted(np.take(self.y, index, axis=0, mode="clip"), slices, index, epoch, first)

    def begin(self, buffer: Buffer, wanted: Wanted) -> Filling:
        """A block in `buffer`: all that is not done chunk by chunk."""
        rows = len(wanted.index)
        for i, source in enumerate(self.inputs):
            if self.mapped[i]:
                raw = buffer.raw[i]
                gather(source, wanted.index, (buffer.x[i] if raw is None else raw)[:rows])
        block = Block([x[:rows] for x in buffer.x], wanted.y, wanted.slices, wanted.index, wanted.epoch, wanted.first)
        return Filling(self, buffer, block)

    def in_turn(self, buffer: Buffer, wanted: Wanted, batches: int, scratch: Scratch) -> Iterator[Block]:
        """Blocks of so many batches, gathered one after the other in the same memory, where nothing is read from a mapped file."""
        stream = self.change.stream(wanted.epoch) if self.change else 0
        for k in range(0, len(wanted.slices), batches):
            slices = wanted.slices[k : k + batches]
            start, stop = slices[0].start, slices[-1].stop
            x, rows = [x[: stop - start] for x in buffer.x], slice(start, stop)
            shifted = [slice(s.start - start, s.stop - start) for s in slices]
            block = Block(x, wanted.y[rows], shifted, wanted.index[rows], wanted.epoch, wanted.first + k)
            for chunk in range(0, stop - start, self.chunk_rows):
                self.chunk(block, buffer, chunk, stream, scratch)
            yield block

    def chunk(self, block: Block, buffer: Buffer, start: int, stream: int, scratch: Scratch) -> None:
        rows = slice(start, min(start + self.chunk_rows, len(block.index)))
        index = block.index[rows]
        for i, source in enumerate(self.inputs):
            out, read, own = block.x[i][rows], buffer.raw[i], scratch[i]
            raw = read[rows] if read is not None else own[: len(index)] if own is not None else out
            if not self.mapped[i]:
                gather(source, index, raw)
            if self._straight[i]:
                continue
            change = self.change if i == 0 else None
            if change and change.moves:
                raw = change.move(raw, index, stream)
            as_float(raw, out)
            if change and change.disturbs:
                change.disturb(out, index, stream)


@final
class Filling:
    """A block under way. Any number of threads may work on it; it is whole when none of its chunks is left or in work."""

    def __init__(self, gather: Gather, buffer: Buffer, block: Block) -> None:
        self.buffer, self._block, self._gather = buffer, block, gather
        self._stream = gather.change.stream(block.epoch) if gather.change else 0
        self._chunks = deque(range(0, len(block.index), gather.chunk_rows))
        self._unfinished = len(self._chunks)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        if not self._chunks:
            self._ended.set()

    def work(self, scratch: Scratch, stop: threading.Event | None = None) -> None:
        """Chunk after chunk, until all are begun; an error is raised, and also where the block is waited for."""
        try:
            while stop is None or not stop.is_set():
                try:
                    start = self._chunks.popleft()
                except IndexError:
                    return
                self._gather.chunk(self._block, self.buffer, start, self._stream, scratch)
                with self._lock:
                    self._unfinished -= 1
                    if not self._unfinished:
                        self._ended.set()
        except BaseException as error:
            self._error = error
            self._ended.set()
            raise

    def block(self) -> Block:
        """The whole block, once it is."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._block


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Empty memory that begins on a cache line, as torch's does: loads of 64 bytes would otherwise touch two lines."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)
