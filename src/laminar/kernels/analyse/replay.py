"""Replay: the emulator runs the kernel with the sizes of a witness, to confirm the witness before it is reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.witness import Small
from laminar.kernels.arguments import DTYPES, Value, shape_of
from laminar.kernels.emulate.findings import Finding
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.tree import At, Kernel, Object, Variable

STEPS: Final = 10_000  # rounds of loops that an instance has
ORDERS: Final = (None, 1, 2, 3)  # seeds of the orders of instances: of two accesses the emulator sees who comes later
LARGEST: Final = 1 << 16  # elements of all arrays


@dataclass
class Replay:
    """The findings of emulated runs, kept by sizes."""

    kernel: Kernel
    _whole: dict[tuple[object, ...], tuple[Finding, ...] | None] = field(default_factory=dict)

    def outside(self, small: Small, at: At) -> tuple[int, tuple[int, ...]] | None:
        """An instance whose access at this place is out of bounds, and its index."""
        found = (one for one in self._findings(small) or () if one.kind == "out-of-bounds" and one.at == at)
        return next(((one.instances[0], one.index) for one in found), None)

    def divides(self, small: Small, at: At) -> bool:
        return any(one.kind == "division-by-zero" and one.at == at for one in self._findings(small) or ())

    def endless(self, small: Small) -> bool:
        return self._findings(small) is None

    def meet(self, small: Small, one: At, other: At) -> tuple[int, int] | None:
        """Two instances that use one element at these places without a barrier in between."""
        alone = (finding for seed in ORDERS for finding in self._run(small, seed, {one, other}) or ())  # nobody else hides them
        found = (finding for finding in chain(self._findings(small) or (), alone) if _is_race(finding, {one, other}))
        return next(((finding.instances[0], finding.instances[1]) for finding in found), None)

    def _findings(self, small: Small) -> tuple[Finding, ...] | None:
        """None: it has no end."""
        key = (small.count, *sorted(small.numbers.items()))
        if key not in self._whole:
            self._whole[key] = self._run(small)
        return self._whole[key]

    def _run(self, small: Small, seed: int | None = None, races: Iterable[At] | None = None) -> tuple[Finding, ...] | None:
        kernel = self.kernel
        values: dict[str, Value] = {one.name: small.numbers.get(one.name, 1) for one in kernel.values}
        scalars: dict[Variable, Value] = {kernel.count: small.count}
        scalars |= {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}
        shapes = {one.name: (shape_of(one.of, scalars), one.of.type) for one in kernel.arrays if isinstance(one.of, Object)}
        if any(min(shape, default=1) < 1 for shape, _ in shapes.values()) or sum(np.prod(shape) for shape, _ in shapes.values()) > LARGEST:
            return ()
        arrays = {name: np.zeros(shape, DTYPES[type_]) for name, (shape, type_) in shapes.items()}
        try:
            return emulate(kernel, arrays, values, small.count, seed, STEPS, races=None if races is None else frozenset(races)).findings
        except LaminarError as error:
            if error.code != "L704":
                raise
            return None


def _is_race(finding: Finding, both: set[At]) -> bool:
    return finding.kind == "race" and {finding.at, finding.other or finding.at} == both
