"""Retention: what gc may delete, decided purely over a listing; gc.py lists and deletes.

Live is what any of these needs: a ref or tag (with its history), a project that shares the store and still exists, an experiment,
a lease of a living process, anything younger than the grace age; and the ancestors of all those. In doubt nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.store.locks import Needs
from laminar.store.objects import GRACE
from laminar.store.reflog import Entry, State

DAY: Final = 86_400.0
PASSING: Final = "trial-"  # how the names of runs begin that nobody goes on with: those of a plan that was tried
RESUMABLE: Final = 14 * DAY
"""How long an unfinished run waits for a build that goes on with it."""
UNUSED: Final = 90 * DAY
"""How long a cached fingerprint is kept after its last use."""
LOST: Final = 30 * DAY
"""How long damaged files that `verify --repair` put aside are kept."""


class Item(msgspec.Struct, frozen=True):
    """Something on disk: a file or a folder."""

    size: int
    time: float  # last change or use


class LayerItem(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    time: float
    parent: str | None
    objects: frozenset[str]
    run: str


class RunItem(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    time: float
    finished: bool
    checkpoints: dict[str, int]  # name in the folder -> size


class FeatureItem(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    time: float
    whole: bool  # it has an index


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A store as gc sees it."""

    objects: Mapping[str, Item]
    layers: Mapping[str, LayerItem]
    keys: Mapping[str, tuple[str, str]]  # key -> id, run
    refs: Iterable[tuple[str, State, list[Entry]]]
    projects: Mapping[str, tuple[bool, list[str]]]  # path -> does it exist, ids
    experiments: frozenset[str] = frozenset()  # ids of layers that are trials of an experiment
    needs: Needs
    busy: bool  # some living process holds a lease
    runs: Mapping[str, RunItem]
    features: Mapping[str, FeatureItem]
    others: Mapping[str, tuple[Item, float]]  # path in the store -> item, and the age from which it is rubbish


PARTS: Final = ("layers", "keys", "objects", "features", "runs", "checkpoints", "projects", "others")
"""Of a plan: name -> size of what goes, by kind."""


class GcPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What gc deletes, each with its size; and the settings that led there."""

    keep: int | None
    feature_budget: int
    grace: float = GRACE
    keys: dict[str, int] = {}
    layers: dict[str, int] = {}
    objects: dict[str, int] = {}
    features: dict[str, int] = {}
    runs: dict[str, int] = {}
    checkpoints: dict[str, int] = {}  # "run/name"
    projects: dict[str, int] = {}
    others: dict[str, int] = {}
    kept_layers: int = 0
    kept_bytes: int = 0

    @property
    def bytes(self) -> int:
        return sum(sum(getattr(self, part).values()) for part in PARTS)

    @property
    def empty(self) -> bool:
        return not any(getattr(self, part) for part in PARTS)

    def within(self, other: GcPlan) -> GcPlan:
        """Only what the other plan deletes too."""
        both = {part: {name: size for name, size in getattr(self, part).items() if name in getattr(other, part)} for part in PARTS}
        return msgspec.structs.replace(self, **both)


def decide(listing: Listing, *, keep: int | None, feature_budget: int, now: float, grace: float = GRACE) -> GcPlan:
    """`keep`: so many layers of each ref's history (None: all that ever were); what lies ahead of a rollback always counts.

    `grace`: the age below which nothing goes. While a process holds a lease it is at least GRACE: its new objects have no name yet.
    """
    grace = max(grace, GRACE) if listing.busy else grace
    if keep is not None and keep < 1:
        raise LaminarError("L008", f"cannot keep {keep} layers of each ref: expected 1 or more", hint="laminar gc --keep 1")
    live = _ancestors(_roots(listing, keep, now - grace), listing.layers)
    objects = {digest for id in live for digest in listing.layers[id].objects}
    live_runs = {listing.layers[id].run for id in live} | set(listing.needs.runs)
    live_runs |= {run for id, run in listing.keys.values() if id in live}  # a later build may have led to the same layer
    runs: dict[str, int] = {}
    checkpoints: dict[str, int] = {}
    for name, run in listing.runs.items():
        if name in listing.needs.runs or now - run.time < grace:
            continue
        if name not in live_runs and (run.finished or name.startswith(PASSING) or now - run.time > RESUMABLE):
            runs[name] = run.size
        elif run.finished:
            checkpoints |= {f"{name}/{file}": size for file, size in run.checkpoints.items()}
    return GcPlan(
        keep=keep,
        feature_budget=feature_budget,
        grace=grace,
        keys={key: 0 for key, (id, _) in listing.keys.items() if id not in live},
        layers={id: layer.size for id, layer in listing.layers.items() if id not in live},
        objects={name: item.size for name, item in listing.objects.items() if name not in objects and now - item.time >= grace},
        features=_features(listing, feature_budget, now - grace),
        runs=runs,
        checkpoints=checkpoints,
        projects={path: 0 for path, (exists, _) in listing.projects.items() if not exists},
        others={path: item.size for path, (item, age) in listing.others.items() if now - item.time >= age},
        kept_layers=len(live),
        kept_bytes=sum(listing.objects[name].size for name in objects if name in listing.objects),
    )


def _roots(listing: Listing, keep: int | None, young: float) -> set[str]:
    roots = set(listing.needs.layers) | listing.experiments
    for _, state, log in listing.refs:
        if keep is None:
            roots |= {entry.id for entry in log} | set(state.history)
        else:
            roots |= set(state.history[max(0, state.cursor + 1 - keep) :]) | {undone.id for undone in state.undo}
    for exists, ids in listing.projects.values():
        if exists:
            roots |= set(ids)
    return roots | {id for id, layer in listing.layers.items() if layer.time > young}


def _ancestors(roots: set[str], layers: Mapping[str, LayerItem]) -> set[str]:
    live: set[str] = set()
    todo = [id for id in roots if id in layers]
    while todo:
        id = todo.pop()
        if id not in live:
            live.add(id)
            parent = layers[id].parent
            if parent is not None and parent in layers:
                todo.append(parent)
    return live


def _features(listing: Listing, budget: int, young: float) -> dict[str, int]:
    """Folders without an index that nobody fills, and the least recently used ones above the budget."""
    free = {name: item for name, item in listing.features.items() if name not in listing.needs.features}
    gone = {name: item.size for name, item in free.items() if not item.whole and item.time <= young}
    total = sum(item.size for name, item in listing.features.items() if name not in gone)
    for name, item in sorted(free.items(), key=lambda pair: pair[1].time):
        if total <= budget:
            break
        if name not in gone:
            gone[name] = item.size
            total -= item.size
    return gone
