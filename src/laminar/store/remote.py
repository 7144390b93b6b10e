"""Sharing layers: push, fetch and pull.

A remote is laid out as a store is. Objects go first, then the manifest and the build record, refs last; what is there already is skipped,
so a broken transfer is taken up again by the same command. Whatever arrives is hashed, and is kept only if it is what was asked for.
Pulling runs no code and needs none of the author's. A remote decides what a layer holds, never where something is written: what it calls
an id, a key, a digest or a name is refused (L403) unless it is one, and a local ref moves only under the name that was asked for.

A remote ref is written `URL#name`, or `URL#name@sha256:<id>`: then the id decides and the name is for the reader.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from laminar.core import digest
from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.store.manifest import BuildRecord, Manifest, decode_foreign_manifest, decode_foreign_record, encode
from laminar.store.names import LONGEST, is_ref
from laminar.store.names import is_tag as may_be_tag
from laminar.store.remote_files import Remote
from laminar.store.remote_refs import RemoteRef, find, is_remote_ref, is_tag, parse_ref, set_ref, split_pin
from laminar.store.remotes import Remotes
from laminar.store.sent import Sent
from laminar.store.store import Store

__all__ = [
    "Fetched",
    "PushResult",
    "Remote",
    "RemoteRef",
    "fetch",
    "fetch_object",
    "is_remote_ref",
    "parse_ref",
    "pull",
    "pull_ref",
    "push",
    "remote_id",
]

Progress = Callable[[int, int], None]
T = TypeVar("T")
_CHAIN: Final = 1000


class PushResult(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    refs: tuple[str, ...]
    sent: int
    skipped: int
    bytes: int


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is what the remote calls it: `stack/layer` or a tag."""

    id: str
    name: str
    got: int
    skipped: int
    bytes: int


def pull_ref(store: Store, text: str, *, progress: Progress | None = None) -> str:
    """The id of a remote ref, fetched if it is not here; no local ref moves. A pinned layer that is here asks nobody."""
    ref = parse_ref(text)
    if ref.pin is not None and len(ref.pin) == 64 and store.complete(ref.pin):
        return ref.pin
    with Remote.at(Remotes(store).url(ref.url)) as remote:
        return fetch(store, remote, ref.name, pin=ref.pin, progress=progress).id


def remote_id(store: Store, text: str) -> str:
    """The id behind a remote ref. Nothing is fetched; a full pin asks nobody."""
    ref = parse_ref(text)
    if ref.pin is not None and len(ref.pin) == 64:
        return ref.pin
    with Remote.at(Remotes(store).url(ref.url)) as remote:
        return find(remote, ref.name, ref.pin)[0]


def push(
    store: Store, remote: Remote, id: str, ref_names: Iterable[str] = (), *, check: bool = False, progress: Progress | None = None
) -> PushResult:
    """Send a layer with all it needs; then point the remote's refs (`stack/layer`, or tags) at it.

    An object that is there with the right size is passed over if this store sent or read it itself (sent.py); any other is read back and
    hashed first, as are all in a folder, where reading is cheap. `check`: hash all, everywhere, which costs as much as a pull.
    """
    manifest = store.layer(id)
    remote.must_be_writable()
    remote.make()
    with store.lease(layers=[id]):
        needed = list(dict.fromkeys(manifest.objects()))
        there = _there(remote, needed)
        sized = [name for name in needed if there.get(name) == store.objects.size(name)]
        sure = Sent(store, remote.url)
        trusted = frozenset[str]() if check or remote.folder is not None else sure.known()
        unsure = [name for name in sized if name not in trusted]
        whole = _each(lambda name: _is_whole(store, remote, name), unsure, remote.workers)
        right = trusted.intersection(sized).union(name for name, good in zip(unsure, whole, strict=True) if good)
        todo = [name for name in needed if name not in right]
        done = _Counter(len(todo), progress)
        arrived: set[str] = set()

        def send(name: str) -> int:
            path = store.objects.path(name)
            try:
                found = digest.of_file(path)
            except FileNotFoundError:
                raise LaminarError("L304", f"object {name} is missing from {store.root}", hint="laminar verify --repair") from None
            if found != name:
                raise LaminarError("L303", f"object {path} is corrupt: it is not sent", hint="laminar verify --repair")
            remote.put(_object(name), path)
            arrived.add(name)
            done.step()
            return store.objects.size(name)

        try:
            sent = _each(send, todo, remote.workers)
        finally:  # also of a push that broke off: what was sent is not read back by the next one
            if remote.folder is None:
                sure.add(right | arrived)
        known = remote.list("layers")
        for ancestor in _ancestors(store, manifest):
            if check or f"{ancestor.id}.json" not in known:
                remote.put(f"layers/{ancestor.id}.json", encode(ancestor))
        remote.put(f"layers/{id}.json", encode(manifest))
        record = store.record(manifest.key)
        if record is not None:
            remote.put(f"keys/{record.key}.json", encode(record))
        names = tuple(dict.fromkeys(ref_names))
        for name in names:
            set_ref(store, remote, name, id)
    Remotes(store).note_use(remote.url)
    return PushResult(id=id, refs=names, sent=len(todo), skipped=len(needed) - len(todo), bytes=sum(sent))


def fetch(
    store: Store, remote: Remote, name: str, *, pin: str | None = None, progress: Progress | None = None, remember: bool = True
) -> Fetched:
    """Bring a layer here; no ref moves. L402 when the remote lacks something, L403 when something is not what was asked for.

    `remember`: the remote may be asked again, should something of it be lost; not where it will be gone.
    """
    if remote.folder is not None and not remote.folder.is_dir():
        raise LaminarError("L401", f"there is no folder {remote.folder}", hint="check the path; laminar push makes it")
    id, full = find(remote, name, pin)
    manifest = _manifest(remote, id)
    with store.lease(layers=[id]):
        needed = list(dict.fromkeys(manifest.objects()))
        todo = [object for object in needed if not store.objects.keep(object)]
        done = _Counter(len(todo), progress)

        def bring(object: str) -> int:
            size = fetch_object(store, remote, object)
            done.step()
            return size

        got = _each(bring, todo, remote.workers)
        store.objects.sync_folders(todo)
        if remote.folder is None:
            Sent(store, remote.url).add(todo)  # they came from there, and were right
        _prove_tensors(store, remote, manifest)
        record = _record(remote, manifest)
        ancestors = _remote_ancestors(store, remote, manifest)
        with store.gc_lock():  # everybody waits for this lock: nothing goes over the network under it
            for ancestor in ancestors:
                if not store.has_layer(ancestor.id):
                    store.write_layer(ancestor)
            if not store.complete(id):
                store.write_layer(manifest)
            if record is not None and not _has_record(store, record.key):
                store.write_record(record)
    if remember:
        Remotes(store).note_use(remote.url)
    return Fetched(id=id, name=full or f"{manifest.stack}/{manifest.name}", got=len(todo), skipped=len(needed) - len(todo), bytes=sum(got))


def pull(store: Store, remote: Remote, ref_text: str, *, into: str | None = None, progress: Progress | None = None) -> str:
    """Fetch, then point the local ref of the same name (or `into`) at it. `ref_text`: name, or name@sha256:<id>."""
    name, pin = split_pin(ref_text)
    for asked in (into, name):
        if asked and not (may_be_tag(asked) if is_tag(asked) else is_ref(asked)):
            raise LaminarError(
                "L008",
                f"{asked[:80]!r} is no name for a ref or a tag: expected stack/layer, or a word without ~ @ #; {LONGEST} signs at most",
                hint="laminar pull REMOTE REF --as stack/layer",
            )
    found = fetch(store, remote, name, pin=pin, progress=progress)
    # a pin says which layer; under which name is for the person who typed it to say, not for the one who made the layer
    target = into or (name if is_ref(name) else found.name)
    if is_tag(target):
        store.refs.tag(target, found.id, force=True, why=f"pull from {remote.shown}")
    else:
        store.refs.move(target, found.id, f"pull from {remote.shown}", op="pull")
    return found.id


def fetch_object(store: Store, remote: Remote, name: str) -> int:
    """One object, hashed on arrival and kept only if it is right; its size. L402 or L403."""
    with store.objects.staging(name) as (file, place):
        path = Path(file.name)
        remote.get(_object(name), path)
        found = digest.of_file(path)
        if found != name:
            Sent(store, remote.url).forget(name)
            raise LaminarError(
                "L403",
                f"object {short(name)} of {remote.shown} is damaged: what arrived has sha256 {short(found)}",
                hint=f"{remote.to_push('REF', check=True)}; then pull again",
            )
        place(name)
        return store.objects.size(name)


def _manifest(remote: Remote, id: str) -> Manifest:
    path = f"layers/{id}.json"
    data = remote.read(path)
    if data is None:
        raise LaminarError("L402", f"{remote.shown} has no layer {short(id)}", hint=remote.to_push("REF"))
    try:
        manifest = decode_foreign_manifest(data, f"{remote.shown}/{path}")
    except LaminarError as error:
        if error.code != "L303":
            raise
        raise LaminarError("L403", error.message, hint=remote.to_push("REF")) from None
    if not (manifest.id == id == manifest.own_id()):
        raise LaminarError(
            "L403",
            f"{remote.shown}/{path} holds layer {short(manifest.own_id())}, not {short(id)}",
            hint=remote.to_push("REF"),
        )
    return manifest


def _record(remote: Remote, manifest: Manifest) -> BuildRecord | None:
    """The build record, where the remote has a good one: a layer is whole without."""
    data = remote.read(f"keys/{manifest.key}.json")
    if data is None:
        return None
    try:
        record = decode_foreign_record(data, "keys")
    except LaminarError:
        return None
    return record if (record.key, record.id) == (manifest.key, manifest.id) else None


def _has_record(store: Store, key: str) -> bool:
    try:
        return store.record(key) is not None
    except LaminarError:  # damaged: the one that came is better
        return False


def _prove_tensors(store: Store, remote: Remote, manifest: Manifest) -> None:
    """Objects were hashed one by one; this proves that they make up the tensors whose digests are in the id."""
    from laminar.store import tensors
    from laminar.store.raw import digest as tensor_digest

    for name, ref in manifest.tensors.items():
        try:
            tensor = tensors.load(store.objects, ref)
            wrong = ref.delta is not None and tensor_digest(tensor) != ref.digest
        except LaminarError as error:
            if error.code != "L303":
                raise
            wrong = True
        if wrong:
            raise LaminarError(
                "L403",
                f"tensor {name} of layer {short(manifest.id)} of {remote.shown} is not what its id says",
                hint=remote.to_push("REF", check=True),
            )


def _ancestors(store: Store, manifest: Manifest) -> Iterable[Manifest]:
    seen = {manifest.id}
    while manifest.parent is not None and manifest.parent not in seen and len(seen) < _CHAIN and store.has_layer(manifest.parent):
        seen.add(manifest.parent)
        manifest = store.layer(manifest.parent)
        yield manifest


def _remote_ancestors(store: Store, remote: Remote, manifest: Manifest) -> list[Manifest]:
    """Manifests of the layers below, as far as the remote has them: for log and diff. A damaged one ends the chain."""
    found: list[Manifest] = []
    seen = {manifest.id}
    while (id := manifest.parent) is not None and id not in seen and len(seen) < _CHAIN and not store.has_layer(id):
        seen.add(id)
        try:
            manifest = _manifest(remote, id)
        except LaminarError as error:
            if error.code not in ("L402", "L403"):
                raise
            break
        found.append(manifest)
    return found


def _there(remote: Remote, names: Sequence[str]) -> dict[str, int | None]:
    """Which objects the remote has, with their sizes: one listing for each folder they would lie in."""
    folders = sorted({name[:2] for name in names})
    if not folders or "objects" not in remote.list(""):
        return {}
    listed = _each(lambda folder: remote.list(f"objects/{folder}"), folders, remote.workers)
    return {folder + rest: size for folder, files in zip(folders, listed, strict=True) for rest, size in files.items()}


def _is_whole(store: Store, remote: Remote, name: str) -> bool:
    """Is what the remote has under this name what it says?"""
    if remote.folder is not None:
        try:
            return remote.digest(_object(name)) == name
        except LaminarError:  # nobody can read it: sending says why, if it matters
            return False
    with tempfile.TemporaryDirectory(prefix="laminar-", dir=None if store.read_only else store.layout.tmp) as folder:
        temp = Path(folder) / "object"
        try:
            remote.get(_object(name), temp)
            return digest.of_file(temp) == name
        except LaminarError as error:
            if error.code != "L402":
                raise
            return False


def _object(name: str) -> str:
    return f"objects/{name[:2]}/{name[2:]}"


def _each(work: Callable[[str], T], items: Sequence[str], workers: int) -> list[T]:
    """In order; at most `workers` at once. The first failure stops the rest."""
    if workers == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items)), "transfer") as pool:
        tasks = [pool.submit(work, item) for item in items]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            raise


class _Counter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done, self._lock = total, progress, 0, threading.Lock()

    def step(self) -> None:
        with self._lock:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)
