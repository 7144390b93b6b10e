"""Store: layers, their objects and their names behind one door."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, final

from laminar.core import atomic
from laminar.core.clock import SYSTEM, Clock
from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.store import locks, projects
from laminar.store.index import Signature, signature
from laminar.store.layout import Layout, open_layout
from laminar.store.manifest import BuildRecord, Manifest, TensorRef, decode_manifest, decode_record, encode
from laminar.store.names import is_digest
from laminar.store.objects import Objects
from laminar.store.raw import RawTensor
from laminar.store.refs import Refs

GC_LOCK: Final = "gc"


@final
class Store:
    """A folder of layers. Any number of processes may use it at once."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self.layout = layout
        self.root = layout.root
        self.clock = clock
        self.objects = Objects(layout, self.gc_lock, clock)
        self.refs = Refs(layout, self.lock, clock, guard=self.gc_lock, known=self.has_layer)
        self._holding = threading.local()
        self._manifests: dict[str, tuple[Signature, Manifest]] = {}

    @classmethod
    def open(cls, root: Path, *, create: bool = True, damaged: bool = False, clock: Clock = SYSTEM) -> Store:
        """L306 when the folder is not a store, or one of a newer Laminar. `damaged`: also one whose file `format` is lost, for repair."""
        return cls(open_layout(Path(root).absolute(), create=create, damaged=damaged), clock)

    @classmethod
    def look(cls, root: Path, *, clock: Clock = SYSTEM) -> Store:
        """To look at, whether it was made yet or not: one that was not is empty, and is not made by looking."""
        return cls(open_layout(Path(root).absolute(), create=False, look=True), clock)

    @property
    def read_only(self) -> bool:
        """This process may not write it: what is there can be used, without a lease."""
        return not locks.may_write(self.layout)

    # layers

    def layers(self) -> list[str]:
        """Every id with a manifest, sorted."""
        return sorted(path.stem for path in self.layout.layers.glob("*.json") if is_digest(path.stem))

    def has_layer(self, id: str) -> bool:
        return is_digest(id) and self.layout.layer(id).exists()

    def layer(self, id: str) -> Manifest:
        """L305 when there is none, L303 when it is damaged."""
        path = self.layout.layer(id)
        try:
            seen = signature(os.stat(path))
            kept = self._manifests.get(id)
            if kept is not None and kept[0] == seen:
                return kept[1]
            manifest = decode_manifest(atomic.read_bytes(path), path)
        except FileNotFoundError:
            raise LaminarError(
                "L305", f"there is no layer {short(id)} in {self.root}", hint="laminar log, or laminar pull REMOTE REF"
            ) from None
        if manifest.id != id:
            raise LaminarError("L303", f"{path} is corrupt: it holds layer {short(manifest.id)}", hint="laminar verify --repair")
        self._manifests[id] = (seen, manifest)
        return manifest

    def complete(self, id: str) -> bool:
        """The manifest and all its objects are there and right: what a cache hit needs. Costs one stat an object."""
        try:
            manifest = self.layer(id)
        except LaminarError as error:
            if error.code in ("L303", "L305"):
                return False
            raise
        return all(map(self.objects.has, dict.fromkeys(manifest.objects())))

    def put_tensors(self, tensors: Mapping[str, RawTensor], parent: Manifest | None) -> dict[str, TensorRef]:
        """Keep tensors; writes only what neither the store nor the parent has. Gc spares the new objects until they are committed."""
        from laminar.store import tensors as many  # numpy and threads: not needed to look at refs

        return many.put(self.objects, tensors, parent)

    def get_tensors(self, manifest: Manifest, names: Iterable[str] | None = None) -> dict[str, RawTensor]:
        """Tensors of a layer (and aliases, under their names) as private memory maps: free to change, the files never do."""
        from laminar.store import tensors as many

        return many.get(self.objects, manifest, names)

    def commit(self, manifest: Manifest, record: BuildRecord, ref: str | None, why: str) -> None:
        """Make a layer whose objects are there already visible: manifest, then build record, then ref.

        A layer of the same id stays as it is: it is the same layer. A record of the same key is replaced: look at `record(key)` first if
        another id would be worth a word. L304 when an object is missing.
        """
        if manifest.own_id() != manifest.id or record.id != manifest.id:
            raise ValueError(
                f"manifest {short(manifest.id)}, its content {short(manifest.own_id())} and record {short(record.id)} should agree"
            )
        with self.gc_lock():
            for digest in dict.fromkeys(manifest.objects()):
                self.objects.prove(digest)
            if not self.complete(manifest.id):
                self.write_layer(manifest)
            self.write_record(record)
            if ref is not None:
                self.refs.move(ref, manifest.id, why)

    def write_layer(self, manifest: Manifest) -> None:
        path, data = self.layout.layer(manifest.id), encode(manifest)
        decode_manifest(data, path)  # what nobody could read again is not written
        atomic.write_bytes(path, data, tmp=self.layout.tmp)

    # builds

    def record(self, key: str) -> BuildRecord | None:
        """The build with this key; None when there was none; L303 when the record is damaged."""
        path = self.layout.key(key)
        try:
            record = decode_record(atomic.read_bytes(path), path)
        except FileNotFoundError:
            return None
        if record.key != key:
            raise LaminarError("L303", f"{path} is corrupt: it holds key {short(record.key)}", hint="laminar verify --repair")
        return record

    def records(self) -> Iterator[BuildRecord]:
        """Every build, newest first. A damaged record is left out: `verify` reports it."""
        found = []
        for path in self.layout.keys.glob("*.json"):
            try:
                found.append(decode_record(atomic.read_bytes(path), path))
            except FileNotFoundError:
                continue
            except LaminarError as error:
                if error.code != "L303":
                    raise
        yield from sorted(found, key=lambda record: (-record.created, record.key))

    def write_record(self, record: BuildRecord) -> None:
        atomic.write_bytes(self.layout.key(record.key), encode(record), tmp=self.layout.tmp)

    # living together

    def lock(self, name: str, *, timeout: float | None = None, on_wait: Callable[[], None] | None = None) -> AbstractContextManager[None]:
        """Only one process (or thread) at a time; freed by death. Not reentrant."""
        return locks.holding(locks.lock_path(self.layout, name), timeout=timeout, on_wait=on_wait)

    @contextmanager
    def gc_lock(self) -> Iterator[None]:
        """Held by gc while it deletes, and for a moment by whoever makes something live. A thread that has it may take it again."""
        if getattr(self._holding, "gc", False):
            yield
            return
        with self.lock(GC_LOCK):
            self._holding.gc = True
            try:
                yield
            finally:
                self._holding.gc = False

    def lease(self, *, layers: Iterable[str] = (), runs: Iterable[str] = (), features: Iterable[str] = ()) -> locks.Lease:
        """Keep these from gc until the lease is closed or this process dies."""
        needs = locks.Needs(layers=tuple(layers), runs=tuple(runs), features=tuple(features))
        return locks.Lease(self.layout, self.gc_lock, needs)

    def register_project(self, path: Path, refs: Mapping[str, str]) -> None:
        """Note the layers a project uses ({ref: id}); gc keeps them while its folder has a laminar.toml.

        Nothing is written when it is noted already, nor in a store that this process may not write.
        """
        if not projects.is_registered(self.layout, path, refs) and not self.read_only:
            with self.gc_lock():
                projects.register(self.layout, path, refs, self.clock.now())

    def projects(self) -> list[projects.Project]:
        return projects.registered(self.layout)

    # folders that others fill

    def run_folder(self, run: str) -> Path:
        return self._folder(self.layout.run(run))

    def features_folder(self, fkey: str) -> Path:
        """Where kept features with this key lie. Ask for it on every use: that is how gc knows what was used lately."""
        folder = self._folder(self.layout.feature(fkey))
        with suppress(OSError):
            os.utime(folder)
        return folder

    def _folder(self, path: Path) -> Path:
        with atomic.explaining_os_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        return path
