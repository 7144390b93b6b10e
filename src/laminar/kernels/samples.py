"""Small arguments that fit a kernel, made up where nobody gives any: enough to see what it does with memory, line by line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import DTYPES, Arguments, Scalars, Value, arguments, evaluated
from laminar.kernels.language.tree import WHOLE, Expression, Kernel, Object, Read, Variable, walk

SIDES: Final = {0: 16, 1: 16, 2: 16, 3: 8}  # of an array, by number of sizes that there are …
SMALL: Final = 4  # … and where there are more
INSTANCES: Final = 64
MOST_INSTANCES: Final = 20_000
MOST_ELEMENTS: Final = 500_000


def sizes_of(kernel: Kernel) -> set[Variable]:
    """Parameters that say how large an array is, or how many instances there are."""
    written: list[Expression] = [size for one in kernel.arrays if isinstance(one.of, Object) for size in one.of.shape]
    if kernel.instances is not None:
        written.append(kernel.instances)
    return {part.variable for one in written for part in walk(one) if isinstance(part, Read)} - {kernel.count}


def sample_arguments(
    kernel: Kernel, given: Mapping[str, Value] | None = None, instances: int | None = None, *, seed: int = 0, file: str = "kernel.c"
) -> Arguments:
    """`given`: values that are wished for. L702 for what does not fit, or is more than can be looked at quickly."""
    sizes = sizes_of(kernel)
    side = SIDES.get(len(sizes), SMALL)
    values = {one.name: _value(one.of, side if one.of in sizes else 1) for one in kernel.values if isinstance(one.of, Variable)}
    values |= given or {}
    scalars: Scalars = {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}
    count = instances if instances is not None else _count(kernel, scalars)
    if not 1 <= count <= MOST_INSTANCES:
        raise LaminarError(
            "L702", f"{file}: {count:,} instances; here 1 to {MOST_INSTANCES:,} are run", hint=f"laminar kernel run {file} runs more"
        )
    scalars[kernel.count] = count
    source, arrays = np.random.default_rng(seed), dict[str, Any]()
    for one in kernel.arrays:
        if one.mode == "out" or not isinstance(one.of, Object):
            continue
        shape = tuple(evaluated(size, scalars) or 0 for size in one.of.shape)
        if not 1 <= math.prod(shape) <= MOST_ELEMENTS or min(shape) < 1:
            said = f"{file}: `{one.name}` would have the shape {list(shape)}; here it may have 1 to {MOST_ELEMENTS:,} elements"
            raise LaminarError("L702", said, hint="other values")
        dtype = DTYPES[one.of.type]
        if dtype.startswith("float"):
            arrays[one.name] = source.standard_normal(shape).astype(dtype)
        else:  # it may be an index: of anything there is
            arrays[one.name] = source.integers(0, 2 if dtype == "bool" else max(1, min(shape)), shape).astype(dtype)
    return arguments(kernel, {**arrays, **values}, count, file)


def _value(of: Variable, whole: int) -> Value:
    if of.type == "bool":
        return True
    return whole if of.type in WHOLE else 0.5


def _count(kernel: Kernel, scalars: Scalars) -> int:
    if kernel.instances is not None and (found := evaluated(kernel.instances, scalars)) is not None:
        return found
    for one in kernel.arrays:
        if one.mode != "in" and isinstance(one.of, Object):
            shape = [evaluated(size, scalars) for size in one.of.shape]
            return INSTANCES if None in shape else math.prod(size for size in shape if size is not None)
    return INSTANCES
