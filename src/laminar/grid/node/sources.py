"""Sources that a task may name. Whatever would run code, or read files of the owner, is refused: what a gradient is made of can be guessed.

Used by nodes before they open anything, and by whoever starts a run, so that it fails there and not on every desktop.
"""

from __future__ import annotations

from typing import Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.data.sources.index import addresses_of
from laminar.data.spec import DataSpec
from laminar.grid.wire.messages import About

BY_NAME: Final = ("cifar10", "digits", "fashion-mnist", "flowers", "glyphs", "mnist")
ON_MIRRORS: Final = ("index",)
SCHEMES: Final = ("http://", "https://", "ftp://")


def check_source(spec: DataSpec) -> None:
    """L504 unless strangers can open it, or all that are joined."""
    for source in spec.sources:
        _check(source, spec)


def _check(source: str, spec: DataSpec) -> None:
    kind, _, rest = source.partition(":")
    hint = "laminar data index makes an index of image files, and laminar data serve a mirror of them"
    if kind in BY_NAME:
        if spec.args:
            raise LaminarError("L504", f"{source} with args {sorted(spec.args)}: nodes open it by its name alone", hint="leave args out")
        return
    if kind not in ON_MIRRORS:
        what = "runs code of the project" if kind == "python" else "is a file of this machine"
        raise LaminarError("L504", f"data source '{source}' {what}: nodes have no part in it", hint=hint)
    places = [*addresses_of(rest.partition("#")[0]), *spec.mirrors] or [rest]
    odd = next((place for place in places if not place.startswith(SCHEMES)), None)
    if odd is not None:
        raise LaminarError("L504", f"'{odd}' is a place on this machine, and nodes fetch from {', '.join(SCHEMES)} only", hint=hint)


def data_of(about: About, sample: int | None) -> DataSpec:
    """The data of a task: the run's, with the seed of the task's sample."""
    spec = msgspec.convert(about.data, DataSpec, str_keys=True)
    if sample is None or spec.sample is None:
        return spec
    return msgspec.structs.replace(spec, sample=msgspec.structs.replace(spec.sample, seed=sample))
