"""Evict: what was used least recently goes when all kept features together would outgrow the budget. No torch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.store import locks
from laminar.train.kept import Kept, describe_features

if TYPE_CHECKING:
    from laminar.store.store import Store


@dataclass(frozen=True)
class Eviction:
    fkeys: tuple[str, ...]
    bytes: int


def choose(kept: list[Kept], *, spare: frozenset[str], wanted: int, budget: int) -> Eviction:
    """The prefixes to drop, least recently used first, so that `wanted` more bytes fit; those in `spare` stay in any case."""
    over = sum(k.bytes for k in kept) + wanted - budget
    gone: list[Kept] = []
    for candidate in sorted(kept, key=lambda k: k.used):
        if over <= 0:
            break
        if candidate.fkey not in spare:
            gone.append(candidate)
            over -= candidate.bytes
    return Eviction(tuple(k.fkey for k in gone), sum(k.bytes for k in gone))


def make_room(store: Store, *, own: frozenset[str], wanted: int, budget: int) -> Eviction:
    """Drop kept features of other prefixes that no running build uses. A reader that has them mapped goes on reading."""
    kept = describe_features(store)
    if sum(k.bytes for k in kept) + wanted <= budget:
        return Eviction((), 0)
    with store.gc_lock():  # nobody takes a lease while we delete
        needed = frozenset(locks.living(store.layout, remove_dead=False).features)
        gone = choose(kept, spare=own | needed, wanted=wanted, budget=budget)
        for fkey in gone.fkeys:
            shutil.rmtree(store.layout.feature(fkey), ignore_errors=True)
    return gone
