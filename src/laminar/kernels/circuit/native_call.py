"""Functions of a circuit as native code, compiled when they are first called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from laminar.kernels.circuit.function import callers_values
from laminar.kernels.circuit.schedule import Chunk
from laminar.kernels.compile.variants import Variants
from laminar.kernels.language.tree import Kernel

_KNOWN: WeakKeyDictionary[Kernel, tuple[Variants, int]] = WeakKeyDictionary()


def call(
    kernel: Kernel,
    chunk: Chunk,
    count: int,
    arrays: Sequence[NDArray[np.generic]],
    values: Mapping[str, float],
    file: str = "kernel.c",
    *,
    lanes: bool = True,
) -> None:
    """One kernel without barriers, for the instances of a chunk. `file`: as errors name it. `lanes`: several instances side by side."""
    known = _KNOWN.get(kernel)
    if known is None:
        known = _KNOWN[kernel] = Variants(kernel, file=file), callers_values(kernel)
    code, sizes = known
    native = code.of(chunk[1] - chunk[0] if lanes else 1)
    given = [values[one.name] for one in kernel.values]
    native.run_part(chunk[0], chunk[1], count, arrays, given, sizes)
