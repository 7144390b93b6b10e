"""How fast a kernel's native code is: each way of running it on the same random inputs, in turns."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import DTYPES, shape_of
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.language.tree import Kernel, Object, Variable


def random_arrays(kernel: Kernel, values: Mapping[str, Any], count: int, given: Mapping[str, Any], file: str) -> list[np.ndarray[Any, Any]]:
    """In the kernel's order; those that are given stay."""
    rng = np.random.default_rng(0)
    scalars: dict[Variable, Any] = {kernel.count: count}
    scalars |= {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}
    shapes = [shape_of(one.of, scalars) for one in kernel.arrays if isinstance(one.of, Object)]
    smallest = min((size for shape in shapes for size in shape), default=1)
    if smallest < 1:
        raise LaminarError("L702", f"{file}: an array without elements: {shapes}", hint="larger values")
    made: list[np.ndarray[Any, Any]] = []
    for one, shape in zip(kernel.arrays, shapes, strict=True):
        dtype = DTYPES[one.of.type]
        if one.name in given:
            made.append(np.ascontiguousarray(given[one.name]))
        elif one.mode == "out":
            made.append(np.zeros(shape, dtype))
        elif dtype.startswith("float"):
            made.append(rng.standard_normal(shape, "float32").astype(dtype))
        else:
            made.append(rng.integers(0, 2 if dtype == "bool" else smallest, shape).astype(dtype))
    return made


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each; the first round of each does not count. Who comes after whom is drawn anew in each round: one leaves memory to the
    next that it has in its cache, another does not."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    order, drawn = list(ways), random.Random(0)
    for number in range(rounds + 1):
        drawn.shuffle(order)
        for name in order:
            way = ways[name]
            start = time.perf_counter()
            way()
            if number:
                found[name].append(time.perf_counter() - start)
    return found


class Runs(Protocol):
    """Native code of a kernel: Native, or phases of one with barriers (circuit/native_phases.py)."""

    @property
    def independent(self) -> bool: ...

    @property
    def described(self) -> str: ...

    def run(self, arrays: Sequence[np.ndarray[Any, Any]], values: Sequence[Any], count: int, threads: int = 1) -> None: ...


def benched(
    kernel: Kernel,
    given: Mapping[str, Any],
    values: Mapping[str, Any],
    count: int,
    *,
    threads: int,
    rounds: int,
    file: str = "kernel.c",
    others: Callable[[list[np.ndarray[Any, Any]]], Mapping[str, Callable[[], None]]] = lambda _: {},
    made: Callable[..., Runs] = compiled,
) -> dict[str, Any]:
    """As `laminar kernel bench --json` has it. `others`: more ways, of the same arrays. `made`: native code of a kernel, with options."""
    arrays = random_arrays(kernel, values, count, given, file)
    numbers = [values[one.name] for one in kernel.values]
    start = time.perf_counter()
    native = made(kernel, Options(cached=False), file=file)
    first = time.perf_counter()
    made(kernel, file=file)
    second = time.perf_counter()
    made(kernel, file=file)
    third = time.perf_counter()
    scalar = made(kernel, Options(lanes=False), file=file)

    def way(which: Runs, many: int) -> Callable[[], None]:
        return lambda: which.run(arrays, numbers, count, many)

    ways = {"one instance after another": way(scalar, 1)}
    if count > 1:  # one instance is never run as lanes
        ways["lanes"] = way(native, 1)
        if threads > 1:
            ways[f"lanes, {threads} threads"] = way(native, threads)
    times = in_turns({**ways, **others(arrays)}, rounds)
    slowest = statistics.median(times["one instance after another"])
    return {
        "instances": count,
        "compile_ms": (first - start) * 1e3,
        "cached_ms": min(third - second, second - first) * 1e3,
        "plan": native.described,
        "independent": native.independent,
        "ways": [
            {
                "name": name,
                "median_ms": statistics.median(one) * 1e3,
                "best_ms": min(one) * 1e3,
                "ns_per_instance": statistics.median(one) / count * 1e9,
                "times": slowest / statistics.median(one),
            }
            for name, one in times.items()
        ],
    }
