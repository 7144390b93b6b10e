"""Native code that counts: the emulator's report, at about the speed of plain native code.

Reads and writes are counted by region (regions.py), exactly as the tree says. Bounds, division by zero, variables and elements without a
value and, where it is not proved that instances never meet, races are looked for; as soon as something is found, the emulator runs the
kernel and tells all of it. How far neighbours' accesses are apart is seen of some stretches of them (watch.py).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from laminar.kernels.analyse.space import Space
from laminar.kernels.arguments import Value, shape_of
from laminar.kernels.compile import cache
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.body import ENDLESS
from laminar.kernels.compile.host import host, object_code
from laminar.kernels.compile.interrupts import heard
from laminar.kernels.compile.marks import Bits
from laminar.kernels.compile.native import Native, check_small, text_of, waits
from laminar.kernels.compile.plan import independent, planned
from laminar.kernels.compile.watch import MOST_OWNERS, Watch
from laminar.kernels.emulate.report import Access, Register, Report
from laminar.kernels.emulate.run import STEPS, emulate
from laminar.kernels.emulate.strides import Stride, recorded
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.digest import digest
from laminar.kernels.language.tree import Kernel, Object, Variable

WINDOW: Final = 32  # neighbouring instances whose elements are recorded
APART: Final = 1 << 15  # instances for each such stretch …
BLOCKS: Final = 64  # … and blocks: the one that it is in is cut in two
MOST_PARTS: Final = 16

Marks = dict[str, np.ndarray[Any, Any]]
_SHADOWS: Final = {"few": "int8", "owner": "int32"}


class Room:
    """Where a run notes what watch.py says: words behind a status, and what they point at."""

    def __init__(
        self, watch: Watch, kernel: Kernel, values: Mapping[str, Value], count: int, unit: int, marks: Marks | None = None
    ) -> None:
        """`unit`: instances that are best run together. `marks`: which elements have a value, where that is known from runs before."""
        parts, self.window = max(1, min(MOST_PARTS, count // max(APART, BLOCKS * unit))), min(WINDOW, count)
        unit = unit if count > self.window else max(count, 1)
        scalars, shapes = _scalars(kernel, values, count), shapes_of(kernel, values, count)
        sizes = {one: math.prod(shapes[one]) for one in (*watch.races, *watch.empty)}
        bits = {one: Bits(sizes[one]) for one, sort in watch.races.items() if sort == "once"}
        met = [bits[one].bytes if one in bits else np.zeros(sizes[one], _SHADOWS[sort]) for one, sort in watch.races.items()]
        apart = [each for one in watch.races if one in watch.beside for each in watch.beside[one].distances(scalars, shapes)]
        known = marks if marks is not None else {}
        self._filled = [known.setdefault(one.name, np.zeros(sizes[one], "int8")) for one in watch.empty]
        self.records = np.zeros((parts * self.window, len(watch.regions.accesses), watch.record), "int64")
        self._words = (ctypes.c_int64 * watch.words)()
        self._counters = slice(watch.word("counters"), watch.word("races"))
        for first, found in (("races", met), ("filled", self._filled)):
            for number, one in enumerate(found, watch.word(first)):
                self._words[number] = one.ctypes.data
        for first, numbers in (("shifts", [bits[one].shift if one in bits else 0 for one in watch.races]), ("apart", apart)):
            for number, value in enumerate(numbers, watch.word(first)):
                self._words[number] = value
        for name, value in (("records", self.records.ctypes.data), ("parts", parts), ("window", self.window), ("unit", unit)):
            self._words[watch.word(name)] = value
        self.place = ctypes.addressof(self._words)
        heard(self.status)
        self._regions = watch.regions
        self._met = met
        self._own = [(one.ctypes.data, one.nbytes) for one in (*met, self.records)]
        self._own.append((self.place + 8 * watch.word("made"), 8 * len(met)))
        self._all = [(one.ctypes.data, one.nbytes) for one in self._filled]
        self._all.append((self.place, ctypes.sizeof(ctypes.c_int64) * watch.word("races")))

    @property
    def status(self) -> Status:
        return Status.from_buffer(self._words)

    @property
    def counters(self) -> list[int]:
        """How often each region was run."""
        return self._regions.all(self._words[self._counters])

    @property
    def strides(self) -> list[Stride]:
        return recorded(self.records, self.window)

    def clear(self) -> None:
        """For another run."""
        self.go_on()
        for place, size in self._all:
            ctypes.memset(place, 0, size)
        heard(self.status)

    def go_on(self) -> None:
        """For the next one behind a barrier: it counts on, and meets nobody from before."""
        for place, size in self._own:
            ctypes.memset(place, 0, size)


def _scalars(kernel: Kernel, values: Mapping[str, Value], count: int) -> dict[Variable, Value]:
    return {kernel.count: count} | {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}


def shapes_of(kernel: Kernel, values: Mapping[str, Value], count: int) -> dict[Object, tuple[int, ...]]:
    scalars = _scalars(kernel, values, count)
    return {one: shape_of(one, scalars) for one in kernel.objects}


def watched(kernel: Kernel, empty: frozenset[str], steps: int, file: str) -> tuple[Native, Watch]:
    """Code with counters of a kernel without barriers, and what it counts."""
    check_small(kernel, file)
    space = Space.of(kernel)
    free = independent(kernel, space)
    watch = Watch.of(kernel, independent=free, empty=empty, rounds=steps)
    plan = planned(kernel, space, host()) if free else None
    name = cache.key(digest(kernel), f"instrumented {steps} {sorted(empty)}", host().key)
    found = cache.kept(name)
    if found is None:
        found = {}, object_code(text_of(kernel, space, plan, watch))
        cache.keep(name, *found)
    return Native(kernel, found[1], plan, independent=free, file=file), watch


class Instrumented:
    """A kernel with counters, compiled once."""

    def __init__(self, kernel: Kernel, file: str = "kernel.c", steps: int = STEPS, empty: Iterable[str] = ()) -> None:
        """`steps`: rounds that an instance may take in a loop that may have no end, with those of loops within it. `empty`: arrays that
        start without values."""
        self.kernel, self._file, self._steps, self._empty = kernel, file, steps, frozenset(empty)
        ready = contracted(kernel)
        self._native: Native | None = None
        if waits(kernel):
            return  # circuit/counted_phases.py knows barriers
        self._native, self._watch = watched(ready, self._empty, steps, file)

    def run(self, arrays: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, Value], count: int) -> Report:
        """The arrays stay as they are."""
        copies = {one.name: np.array(arrays[one.name]) if one.mode != "in" else arrays[one.name] for one in self.kernel.arrays}
        room = self._ran(list(copies.values()), values, count)
        if room is None:
            return emulate(self.kernel, arrays, values, count, None, self._steps, empty=self._empty, file=self._file)
        regions, counts = self._watch.regions, room.counters
        found = [
            Access(at, object_, kind, counts[region], stride if object_.memory != "local" else None)
            for (region, at, object_, kind), stride in zip(regions.accesses, room.strides, strict=True)
        ]
        registers = [Register(line, *(part * counts[region] for part in parts)) for (region, line), parts in regions.registers.items()]
        outputs = {one.name: copies[one.name] for one in self.kernel.arrays if one.mode != "in"}
        return Report(self.kernel, count, outputs, tuple(found), tuple(registers), (), shapes_of(self.kernel, values, count), self._file)

    def bound(self, arrays: list[Any], values: Mapping[str, Value], count: int) -> Callable[[], bool] | None:
        """The native part of `run`, to be called many times; whether nothing was found. None: it is the emulator's."""
        native = self._native
        if native is None:
            return None
        numbers = [values[one.name] for one in self.kernel.values]
        room = Room(self._watch, self.kernel, values, count, native.unit(numbers, count))
        run = native.noting(arrays, numbers, count, room.place)

        def again() -> bool:
            room.clear()
            return run()

        return again

    def _ran(self, arrays: list[Any], values: Mapping[str, Value], count: int) -> Room | None:
        """What was noted; None: something is wrong, or it cannot be run this way. Raises L704."""
        if self._native is None or (self._watch.races and count > MOST_OWNERS):
            return None
        numbers = [values[one.name] for one in self.kernel.values]
        room = Room(self._watch, self.kernel, values, count, self._native.unit(numbers, count))
        if not self._native.noting(arrays, numbers, count, room.place)():
            if room.status.kind == ENDLESS:
                self._native.fail(room.status, f", or --steps {self._steps * 10}")  # the emulator would get there, too, and take its time
            return None
        return room


def instrumented(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    values: Mapping[str, Value],
    count: int,
    steps: int = STEPS,
    *,
    empty: Iterable[str] = (),
    file: str = "kernel.c",
) -> Report:
    """As `emulate` has it."""
    return Instrumented(kernel, file, steps, empty).run(arrays, values, count)
