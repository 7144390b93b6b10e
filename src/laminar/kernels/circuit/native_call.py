"""Functions of a circuit as native code, compiled when they are first called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from laminar.kernels.circuit.schedule import Chunk
from laminar.kernels.compile.native import Native, compiled
from laminar.kernels.language.tree import Kernel

_KNOWN: WeakKeyDictionary[Kernel, Native] = WeakKeyDictionary()


def call(
    kernel: Kernel, chunk: Chunk, count: int, arrays: Sequence[NDArray[np.generic]], values: Mapping[str, float], file: str = "kernel.c"
) -> None:
    """One kernel without barriers, for the instances of a chunk. `file`: as errors name it."""
    native = _KNOWN.get(kernel)
    if native is None:
        native = _KNOWN[kernel] = compiled(kernel, file=file)
    native.run_part(chunk[0], chunk[1], count, arrays, [values[one.name] for one in kernel.values])
