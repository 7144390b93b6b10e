"""A local sample as a list: which fragments whoever has this seed takes. What `data sample` prints and `data pull` fetches for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.index import Picture
from laminar.data.pictures import PictureSource
from laminar.data.remember import Memory
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Progress, silent
from laminar.data.spec import DataSpec, SampleSpec, checked

if TYPE_CHECKING:
    from laminar.data.mirrors.fetch import Fetched


@dataclass(frozen=True)
class Drawn:
    seed: int
    classes: tuple[str, ...]
    fragments: list[dict[str, Any]]  # split, source, class, x, y, angle
    notes: list[str] = field(default_factory=list)


def with_sample(
    spec: DataSpec,
    *,
    seed: int | None = None,
    per_class: int | None = None,
    test_per_class: int | None = None,
    sources: int | None = None,
    skip_bad: bool = False,
) -> DataSpec:
    """The spec with what is given put in the place of what its sample says."""
    given = {"seed": seed, "per_class": per_class, "test_per_class": test_per_class, "sources": sources}
    given = {name: value for name, value in given.items() if value is not None}
    sample = spec.sample
    if sample is not None:
        sample = msgspec.structs.replace(sample, **given)
    elif per_class is not None:
        sample = SampleSpec(**given)  # type: ignore[arg-type]
    elif given:
        raise LaminarError(
            "L109",
            f"{spec.where}: the data set has no sample, so there is no {next(iter(given))} to change",
            hint="add sample = { per_class = 400 } to the [data] section, or --per-class 400",
        )
    return msgspec.structs.replace(spec, sample=sample, skip_bad=skip_bad or spec.skip_bad)


def local_sample(spec: DataSpec, root: Path, *, cache: Path | None = None, progress: Progress = silent, **changes: Any) -> Drawn:
    spec = with_sample(spec, **changes)
    if spec.sample is None:
        raise LaminarError(
            "L109",
            f"{spec.where}: the data set has no sample",
            hint="add sample = { per_class = 400 } to the [data] section, or --per-class 400",
        )
    virtual = VirtualFragments.of(spec, root, Memory(cache) if cache else None, progress)
    train, test = virtual.draw(spec.sample)
    return Drawn(spec.sample.seed, virtual.classes, [*virtual.describe(train), *virtual.describe(test)], virtual.notes)


@dataclass(frozen=True)
class Pulled:
    images: int  # that the data set, or its sample, needs
    bytes: int
    fetched: Fetched | None  # None: they are all on this machine


def pull(spec: DataSpec, root: Path, *, cache: Path | None = None, progress: Progress = silent, **changes: Any) -> Pulled:
    """Have every image of the data set, or of its sample, on this machine."""
    spec = with_sample(checked(spec), **changes)
    source = source_of(spec, root)
    if not isinstance(source, PictureSource):
        raise LaminarError("L109", f"{spec.where} has no image files to fetch", hint="pull is for folder and index sources")
    memory = Memory(cache) if cache else None
    files: list[Picture]
    if spec.fragment is not None:
        virtual = VirtualFragments.of(spec, root, memory, progress)
        needed = np.unique(np.concatenate([virtual.images_of(side) for side in virtual.draw(spec.sample)])) if spec.sample else None
        files, place = (virtual.files if needed is None else [virtual.files[int(i)] for i in needed]), virtual.place
    else:
        pictures = source.pictures(memory, progress)
        files, place = pictures.files, pictures.place
    return Pulled(len(files), sum(file.size for file in files), place.fetch(files, progress))
