"""How many training samples a data set has, remembered by its fingerprint once it has been opened. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core import digest
from laminar.data.remember import Memory
from laminar.data.spec import DataSpec

PACKAGED: Final = "digits"  # a few milliseconds to open


class _Count(msgspec.Struct):
    samples: int


def remember_training_samples(fingerprint: dict[str, Any], samples: int, cache: Path) -> None:
    Memory(cache).write(_name(fingerprint), _Count(samples))


def known_training_samples(fingerprint: dict[str, Any], cache: Path) -> int | None:
    """Without reading any data: None where nobody has opened it yet."""
    found = Memory(cache).read(_name(fingerprint), _Count)
    return None if found is None else found.samples


def training_samples(spec: DataSpec, fingerprint: dict[str, Any], root: Path, cache: Path) -> int:
    """Opens the data where the number is not known."""
    from laminar.data.open import open_data

    known = known_training_samples(fingerprint, cache)
    if known is None:
        known = len(open_data(spec, root, cache=cache).train)
        remember_training_samples(fingerprint, known, cache)
    return known


def _name(fingerprint: dict[str, Any]) -> str:
    return digest.of_json(["training samples", fingerprint])


def at_most_training_samples(spec: DataSpec, fingerprint: dict[str, Any], root: Path, cache: Path) -> int | None:
    """What is known without reading much: the number itself where the data have been opened once, or come with Laminar; else `limit`."""
    known = known_training_samples(fingerprint, cache)
    if known is None and spec.source == PACKAGED:
        return training_samples(spec, fingerprint, root, cache)
    return spec.limit if known is None else known
