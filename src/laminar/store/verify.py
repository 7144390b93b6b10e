"""Verify: everything in a store that is not what it was when it was written.

Deep (the default) hashes every byte that has a digest; otherwise only files whose stat signature changed are hashed. What a killed process
left in tmp is not damage: gc takes it. Not known, and so not checked: the files of a run that is not finished but for its checkpoints, what
lies in tmp and lost, lock files, .gitignore; and whole records that somebody deleted and nothing else names (docs: ref-store.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.core.permission import refusal
from laminar.store import records, reflog
from laminar.store.findings import Finding, finding, read_or_nothing
from laminar.store.index import signature
from laminar.store.layout import TAGS
from laminar.store.manifest import Manifest, TensorRef, decode_manifest, decode_record
from laminar.store.names import is_digest
from laminar.store.refs import log_of
from laminar.store.runs import finished
from laminar.store.store import Store
from laminar.store.verify_kept import kept_findings

__all__ = ["Finding", "verify"]

Progress = Callable[[int, int], None]


def verify(store: Store, *, deep: bool = True, progress: Progress | None = None) -> list[Finding]:
    """Everything that is wrong, in the order in which it should be mended. `progress(done, all)` counts bytes of objects."""
    manifests, findings = _layers(store)
    users: dict[str, list[str]] = {}
    here = {id: manifest for id, manifest in manifests.items() if id not in _only_known(store, manifests)}
    for manifest in here.values():
        for name in dict.fromkeys(manifest.objects()):
            users.setdefault(name, []).append(manifest.id)
    objects = list(_objects(store, users, deep=deep, progress=progress))
    bad = {one.name for one in objects}
    findings[:0] = objects
    findings += _tensors(store, here, bad, deep=deep)
    findings += _keys(store, manifests)
    findings += _missing_keys(store, manifests)
    findings += _refs(store, manifests)
    findings += kept_findings(store, deep=deep)
    return findings


def _only_known(store: Store, manifests: dict[str, Manifest]) -> set[str]:
    """Ancestors of pulled layers: their manifests came along, their objects did not, and no name here points at them."""
    named = {record.id for record in store.records()}
    for path in store.refs.files():
        named |= {entry.id for entry in reflog.parse(read_or_nothing(log_of(path))).entries}
        with contextlib.suppress(LaminarError):  # a damaged ref is a finding of its own
            named.add((records.read(path) or {}).get("id", ""))
    parents = {manifest.parent for manifest in manifests.values()}
    return {
        id
        for id, manifest in manifests.items()
        if id in parents and id not in named and not all(store.objects.path(name).exists() for name in manifest.objects())
    }


def _layers(store: Store) -> tuple[dict[str, Manifest], list[Finding]]:
    good: dict[str, Manifest] = {}
    findings: list[Finding] = []
    for path in sorted(store.layout.layers.glob("*.json")):
        id = path.stem
        try:
            manifest = decode_manifest(atomic.read_bytes(path), path)
        except FileNotFoundError:
            continue
        except LaminarError as error:
            if error.code != "L303":
                raise
            findings.append(finding(path, "layer", "corrupt", error.message, name=id, layers=(id,)))
            continue
        if not (manifest.id == id == manifest.own_id()):
            findings.append(finding(path, "layer", "corrupt", "its content has another id than its name", name=id, layers=(id,)))
        else:
            good[id] = manifest
    return good, findings


def _objects(store: Store, users: dict[str, list[str]], *, deep: bool, progress: Progress | None) -> Iterator[Finding]:
    names = list(store.objects.names())
    for name in sorted(set(users) - set(names)):
        yield finding(store.objects.path(name), "object", "missing", "an object is missing", name=name, layers=tuple(users[name]))
    sizes = [_size(store.layout.object_file(name)) for name in names]
    done, total = 0, sum(sizes)

    unreadable: set[str] = set()

    def check(name: str) -> str | None:
        path = store.layout.object_file(name)
        if not is_digest(name):
            return "its name is not a sha256"
        try:
            seen = signature(os.stat(path))
            if not deep and store.objects.index.trusts(name, seen):
                return None
            found = digest.of_file(path)
        except FileNotFoundError:  # gc was here
            return None
        except PermissionError as error:
            unreadable.add(name)
            told = refusal(error, path)
            return f"{told.message}; {told.hint}"
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
        if found != name:
            return f"its sha256 is {digest.short(found)}…"
        if not store.objects.index.trusts(name, seen):
            store.objects.index.add([(name, seen)])
        return None

    with ThreadPoolExecutor(os.cpu_count() or 1, "verify") as pool:
        for name, size, problem in zip(names, sizes, pool.map(check, names), strict=True):
            done += size
            if progress is not None:
                progress(done, total)
            if problem is not None:
                stray = not is_digest(name)
                yield finding(
                    store.layout.object_file(name),
                    "object",
                    "stray" if stray else "unreadable" if name in unreadable else "corrupt",
                    problem,
                    name=name,
                    layers=tuple(users.get(name, ())),
                )


def _tensors(store: Store, manifests: dict[str, Manifest], bad: set[str], *, deep: bool) -> Iterator[Finding]:
    """The objects are right; but does what they make up have the digest that the layer gives?"""
    from laminar.store import tensors
    from laminar.store.raw import digest as tensor_digest

    proved: set[TensorRef] = set()
    for manifest in manifests.values():
        for name, ref in manifest.tensors.items():
            if ref in proved or not bad.isdisjoint(ref.objects()):
                continue
            try:
                tensor = tensors.load(store.objects, ref)
                if deep and ref.delta is not None and tensor_digest(tensor) != ref.digest:
                    raise LaminarError("L303", "its delta does not lead to its digest")
                proved.add(ref)
            except LaminarError as error:
                if error.code not in ("L303", "L304"):
                    raise
                path = store.layout.layer(manifest.id)
                detail = f"tensor {name}: {error.message}"
                yield finding(path, "layer", "corrupt", detail, name=manifest.id, layers=(manifest.id,))


def _keys(store: Store, manifests: dict[str, Manifest]) -> Iterator[Finding]:
    for path in sorted(store.layout.keys.glob("*.json")):
        try:
            record = decode_record(atomic.read_bytes(path), path)
        except FileNotFoundError:
            continue
        except LaminarError as error:
            if error.code != "L303":
                raise
            layers = tuple(id for id, manifest in manifests.items() if manifest.key == path.stem)
            yield finding(path, "key", "corrupt", error.message, name=path.stem, layers=layers)
            continue
        if record.key != path.stem:
            yield finding(path, "key", "corrupt", f"it holds the key {digest.short(record.key)}", name=path.stem, layers=(record.id,))
        elif not store.has_layer(record.id):
            yield finding(path, "key", "dangling", f"there is no layer {digest.short(record.id)}", name=path.stem, layers=(record.id,))


def _missing_keys(store: Store, manifests: dict[str, Manifest]) -> Iterator[Finding]:
    """The build record of every layer that was built here, as refs and runs tell. A layer that was pulled may well have none."""
    built = {entry.id for name in store.refs.names() for entry in store.refs.log(name) if entry.op == "build"}
    expected = {manifests[id].key: id for id in sorted(built) if id in manifests}
    expected |= {content["key"]: content["id"] for content in finished(store.layout) if content["id"] in manifests}
    for key, id in sorted(expected.items()):
        if not store.layout.key(key).exists():
            made = f"{manifests[id].stack}/{manifests[id].name}"
            yield finding(store.layout.key(key), "key", "missing", f"the record of the build of {made} is gone", name=key, layers=(id,))


def _refs(store: Store, manifests: dict[str, Manifest]) -> Iterator[Finding]:
    for path in store.refs.files():
        name = store.refs.name_of(path)
        log = log_of(path)
        read = reflog.parse(read_or_nothing(log))
        state = reflog.replay(read.entries)
        if read.bad:
            detail = f"line {', '.join(map(str, read.bad))} is damaged"
            yield finding(log, "log", "corrupt", detail, name=name)
        try:
            content = records.read(path)
        except LaminarError as error:
            yield finding(path, "ref", "corrupt", error.message, name=name)
            content = None
        if content is not None:
            if content.get("log") == read.whole and not read.bad and (content.get("id") != state.id or content.get("name") != name):
                yield finding(path, "ref", "corrupt", "it does not say what its log says", name=name)
            elif content.get("log", 0) > read.whole:
                yield finding(log, "log", "corrupt", f"its end is missing: {read.whole} of {content['log']} bytes are there", name=name)
            id = content.get("id") if content.get("log") == read.whole else state.id
            if id is not None and id not in manifests and not store.has_layer(id):
                what = "tag" if path.parent.name == TAGS else "ref"
                yield finding(
                    path, "ref", "dangling", f"{what} {name} points at {digest.short(id)}, which is not here", name=name, layers=(id,)
                )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
