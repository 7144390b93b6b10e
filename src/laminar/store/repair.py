"""Repair: mend what verify found, from what is here and from every remote this store knows.

Damaged files are not deleted but put aside in lost/, from where gc takes them after a month. What cannot be mended is left to be built
again: the caller is told which layers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.store import locks, records, reflog, runs
from laminar.store.drivers import masked
from laminar.store.layout import FORMAT
from laminar.store.manifest import decode_foreign_record
from laminar.store.refs import log_of
from laminar.store.remote import Remote, fetch, fetch_object
from laminar.store.remotes import Remotes
from laminar.store.store import Store
from laminar.store.verify import Finding


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """`mended`: finding and how. `left`: what could not be mended. `rebuild`: ids of layers that must be built or pulled again.
    `unreachable`: remote, without its password -> why it could not help."""

    mended: list[tuple[Finding, str]]
    left: list[Finding]
    rebuild: list[str]
    unreachable: dict[str, str]


def repair(store: Store, findings: Sequence[Finding], *, remotes: Iterable[Remote] | None = None) -> Repaired:
    """Mend each finding; call `verify` again for what is left on disk. Remotes that are given stay open."""
    unreachable: dict[str, str] = {}
    reached = list(remotes) if remotes is not None else None
    mended: list[tuple[Finding, str]] = []
    left: list[Finding] = []
    with contextlib.ExitStack() as opened:
        for finding in findings:
            if reached is None and finding.kind in ("object", "layer", "key", "ref"):
                reached = _reach(store, opened, unreachable)
            how = _mend(store, finding, reached or [])
            if how is None:
                left.append(finding)
            else:
                mended.append((finding, how))
    rebuild = list(dict.fromkeys(id for finding in left for id in finding.layers if not store.complete(id)))
    return Repaired(mended=mended, left=left, rebuild=rebuild, unreachable=unreachable)


def _reach(store: Store, opened: contextlib.ExitStack, unreachable: dict[str, str]) -> list[Remote]:
    found = []
    with contextlib.suppress(LaminarError):  # a damaged remotes.json is a finding of its own
        for url in Remotes(store).used():
            try:
                found.append(opened.enter_context(Remote.at(url)))
            except LaminarError as error:
                unreachable[masked(url)] = error.message
    return found


def _mend(store: Store, finding: Finding, remotes: list[Remote]) -> str | None:
    path = Path(finding.path)
    match finding.kind:
        case "object":
            return _object(store, finding, remotes)
        case "layer":
            return _layer(store, finding, remotes)
        case "key":
            return _key(store, finding, remotes)
        case "ref":
            return _fetch_layer(store, finding.layers[0], remotes) if finding.problem == "dangling" else _ref(store, path)
        case "log":
            return _log(store, path.with_suffix(".json"))
        case "features":
            shutil.rmtree(path, ignore_errors=True)
            return "deleted: it will be computed again"
        case "checkpoint":
            return _checkpoint(path)
        case "run":
            return _run(store, path, finding.name)
        case "fingerprint":
            path.unlink(missing_ok=True)
            return "deleted: the data is read again"
        case "rollback":
            _aside(store, path)
            return "put aside: redo moves the ref, and leaves laminar.toml as it is"
        case "project" | "remotes":
            _aside(store, path)
            return "put aside: it is written again by the next build or push"
        case "lease":
            return _lease(store, path)
        case "plan":
            path.unlink(missing_ok=True)
            return "deleted: laminar plan makes it again"
        case "sent":
            path.unlink(missing_ok=True)
            return "deleted: the next push looks at what the remote has"
        case "index":
            store.objects.index.rebuild()
            return "written anew"
        case "format":
            atomic.write_text(path, f"{FORMAT}\n", tmp=store.layout.tmp)
            return "written again"


def _object(store: Store, finding: Finding, remotes: list[Remote]) -> str | None:
    """A wrong file goes in any case, so that nobody can trust it; then the right one is sought. One that may not be read may be right."""
    if finding.problem == "unreadable":
        return _readable(store, Path(finding.path), finding.name)
    if finding.problem != "missing":
        with store.gc_lock():
            _aside(store, Path(finding.path))
    if finding.problem == "stray":
        return "put aside: it is no object"
    for remote in remotes:
        with contextlib.suppress(LaminarError):
            fetch_object(store, remote, finding.name)
            store.objects.sync_folders([finding.name])
            return f"fetched from {remote.shown}"
    return None if finding.layers else "put aside: no layer needs it"


def _layer(store: Store, finding: Finding, remotes: list[Remote]) -> str | None:
    _aside(store, Path(finding.path))
    return _fetch_layer(store, finding.name, remotes)


def _fetch_layer(store: Store, id: str, remotes: list[Remote]) -> str | None:
    for remote in remotes:
        with contextlib.suppress(LaminarError):
            fetch(store, remote, "", pin=id)
            return f"fetched from {remote.shown}"
    return None


def _key(store: Store, finding: Finding, remotes: list[Remote]) -> str | None:
    path = Path(finding.path)
    if finding.problem == "dangling":
        how = _fetch_layer(store, finding.layers[0], remotes)
        if how is None:
            path.unlink(missing_ok=True)
        return how or "forgotten: its layer is gone, the next build makes it again"
    _aside(store, path)
    kept = runs.build_record(store, finding.name)
    if kept is not None:
        store.write_record(kept)
        return f"written again from runs/{kept.run}"
    for remote in remotes:
        with contextlib.suppress(LaminarError):
            data = remote.read(f"keys/{finding.name}.json")
            if data is not None and decode_foreign_record(data, path).key == finding.name:
                atomic.write_bytes(path, data, tmp=store.layout.tmp)
                return f"fetched from {remote.shown}"
    return None


def _ref(store: Store, path: Path) -> str | None:
    """From the log."""
    log = log_of(path)
    read = reflog.parse(log.read_bytes() if log.exists() else b"")
    if not read.entries:
        _aside(store, path)
        return None
    name = store.refs.name_of(path)
    records.write(path, reflog.summary(name, reflog.replay(read.entries), read.whole), tmp=store.layout.tmp)
    return "read from its log"


def _log(store: Store, path: Path) -> str | None:
    """Keep the good lines, numbered anew; where the ref's own file tells of more, it has the last word."""
    log = log_of(path)
    read = reflog.parse(log.read_bytes() if log.exists() else b"")
    entries = [msgspec.structs.replace(entry, n=n) for n, entry in enumerate(read.entries, 1)]
    with contextlib.suppress(LaminarError, KeyError, TypeError):
        content = records.read(path) or {}
        for id in (*content["history"], content["id"]):
            if id is not None and id not in {entry.id for entry in entries}:
                entries.append(_set(entries, id, store))
        if content["id"] is not None and reflog.replay(entries).id != content["id"]:
            entries.append(_set(entries, content["id"], store))
    if not entries:
        return None
    data = b"".join(map(reflog.line, entries))
    _aside(store, log)
    atomic.write_bytes(log, data, tmp=store.layout.tmp)
    name = store.refs.name_of(path)
    records.write(path, reflog.summary(name, reflog.replay(entries), len(data)), tmp=store.layout.tmp)
    return f"{len(read.bad)} damaged line(s) left out"


def _set(entries: list[reflog.Entry], id: str, store: Store) -> reflog.Entry:
    was = entries[-1].id if entries else None
    return reflog.Entry(n=len(entries) + 1, op="set", id=id, was=was, time=store.clock.now(), why="repaired log")


def _run(store: Store, path: Path, run: str) -> str:
    """A history is nowhere else: what is damaged goes aside, and the run's record speaks of the rest only."""
    _aside(store, path)
    if path.name != runs.FINISHED:
        runs.forget_file(store.layout, run, path)
        return "put aside: the layer is whole, but this part of its history is lost"
    record = next((record for record in store.records() if record.run == run), None)
    if record is None:
        return "put aside: the run counts as unfinished"
    runs.finish(store, record)
    return "written anew from the files of the run as they are"


def _lease(store: Store, path: Path) -> str | None:
    """One of a dead process goes; a living process writes its own anew when it needs more."""
    lock = path.with_suffix(".lock")
    if lock.exists() and not locks.is_free(lock):
        return None
    with store.gc_lock():
        path.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
    return "deleted: its process has ended"


def _readable(store: Store, path: Path, name: str) -> str | None:
    try:
        path.chmod(0o444)
    except OSError:  # someone else's
        return None
    return "made readable again" if store.objects.has(name) else None


def _checkpoint(pointer: Path) -> str:
    """Leave out what is damaged; a pointer that cannot be read goes with all it may have pointed at."""
    entries: list[dict[str, Any]] = []
    rest: dict[str, Any] = {}
    with contextlib.suppress(records.BadRecord, OSError):
        rest = records.load_any(pointer.read_bytes())
        entries = [entry for entry in rest.get("checkpoints", []) if _whole(pointer.parent / entry["file"], entry["sha256"])]
    if entries:
        content = {**rest, "checkpoints": entries}
        atomic.write_bytes(pointer, digest.canonical({**content, "check": digest.of_json(content)}))
    else:
        pointer.unlink(missing_ok=True)
    named = {entry["file"] for entry in entries} | {pointer.name}
    for file in pointer.parent.glob(f"{pointer.stem}*"):
        if file.name not in named:
            file.unlink(missing_ok=True)
    return "the damaged checkpoint was deleted: training goes on from the one before it, or from its start"


def _whole(path: Path, wanted: str) -> bool:
    try:
        return digest.of_file(path) == wanted
    except OSError:
        return False


def _aside(store: Store, path: Path) -> None:
    if path.exists():
        store.layout.lost.mkdir(parents=True, exist_ok=True)
        os.replace(path, store.layout.lost / f"{path.parent.name}-{path.name}.{os.urandom(4).hex()}")
