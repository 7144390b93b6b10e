"""Native code that counts, of kernels with barriers: phase by phase, and the counts of all phases are the kernel's.

A place of the text may be in several phases, and each of them may run many times; what was added to make phases (language/tree.py, Added)
is not counted. Instances meet only between two barriers, so who was at an element is forgotten at each; which elements have a value is not.
As soon as something is found, or where phases could not tell it, the emulator runs the kernel and tells all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.assigned import Assigned
from laminar.kernels.analyse.live import live_at_barriers
from laminar.kernels.arguments import Array, Value
from laminar.kernels.circuit.phases import Plan, phases, run_plan
from laminar.kernels.compile.instrumented import Marks, Room, instrumented, shapes_of, watched
from laminar.kernels.compile.native import Native, waits
from laminar.kernels.compile.regions import Regions
from laminar.kernels.compile.watch import MOST_OWNERS, Watch
from laminar.kernels.emulate.report import Access, Register, Report
from laminar.kernels.emulate.run import STEPS, emulate
from laminar.kernels.emulate.strides import recorded
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.tree import Added, At, Declare, Kernel, Load, Loop, Object, Read, Variable, expressions, statements, walk

MANY: Final = 1 << 62
Place = tuple[At, str]  # of the text, and whether it is read, written or changed there


class _Found(Exception):
    """Something is wrong, or there is no end of it."""


def counted(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    values: Mapping[str, Value],
    count: int,
    steps: int = STEPS,
    *,
    empty: Iterable[str] = (),
    file: str = "kernel.c",
) -> Report:
    """As `emulate` has it, with or without barriers."""
    if not waits(kernel):
        return instrumented(kernel, arrays, values, count, steps, empty=empty, file=file)
    made = CountedPhases.of(kernel, steps, empty, file)
    report = made.run(arrays, values, count) if made is not None else None
    return report or emulate(kernel, arrays, values, count, None, steps, empty=empty, file=file)


@final
class CountedPhases:
    """Compiled once."""

    def __init__(self, kernel: Kernel, plan: Plan, steps: int, empty: frozenset[str], file: str) -> None:
        self.kernel, self._plan, self._steps, self._file = kernel, plan, steps, file
        self._regions = Regions.of(plan.kernel)
        nothing = empty | {one.name for one in plan.added} - plan.values  # shared arrays too, and local ones of each instance
        self._code = {id(one): watched(one, nothing, steps, file) for one in plan.phases}

    @staticmethod
    def of(kernel: Kernel, steps: int = STEPS, empty: Iterable[str] = (), file: str = "kernel.c") -> CountedPhases | None:
        """None: the emulator has to. Variables that may have no value are kept without saying so, and a local array of a loop with what an
        earlier round wrote; and two places of one position, as of a function that is called twice, cannot be told apart."""
        ready = contracted(kernel)
        assigned = Assigned.of(ready)
        unsure = frozenset(assigned.unsure) | frozenset(assigned.unset)
        loops = tuple(one for one in statements(ready.body) if isinstance(one, Loop))
        kept = frozenset[Variable | Object]().union(*live_at_barriers(ready).values())
        again = kept & {one.what for one in statements(loops) if isinstance(one, Declare)}
        read = [
            part
            for one in statements(ready.body)
            for whole in expressions(one)
            for part in walk(whole)
            if isinstance(part, Read) or (isinstance(part, Load) and part.object in again)
        ]
        places = [(at, kind) for _, at, _, kind in Regions.of(ready).accesses]
        if any(id(one) in unsure for one in read) or len(set(places)) < len(places):
            return None
        try:
            plan = phases(ready)
        except LaminarError:  # not all instances reach a barrier, or nobody knows: the emulator sees what happens
            return None
        return CountedPhases(kernel, plan, steps, frozenset(empty), file)

    def run(self, arrays: Mapping[str, Array], values: Mapping[str, Value], count: int) -> Report | None:
        """None: the emulator has to. The arrays stay as they are."""
        copies = {one.name: np.array(arrays[one.name]) if one.mode != "in" else arrays[one.name] for one in self.kernel.arrays}
        if count > MOST_OWNERS:
            return None
        noted = _Noted(self._regions, self._plan, self._code, values, count)
        left = self._steps

        def phase(kernel: Kernel, every: dict[str, Array], named: Mapping[str, Value], count: int) -> None:
            nonlocal left
            left -= 1
            native, room = self._code[id(kernel)][0], noted.room(kernel)
            ordered = [every[one.name] for one in kernel.arrays]
            if not native.noting(ordered, [named[one.name] for one in kernel.values], count, room.place)() or left < 0:
                raise _Found
            noted.came(kernel)

        try:
            run_plan(self._plan, phase, copies, values, count)
        except _Found:
            return None
        outputs = {one.name: copies[one.name] for one in self.kernel.arrays if one.mode != "in"}
        shapes = shapes_of(self.kernel, values, count)
        return Report(self.kernel, count, outputs, tuple(noted.accesses()), tuple(noted.registers()), (), shapes, self._file)


@final
class _Noted:
    """What the phases of a run have counted."""

    def __init__(
        self, regions: Regions, plan: Plan, code: Mapping[int, tuple[Native, Watch]], values: Mapping[str, Value], count: int
    ) -> None:
        self._regions, self._phases, self._code = regions, plan.phases, code
        self._number: dict[Place, int] = {(at, kind): number for number, (_, at, _, kind) in enumerate(regions.accesses)}
        numbers = {id(one): [values[each.name] for each in one.values] for one in plan.phases}
        unit = max(code[id(one)][0].unit(numbers[id(one)], count) for one in plan.phases)  # so that all record the same instances
        marks: Marks = {}
        self._rooms = {id(one): Room(code[id(one)][1], one, values, count, unit, marks) for one in plan.phases}
        first = self._rooms[id(plan.phases[0])]
        self._window, self._depth = first.window, max(watch.depth for _, watch in code.values())
        self._records = np.zeros((len(first.records), len(regions.accesses), self._depth + 2), "int64")
        self._alike: list[int | None] = [0] * len(regions.accesses)  # how often all instances came to a place, if as often as each other
        self._sites = {id(one): list(self._own_sites(one)) for one in plan.phases}

    def _own_sites(self, phase: Kernel) -> Iterable[tuple[int, int]]:
        """Places of a phase whose elements are recorded, and which of the kernel's they are."""
        for site, (_, at, object_, kind) in enumerate(self._code[id(phase)][1].regions.accesses):
            if not isinstance(at, Added) and object_.memory != "local":
                yield site, self._number[at, kind]

    def room(self, phase: Kernel) -> Room:
        found = self._rooms[id(phase)]
        found.go_on()
        return found

    def came(self, phase: Kernel) -> None:
        """A phase has run: the elements that instances looked at are behind those of earlier ones."""
        new, watch = self._rooms[id(phase)].records, self._code[id(phase)][1]
        often = new[:, :, 0]
        most, least = often.max(0, initial=0).tolist(), often.min(0, initial=MANY).tolist()
        for site, mine in self._sites[id(phase)]:
            alike = self._alike[mine]
            if alike is not None and alike >= self._depth:
                continue  # no more of them are kept
            if alike is None or most[site] != least[site]:
                self._add(new[:, site], mine, min(watch.depth, most[site]))
                self._alike[mine] = None
                continue
            many = min(watch.depth, most[site], self._depth - alike)
            self._records[:, mine, 1 + alike : 1 + alike + many] = new[:, site, 1 : 1 + many]
            self._records[:, mine, 0] += most[site]
            self._alike[mine] = alike + most[site]

    def _add(self, new: np.ndarray[Any, Any], mine: int, most: int) -> None:
        """Of a place to which instances come more or less often than others."""
        often, before = new[:, 0], self._records[:, mine, 0].copy()
        for number in range(most):
            rows = np.flatnonzero((number < often) & (before + number < self._depth))
            self._records[rows, mine, 1 + before[rows] + number] = new[rows, 1 + number]
        self._records[:, mine, 0] += often

    def accesses(self) -> Iterable[Access]:
        times = [0] * len(self._regions.accesses)
        for phase in self._phases:
            counts = self._rooms[id(phase)].counters
            for region, at, _, kind in self._code[id(phase)][1].regions.accesses:
                if not isinstance(at, Added):
                    times[self._number[at, kind]] += counts[region]
        strides = recorded(self._records, self._window)
        for (_, at, object_, kind), many, stride in zip(self._regions.accesses, times, strides, strict=True):
            yield Access(at, object_, kind, many, stride if object_.memory != "local" else None)

    def registers(self) -> Iterable[Register]:
        for phase in self._phases:
            counts = self._rooms[id(phase)].counters
            for (region, line), parts in self._code[id(phase)][1].regions.registers.items():
                yield Register(line, *(part * counts[region] for part in parts))
