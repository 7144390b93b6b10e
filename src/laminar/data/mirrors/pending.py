"""What nobody fetches yet: runs of units of each file, and which file comes next for a mirror. Pure.

Files lie in groups by the mirrors that failed them, so that a mirror finds its next file without looking at those it has not got.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from laminar.data.mirrors.wanted import Wanted


@dataclass(slots=True)
class Partial:
    """The beginning of a unit."""

    have: int = 0
    sources: frozenset[int] = frozenset()  # the mirrors it came from
    suspects: frozenset[int] = frozenset()  # it was wrong when it came from these: now from one, so that it can be told who lies

    @property
    def alone(self) -> bool:
        return bool(self.suspects)


@dataclass(eq=False, slots=True)
class FileState:
    index: int
    wanted: Wanted
    runs: list[tuple[int, int]]  # units that nobody has or fetches, in order
    left: int  # units not proved
    holders: int = 0  # connections at work on it
    failed: dict[int, str] = field(default_factory=dict)  # mirror -> why it is not asked for this file any more
    tries: dict[int, int] = field(default_factory=dict)
    partials: dict[int, Partial] = field(default_factory=dict)
    given_up: bool = False
    slot: dict[FileState, None] | None = None

    @property
    def begun(self) -> bool:
        return self.left < self.wanted.units or bool(self.partials)

    def add_run(self, first: int, last: int) -> None:
        if first < last:
            bisect.insort(self.runs, (first, last))

    def take(self, run: int, first: int, last: int) -> None:
        """Cut [first, last) out of a run."""
        begin, end = self.runs.pop(run)
        self.add_run(begin, first)
        self.add_run(last, end)


def runs_without(units: int, had: Iterable[int]) -> list[tuple[int, int]]:
    """The runs of [0, units) that are not in `had`."""
    runs: list[tuple[int, int]] = []
    at = 0
    for unit in sorted(had):
        if at < unit:
            runs.append((at, unit))
        at = unit + 1
    if at < units:
        runs.append((at, units))
    return runs


@final
class Pending:
    """Files with runs, in three piles a group: begun and left, untouched, and being worked on."""

    def __init__(self, files: Iterable[FileState]) -> None:
        self._groups: dict[frozenset[int], tuple[dict[FileState, None], dict[FileState, None], dict[FileState, None]]] = {}
        for file in files:
            self.place(file)

    def place(self, file: FileState) -> None:
        """Put the file where it belongs now; to be called after every change."""
        slot: dict[FileState, None] | None = None
        if file.runs and not file.given_up:
            group = frozenset(file.failed)
            piles = self._groups.get(group)
            if piles is None:
                piles = self._groups[group] = ({}, {}, {})
            slot = piles[2 if file.holders else 0 if file.begun else 1]
        if slot is not file.slot:
            if file.slot is not None:
                del file.slot[file]
            if slot is not None:
                slot[file] = None
            file.slot = slot

    def __bool__(self) -> bool:
        return any(pile for piles in self._groups.values() for pile in piles)

    def at_least(self, count: int) -> bool:
        """Are there work for `count` connections?"""
        return sum(len(pile) for piles in self._groups.values() for pile in piles) >= count

    def unheld(self, mirror: int) -> Iterator[FileState]:
        """Files nobody works on, those first that few others have."""
        for group in sorted(self._groups, key=len, reverse=True):
            if mirror not in group:
                yield from self._groups[group][0]
                yield from self._groups[group][1]

    def held(self, mirror: int) -> list[FileState]:
        """Files that others work on too."""
        return [file for group, piles in self._groups.items() if mirror not in group for file in piles[2]]
