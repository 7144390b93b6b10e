"""Native code that counts: the emulator's report, at about the speed of plain native code.

Reads and writes are counted by region (regions.py), exactly as the tree says. Bounds, division by zero and, where it is not proved that
instances never meet, races are looked for; as soon as something is found, the emulator runs the kernel and tells all of it. Not looked for:
elements and variables without a value, and how far neighbours' accesses are apart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from laminar.kernels.arguments import Value, shape_of
from laminar.kernels.compile import cache
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.body import ENDLESS
from laminar.kernels.compile.entry import SHADOWS, STATUS, Watch
from laminar.kernels.compile.host import host, object_code
from laminar.kernels.compile.native import Native, accesses, check_small, text_of
from laminar.kernels.compile.plan import independent, planned
from laminar.kernels.compile.regions import Regions
from laminar.kernels.compile.space import Space
from laminar.kernels.emulate.report import Access, Register, Report
from laminar.kernels.emulate.run import STEPS, emulate
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.digest import digest
from laminar.kernels.language.tree import Atomic, Barrier, Kernel, Object, Store, Variable, statements


class Instrumented:
    """A kernel with counters, compiled once."""

    def __init__(self, kernel: Kernel, file: str = "kernel.c", steps: int = STEPS) -> None:
        """`steps`: rounds that an instance may take in a loop that may have no end, with those of loops within it."""
        self.kernel, self._file, self._steps = kernel, file, steps
        self._ready = ready = contracted(kernel)
        self._regions = Regions.of(ready)
        space = Space.of(ready)
        self._native: Native | None = None
        if any(one.memory == "shared" for one in kernel.objects) or any(isinstance(one, Barrier) for one in statements(kernel.body)):
            return  # the emulator knows barriers
        check_small(kernel)
        free = independent(ready, space)
        self._shared = () if free else _written(ready)
        if any(isinstance(one, Atomic) and one.object in self._shared for one in statements(ready.body)):
            return  # atomics beside other accesses: the emulator tells them apart
        plan = planned(ready, space, host()) if free else None
        name = cache.key(digest(ready), f"instrumented {steps}", host().key)
        found = cache.kept(name)
        if found is None:
            found = {}, object_code(text_of(ready, space, plan, Watch(self._regions, self._shared, steps)))
            cache.keep(name, *found)
        self._native = Native(ready, found[1], plan, independent=free, file=file)

    def run(self, arrays: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, Value], count: int) -> Report:
        """The arrays stay as they are."""
        scalars: dict[Variable, Value] = {self.kernel.count: count}
        scalars |= {one.of: values[one.name] for one in self.kernel.values if isinstance(one.of, Variable)}
        shapes = {one: shape_of(one, scalars) for one in self.kernel.objects}
        copies = {one.name: np.array(arrays[one.name]) if one.mode != "in" else arrays[one.name] for one in self.kernel.arrays}
        counts = self._counted(list(copies.values()), [values[one.name] for one in self.kernel.values], count, shapes)
        if counts is None:
            return emulate(self.kernel, arrays, values, count, None, self._steps, file=self._file)
        regions = self._regions
        found = [Access(at, object_, kind, counts[region]) for region, at, object_, kind in regions.accesses]
        registers = [Register(line, *(part * counts[region] for part in parts)) for (region, line), parts in regions.registers.items()]
        outputs = {one.name: copies[one.name] for one in self.kernel.arrays if one.mode != "in"}
        return Report(self.kernel, count, outputs, tuple(found), tuple(registers), (), shapes, self._file)

    def _counted(self, arrays: list[Any], values: list[Any], count: int, shapes: dict[Object, tuple[int, ...]]) -> list[int] | None:
        """How often each region ran; None: something is wrong, or it cannot be run this way. Raises L704."""
        if self._native is None:
            return None
        size = len(self._regions.numbers)
        shadows = [np.zeros(int(np.prod(shapes[one])), "int64") for one in self._shared for _ in range(SHADOWS)]
        room = (ctypes.c_int64 * (STATUS // 8 + size + len(shadows)))()
        for number, one in enumerate(shadows):
            room[STATUS // 8 + size + number] = one.ctypes.data
        if self._native.call(arrays, values, count, ctypes.addressof(room)):
            status = Status.from_buffer(room)
            if status.kind == ENDLESS:
                self._native.fail(status)  # the emulator would get there, too, and take its time
            return None
        return list(room[STATUS // 8 : STATUS // 8 + size])


def instrumented(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    values: Mapping[str, Value],
    count: int,
    steps: int = STEPS,
    *,
    file: str = "kernel.c",
) -> Report:
    """As `emulate` has it."""
    return Instrumented(kernel, file, steps).run(arrays, values, count)


def _written(kernel: Kernel) -> tuple[Object, ...]:
    """Arrays that instances share and change, but for those with nothing but atomics."""
    changed = {one.object for one in statements(kernel.body) if isinstance(one, (Store, Atomic)) and one.object.memory != "local"}
    plain = {one.object for one in accesses(kernel) if not isinstance(one, Atomic)}
    return tuple(one for one in kernel.objects if one in changed and one in plain)
