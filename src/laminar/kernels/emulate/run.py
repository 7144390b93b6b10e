"""The way in: `emulate` runs a kernel and gives a report.

report = emulate(kernel, {"x": x}, {"slope": 0.1}, count=1024)
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Final

import numpy as np

from laminar.kernels.analyse.proofs import Proofs
from laminar.kernels.analyse.space import Space
from laminar.kernels.arguments import DTYPES, Value, shape_of
from laminar.kernels.emulate import arithmetic
from laminar.kernels.emulate.barriers import rounds
from laminar.kernels.emulate.findings import Watch
from laminar.kernels.emulate.held import Claims, Held
from laminar.kernels.emulate.report import Access, Register, Report
from laminar.kernels.emulate.strides import Strides
from laminar.kernels.emulate.trace import GIVEN, Trace
from laminar.kernels.emulate.translate import Program, translated
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.tree import WHOLE, At, Kernel, Object, Variable
from laminar.kernels.language.types import converted, to_float

STEPS: Final = 100_000_000
"""Rounds of loops that an instance may take."""
REMEMBERED: Final = 8  # kernels


def emulate(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    values: Mapping[str, Value],
    count: int,
    seed: int | None = None,
    steps: int = STEPS,
    *,
    empty: Iterable[str] = (),
    file: str = "kernel.c",
    proofs: bool = False,
    arithmetic: bool = False,
    races: Collection[At] | None = None,
    trace: bool = False,
) -> Report:
    """Arrays and values as arguments.py has them; the arrays stay as they are, and outputs that are missing start as zeros. Instances run
    by their numbers, or in an order drawn by `seed`. Elements of the arrays named in `empty` have no value at the start.
    `proofs`: the run is held against all that native code believes of the kernel; raises L900 where it refutes something.
    `arithmetic`: numbers that wrap around, shifts by too many bits and conversions that are cut are findings, too. `races`: only these
    places are looked at for races. `trace`: the report has who wrote what each read got."""
    claims, program = _program(kernel, frozenset(empty), proofs, arithmetic, None if races is None else frozenset(races), trace)
    scalars: dict[Variable, Value] = {kernel.count: count}
    scalars |= {one.of: converted(values[one.name], one.of.type) for one in kernel.values if isinstance(one.of, Variable)}
    sizes = {one: shape_of(one, scalars) for one in kernel.objects}
    memory = {one: _memory(one, sizes[one], arrays, empty) for one in kernel.objects if one.memory != "local"}
    watch = Watch(kernel, program.writer.sites, program.writer.places, count, steps, file)
    watch.shapes = sizes
    held = Held(claims, {one: int(value) for one, value in scalars.items() if one.type in WHOLE}, count, sizes, file)
    seen = [site for site in program.writer.sites if site.object.memory != "local"]
    strides = Strides(len(seen), ordered=seed is None)
    traced = Trace(program.writer.ends, watch.index) if trace else None
    counters = _run(program, scalars, memory, sizes, watch, held, strides, count, steps, seed, traced)
    found = dict(zip((site.number for site in seen), strides.found(), strict=True))
    accesses = [
        Access(one.at, one.object, one.kind, counters[one.block] - watch.missed[one.number], found.get(one.number))
        for one in program.writer.sites
    ]
    registers = [Register(line, *(part * counters[block] for part in parts)) for (block, line), parts in program.writer.registers.items()]
    outputs = {one.name: _output(one.of, memory, sizes) for one in kernel.arrays if one.mode != "in" and isinstance(one.of, Object)}
    return Report(kernel, count, outputs, tuple(accesses), tuple(registers), watch.findings, sizes, file, traced)


@lru_cache(REMEMBERED)
def _program(
    kernel: Kernel, empty: frozenset[str], proofs: bool, arithmetic: bool, races: frozenset[At] | None, trace: bool
) -> tuple[Claims, Program]:
    """What the next run of the same kernel needs, too."""
    ready = contracted(kernel)
    claims = Claims.of(Proofs.of(ready, Space.of(ready))) if proofs else Claims()
    return claims, translated(ready, empty, claims.numbers, arithmetic=arithmetic, races=races, traced=trace)


def _run(
    program: Program,
    scalars: Mapping[Variable, Value],
    memory: Mapping[Object, list[Any]],
    sizes: Mapping[Object, tuple[int, ...]],
    watch: Watch,
    held: Held,
    strides: Strides,
    count: int,
    steps: int,
    seed: int | None,
    trace: Trace | None,
) -> Sequence[int]:
    w = program.writer
    names: dict[str, Any] = {f"f_{name}": function for name, function in arithmetic.FUNCTIONS.items()}
    names |= {name: getattr(arithmetic, name) for name in arithmetic.USED}
    names |= {name: getattr(watch, name) for name in Watch.CALLED}
    names |= {"cell": array("f", [0.0]), "ended": strides.ended, "held": held.held, "to_float": to_float}
    names |= {} if trace is None else {"got": trace.got, "GIVEN": GIVEN}
    exec(program.code, names)  # our own text: nothing of the kernel's but numbers goes into it as it is
    given: dict[str, Any] = {f"{w.variable(variable)}_": value for variable, value in scalars.items()}
    given |= {f"a{w.object(one)}": cells for one, cells in memory.items()}
    given |= {f"s{w.object(one)}_{axis}": size for one, shape in sizes.items() for axis, size in enumerate(shape)}
    given |= {name: [-1] * len(memory[one]) for name, one in program.shadows.items()}
    if trace is not None:
        given |= {w.origin(one): [None if cell is None else GIVEN for cell in cells] for one, cells in memory.items()}
    order = Random(seed) if seed is not None else None
    numbers: Sequence[int] = range(count)
    if order is not None:
        numbers = order.sample(numbers, count)
    found = names["program"](order=numbers, steps=steps, **given)
    if not w.waits:
        return list(found)
    start, counters = found
    rounds(start, count, order, program.barriers, watch)
    return list(counters())


def _memory(
    object_: Object, shape: tuple[int, ...], arrays: Mapping[str, np.ndarray[Any, Any]], empty: Iterable[str]
) -> list[bool | int | float | None]:
    """The elements, one after another."""
    if object_.memory == "shared" or object_.name in empty:
        return [None] * int(np.prod(shape))
    given = arrays.get(object_.name)
    cells: list[bool | int | float | None] = (np.zeros(shape, DTYPES[object_.type]) if given is None else given).ravel().tolist()
    return cells


def _output(object_: Object, memory: Mapping[Object, list[Any]], sizes: Mapping[Object, tuple[int, ...]]) -> np.ndarray[Any, Any]:
    cells = [0 if one is None else one for one in memory[object_]]
    return np.array(cells, DTYPES[object_.type]).reshape(sizes[object_])
