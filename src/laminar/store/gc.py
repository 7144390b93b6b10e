"""Gc: lists a store, lets retention.py decide what is rubbish, and deletes it.

Deleting holds the store's gc lock, which every commit, move of a ref, lease and reuse of an old object takes for a moment; and the plan is
made anew under it, so nothing that became live since the first look is touched. Order: keys, layers, objects. A gc that is killed half-way
leaves objects that nobody names, never a layer without its objects.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from laminar.core import atomic
from laminar.core.clock import Clock
from laminar.store import locks, projects, trial_layers
from laminar.store.layout import Layout
from laminar.store.objects import GRACE
from laminar.store.retention import DAY, LOST, UNUSED, FeatureItem, GcPlan, Item, LayerItem, Listing, RunItem, decide
from laminar.store.runs import CHECKPOINTS, FINISHED
from laminar.store.store import GC_LOCK, Store

FEATURE_BUDGET: Final = 20 << 30


def plan_gc(
    store: Store, *, keep: int | None = None, feature_budget: int = FEATURE_BUDGET, grace: float = GRACE, clock: Clock | None = None
) -> GcPlan:
    """What gc would delete now. L303 when a ref, lease, project or layer cannot be read: gc does not guess what it needed."""
    now = (clock or store.clock).now()
    return decide(_listing(store, remove_dead=False), keep=keep, feature_budget=feature_budget, now=now, grace=grace)


def sweep(store: Store, plan: GcPlan, *, clock: Clock | None = None) -> GcPlan:
    """Delete what the plan says and is still rubbish; what was deleted."""
    with store.gc_lock():
        now = (clock or store.clock).now()
        fresh = decide(_listing(store, remove_dead=True), keep=plan.keep, feature_budget=plan.feature_budget, now=now, grace=plan.grace)
        done = fresh.within(plan)
        _delete(store, done, now)
    return done


def _delete(store: Store, plan: GcPlan, now: float) -> None:
    layout = store.layout
    with atomic.explaining_os_errors(store.root):
        for key in plan.keys:
            layout.key(key).unlink(missing_ok=True)
        for id in plan.layers:
            layout.layer(id).unlink(missing_ok=True)
        atomic.fsync_folder(layout.keys)
        atomic.fsync_folder(layout.layers)
        for digest in plan.objects:
            layout.object_file(digest).unlink(missing_ok=True)
        for path in [layout.features / name for name in plan.features] + [layout.runs / name for name in plan.runs]:
            _remove(path)
        for name in plan.checkpoints:
            _remove(layout.runs / name)
        for project in plan.projects:
            projects.forget(layout, project)
        for name in plan.others:
            _remove(store.root / name)
    if plan.objects:
        store.objects.index.prune(lambda digest: layout.object(digest).exists())
    _free_locks(layout, now)


def _listing(store: Store, *, remove_dead: bool) -> Listing:
    layout = store.layout
    layers = {}
    for id in store.layers():
        manifest = store.layer(id)
        item = _item(layout.layer(id))
        layers[id] = LayerItem(
            size=item.size, time=item.time, parent=manifest.parent, objects=frozenset(manifest.objects()), run=manifest.run
        )
    keys = {}
    done = {layer.run for layer in layers.values()}
    for path in layout.keys.glob("*.json"):
        record = store.record(path.stem)
        if record is not None:
            keys[record.key] = (record.id, record.run)
            done.add(record.run)
    return Listing(
        objects={name: _item(layout.object_file(name)) for name in store.objects.names()},
        layers=layers,
        keys=keys,
        refs=list(store.refs.every()),
        projects={p.path: (p.exists(), list(p.refs.values())) for p in projects.registered(layout)},
        experiments=trial_layers.held(layout),
        needs=locks.living(layout, remove_dead=remove_dead),
        busy=locks.anyone_living(layout),
        runs={path.name: _run(path, done) for path in _folders(layout.runs)},
        features={path.name: _feature(path) for path in _folders(layout.features)},
        others=dict(_others(layout)),
    )


def _run(path: Path, done: set[str]) -> RunItem:
    item = _item(path)
    finished = path.name in done or (path / FINISHED).exists()
    return RunItem(size=item.size, time=item.time, finished=finished, checkpoints={p.name: _item(p).size for p in path.glob(CHECKPOINTS)})


def _feature(path: Path) -> FeatureItem:
    item = _item(path)
    used = path / "used"
    return FeatureItem(size=item.size, time=used.stat().st_mtime if used.exists() else item.time, whole=(path / "index.json").exists())


def _others(layout: Layout) -> Iterator[tuple[str, tuple[Item, float]]]:
    """Leftovers of the dead in tmp, damaged files put aside, fingerprints of data that is not used any more."""
    for folder, age in ((layout.tmp, GRACE), (layout.lost, LOST), (layout.fingerprints, UNUSED)):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            patience = DAY if folder == layout.tmp and _alive(path.name) else age
            yield str(path.relative_to(layout.root)), (_item(path), patience)


def _alive(name: str) -> bool:
    """Is the process whose number stands in the name of a temporary file (.name.pid.random.tmp) still there?"""
    parts = name.split(".")
    if len(parts) < 4 or not parts[-3].isdigit():
        return False
    try:
        os.kill(int(parts[-3]), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _free_locks(layout: Layout, now: float) -> None:
    """Lock files of keys and refs, one each, would pile up; an old one that nobody holds goes."""
    for path in layout.locks.glob("*.lock"):
        if path.name != f"{GC_LOCK}.lock" and now - _item(path).time > DAY:
            locks.remove_free(path)


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []


def _item(path: Path) -> Item:
    """Size of a file or of all files in a folder, and the latest change among them. What vanishes meanwhile counts nothing."""
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return Item(0, 0.0)
    size, time = stat.st_size, stat.st_mtime
    if path.is_dir():
        size = 0
        for inner in path.rglob("*"):
            try:
                stat = inner.lstat()
            except FileNotFoundError:
                continue
            size += 0 if inner.is_dir() else stat.st_size
            time = max(time, stat.st_mtime)
    return Item(size, time)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
