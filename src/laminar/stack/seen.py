"""Seen: what the code of a layer was seen to look at when it ran (core/observe.py), as a part of its key.

A key is asked for before anything runs, and what code reads is known only afterwards. So the inputs that are known beforehand are the
question; beside the layers of one question the store keeps which tags (files, folders, variables) its code looked at: its trails. The
question together with what is at these tags now is the key. Code that is given the same, and finds the same wherever it looks, looks at
the same places: so a trail whose tags are as they were is good, and one whose tags are not asks for another key.

Trails are remembered in `fingerprints/`; where that is lost they are found in the records of builds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.observe import MISSING, RESOLVERS, place, state
from laminar.data.remember import Memory
from laminar.store.manifest import BuildRecord
from laminar.store.resolve import resolve
from laminar.store.store import Store

SEEN: Final = "seen"  # among the inputs of a key
KEPT: Final = 16  # trails of one question


class _Trails(msgspec.Struct):
    trails: list[list[str]]  # newest first


class _Sha(msgspec.Struct):
    sha256: str


class Seen:
    """What is at tags now, by a memory of the digests of files that stand; every tag is looked at once."""

    def __init__(self, root: Path, memory: Memory) -> None:
        self._root, self._memory = root.resolve(), memory
        self._states: dict[str, str] = {}

    def digest_of(self, path: Path) -> str:
        return self._memory.about_files([path], _Sha, lambda: _Sha(digest.of_file(path)), of=["sha256", 1]).sha256

    def states(self, tags: Iterable[str]) -> dict[str, str]:
        for tag in tags:
            if tag not in self._states:
                self._states[tag] = state(tag, self._root, self.digest_of)
        return {tag: self._states[tag] for tag in tags}

    def trails(self, question: str) -> list[list[str]]:
        known = self._memory.read(f"seen-{question}", _Trails)
        return known.trails if known is not None else []

    def remember(self, question: str, tags: Iterable[str]) -> None:
        """The newest trail of a question. One that saw nothing is none: the question itself is the key then."""
        trail, before = sorted(tags), self.trails(question)
        if trail and before[:1] != [trail]:
            self._memory.write(f"seen-{question}", _Trails([trail, *(other for other in before if other != trail)][:KEPT]))

    def candidates(self, inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The inputs, with what is at the tags of each trail now; as they are where there is none."""
        yield inputs
        for trail in self.trails(digest.of_json(inputs)):
            yield with_seen(inputs, self.states(trail))

    def from_records(self, inputs: dict[str, Any], records: Iterable[BuildRecord]) -> Iterator[dict[str, Any]]:
        """The same by the records of builds, for a store whose memory was lost, and for layers that were pulled."""
        tried = self.trails(digest.of_json(inputs))
        for record in records:
            trail = sorted(record.inputs.get(SEEN, {}))
            if trail and trail not in tried and without_seen(record.inputs) == inputs:
                tried.append(trail)
                yield with_seen(inputs, self.states(trail))


def _layer_now(text: str, root: Path) -> str:
    """The id that a name means now, in the store that the layer was loaded from."""
    folder, stack, ref = text.split("|", 2)
    try:
        return resolve(Store.look(place(folder, root)), ref, stack or None)
    except LaminarError:
        return MISSING


RESOLVERS["layer"] = _layer_now


def with_seen(inputs: dict[str, Any], states: dict[str, str]) -> dict[str, Any]:
    return {**inputs, SEEN: states} if states else inputs


def without_seen(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name != SEEN}
