"""Tensors in and out of the store: many at a time, hashed and written in parallel, mapped without a copy when read.

A tensor that the parent has is not written; one that differs from the parent's in few elements becomes a delta; the rest is written
whole. Hashing and writing let go of the interpreter lock, so a few threads keep the cores and the disk busy at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from laminar.core.errors import LaminarError
from laminar.store import delta as deltas
from laminar.store.manifest import Delta, Manifest, TensorRef
from laminar.store.objects import Objects, Staged, hash_all
from laminar.store.raw import RawTensor, header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORKERS: Final = min(16, (os.cpu_count() or 1) + 1)
"""Threads that hash and write: one a core, and one for the moments in which another waits for the file system."""
WRITERS: Final = 8
"""Threads that wait for the disk."""
BIG: Final = 4 << 20
"""From this size on, one tensor is hashed and written at the same time."""


def put(objects: Objects, tensors: Mapping[str, RawTensor], parent: Manifest | None) -> dict[str, TensorRef]:
    """Keep all tensors; what is new is on disk, synced, when this returns."""
    order = sorted(tensors, key=lambda name: -tensors[name].data.nbytes)  # big ones first: the pool ends evenly
    with ThreadPoolExecutor(max(1, min(WORKERS, len(order))), "store") as pool, ThreadPoolExecutor(WRITERS, "store-write") as writers:
        one = _Putter(objects, parent, writers)
        try:
            tasks = {name: pool.submit(one.put, name, tensors[name]) for name in order}
            done, waiting = wait(tasks.values(), return_when=FIRST_EXCEPTION)
            for task in waiting:
                task.cancel()
            for task in done:
                task.result()  # raises what went wrong
            objects.settle(one.staged, writers.map)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            for staged in one.staged:
                staged.temp.unlink(missing_ok=True)
            raise
    return {name: tasks[name].result() for name in tensors}


def get(objects: Objects, manifest: Manifest, names: Iterable[str] | None = None) -> dict[str, RawTensor]:
    """Tensors of a layer as private memory: the caller may train in it, no file changes. Aliases are given under their own names too,
    sharing the memory of the tensor they are tied to."""
    wanted = list(manifest.tensors) + list(manifest.aliases) if names is None else list(names)
    kept = {name: manifest.aliases.get(name, name) for name in wanted}
    for name, source in kept.items():
        if source not in manifest.tensors:
            raise LaminarError("L305", f"layer {manifest.id[:12]} has no tensor {name!r}", hint=f"laminar show {manifest.id[:12]}")
    loaded = {source: load(objects, manifest.tensors[source]) for source in set(kept.values())}
    return {name: loaded[source] for name, source in kept.items()}


def load(objects: Objects, ref: TensorRef) -> RawTensor:
    """One tensor, mapped; deltas are applied to the private pages they touch."""
    base = _whole(objects, ref, ref.digest if ref.delta is None else ref.delta.base)
    if ref.delta is not None:
        for step in ref.delta.steps:
            try:
                deltas.apply(objects.open(step), base)
            except deltas.BadDelta as error:
                raise LaminarError(
                    "L303",
                    f"object {objects.path(step)} is no delta of a {ref.dtype}{list(ref.shape)}: {error}",
                    hint="laminar verify --repair",
                ) from None
    return base


def _whole(objects: Objects, ref: TensorRef, digest: str) -> RawTensor:
    head = header(ref.dtype, ref.shape)
    memory = objects.open(digest)
    if memory[: len(head)] != head:
        raise LaminarError(
            "L303", f"object {objects.path(digest)} does not hold a {ref.dtype}{list(ref.shape)}", hint="laminar verify --repair"
        )
    try:
        return RawTensor.of(ref.dtype, ref.shape, memory[len(head) :])
    except ValueError as error:
        raise LaminarError("L303", f"object {objects.path(digest)}: {error}", hint="laminar verify --repair") from None


class _Putter:
    """One call of `put`: what the parent has, and the files that wait to become objects."""

    def __init__(self, objects: Objects, parent: Manifest | None, writers: ThreadPoolExecutor) -> None:
        self._objects = objects
        self._writers = writers
        self._parent = parent.tensors if parent is not None else {}
        self._known = {ref.digest: ref for ref in self._parent.values()}
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        self.staged: list[Staged] = []

    def put(self, name: str, tensor: RawTensor) -> TensorRef:
        before = self._parent.get(name)
        at: NDArray[np.int64] | None = None
        if before is not None and (before.dtype, before.shape) == (tensor.dtype, tensor.shape):
            at = self._changes(before, tensor)
            if at is not None and at.size == 0 and self._keep(before):
                return before
        head = header(tensor.dtype, tensor.shape)
        if at is None and tensor.data.nbytes >= BIG:
            return self._put_big(head, tensor)
        ref = TensorRef(dtype=tensor.dtype, shape=tensor.shape, digest=hash_all(head, tensor.data))
        if (found := self._there(ref)) is not None:
            return found
        if at is not None and before is not None and tensor.data.nbytes >= deltas.SMALLEST:
            smaller = self._delta(before, tensor, at)
            if smaller is not None:
                return replace(ref, delta=smaller)
        if self._take(ref.digest):
            self._objects.write_aside(self._stage(ref.digest), head, tensor.data)
        return ref

    def _put_big(self, head: bytes, tensor: RawTensor) -> TensorRef:
        """Write and sync while hashing, in the hope that it is new."""
        temp = self._objects.temporary("big")
        writing = self._writers.submit(self._objects.write_aside, temp, head, tensor.data, sync=True)
        try:
            ref = TensorRef(dtype=tensor.dtype, shape=tensor.shape, digest=hash_all(head, tensor.data))
            writing.result()
            found = self._there(ref)
            if found is None and self._take(ref.digest):
                self.staged.append(Staged(temp, ref.digest, synced=True))
                return ref
        except BaseException:
            wait([writing])
            temp.unlink(missing_ok=True)
            raise
        temp.unlink(missing_ok=True)
        return found or ref

    def _there(self, ref: TensorRef) -> TensorRef | None:
        known = self._known.get(ref.digest)
        if known is not None and self._keep(known):
            return known
        return ref if self._objects.keep(ref.digest) else None

    def _take(self, digest: str) -> bool:
        """False when another of the same tensors is being written already."""
        with self._lock:
            if digest in self._taken:
                return False
            self._taken.add(digest)
            return True

    def _stage(self, digest: str) -> Path:
        temp = self._objects.temporary(digest)
        self.staged.append(Staged(temp, digest))
        return temp

    def _keep(self, ref: TensorRef) -> bool:
        return all(self._objects.keep(digest) for digest in ref.objects())

    def _changes(self, before: TensorRef, tensor: RawTensor) -> NDArray[np.int64] | None:
        try:
            return deltas.changes(load(self._objects, before), tensor)
        except LaminarError as error:
            if error.code in ("L303", "L304"):  # the parent is damaged: this layer need not be
                return None
            raise

    def _delta(self, before: TensorRef, tensor: RawTensor, at: NDArray[np.int64]) -> Delta | None:
        chain = Delta(base=before.digest, steps=()) if before.delta is None else before.delta
        if len(chain.steps) >= deltas.DEEPEST:  # start again from the whole tensor at the bottom
            base = TensorRef(dtype=before.dtype, shape=before.shape, digest=chain.base)
            again = self._changes(base, tensor)
            if again is None:
                return None
            chain, at = Delta(base=chain.base, steps=()), again
        if not all(self._objects.keep(digest) for digest in (chain.base, *chain.steps)):
            return None
        data = deltas.encode(tensor, at)
        if len(data) > tensor.data.nbytes // deltas.SHARE:
            return None
        digest = hash_all(data)
        if not self._objects.keep(digest) and self._take(digest):
            self._objects.write_aside(self._stage(digest), data)
        return Delta(base=chain.base, steps=(*chain.steps, digest))
