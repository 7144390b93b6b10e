"""Fingerprints: what of a data set goes into a layer's key. Content and order, never a place or a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.data.augment_fit import refuse_unfit
from laminar.data.classes import resolve_classes
from laminar.data.remember import Memory
from laminar.data.sources import source_of
from laminar.data.sources.protocol import kind_in_key
from laminar.data.spec import AugmentSpec, DataSpec, FragmentSpec, SplitSpec, checked

CUT = 1  # raised when the same fragment of the same image would have other pixels
FORMAT = 1  # raised when the same fingerprint would no longer mean the same samples


def fingerprint(spec: DataSpec, root: Path, cache: Path, *, clock: Clock = SYSTEM) -> dict[str, Any]:
    """JSON. Equal fingerprints open to the same training and test samples in the same order, with the same names of classes."""
    source = source_of(checked(spec), root)
    contents = source.contents(Memory(cache, clock=clock))
    if contents.sides is not None and spec.fragment is None:
        refuse_unfit(spec.augment, contents.sides)
    positions = resolve_classes(spec.classes, contents.classes)
    names = None if positions is None or contents.classes is None else [contents.classes[p] for p in positions]
    how = spec.split or SplitSpec()
    split: dict[str, Any] | None = {"test": float(how.test), "seed": how.seed}
    if how.by == "source" or spec.fragment is not None:
        split = {"test": float(how.test), "seed": how.seed, "by": "source"}
    if contents.own_test:
        split = {"seed": how.seed} if spec.limit is not None else None  # the seed still chooses what `limit` keeps
    augment = None if spec.augment is None or spec.augment.changes_nothing else _augment(spec.augment)
    return {
        "format": FORMAT,
        "source": kind_in_key(source),
        "content": contents.digest,
        "settings": contents.settings,
        "classes": names,
        "split": split,
        "limit": spec.limit,
        "augment": augment,
        **_later(spec),
    }


def forget(spec: DataSpec, root: Path, cache: Path) -> None:
    """What is remembered of data that only a call can tell is found out anew: files by their own signatures need no such thing."""
    for text in spec.sources:
        if text.startswith("python:"):
            from laminar.data.sources.python import PythonSource

            source = source_of(checked(msgspec.structs.replace(spec, source=text)), root)
            assert isinstance(source, PythonSource)
            source.forget(Memory(cache))


def _later(spec: DataSpec) -> dict[str, Any]:
    """Settings that came later, and are there only when set: older keys stand."""
    said: dict[str, Any] = {}
    if spec.fragment is not None:
        said["fragment"] = msgspec.to_builtins(spec.fragment) | {"overlap": float(spec.fragment.overlap), "cut": CUT}
        if spec.fragment.last == FragmentSpec(size=spec.fragment.size).last:
            del said["fragment"]["last"]
    if spec.sample is not None:
        said["sample"] = msgspec.to_builtins(spec.sample)
    return said


def _augment(spec: AugmentSpec) -> dict[str, Any]:
    """Numbers that may be written 1 or 1.0 are the same; a setting that came later is there only when set, so that older keys stand."""
    said = msgspec.to_builtins(spec)
    said |= {name: float(said[name]) for name in ("noise", "crop", "rotate")}
    for name in ("crop", "rotate", "cutout"):
        if said[name] == getattr(AugmentSpec(), name):
            del said[name]
    return dict(said)
