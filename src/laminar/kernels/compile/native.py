"""A kernel as native code.

    native = compiled(kernel)
    native.run([x, y], [0.1], count=x.size, threads=2)

Every way of running gives the same: bit by bit, but for the order of float atomics, and for functions of mathematics, which are within the
ulps that functions.py says of the C library's.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.proofs import accesses
from laminar.kernels.analyse.space import Space
from laminar.kernels.arguments import DTYPES, check_assumptions, evaluated, shape_of
from laminar.kernels.compile import cache
from laminar.kernels.compile.board import CLAIM, Status
from laminar.kernels.compile.board import MOST as MOST_THREADS
from laminar.kernels.compile.body import OUTSIDE
from laminar.kernels.compile.boxes import Plan
from laminar.kernels.compile.build import built
from laminar.kernels.compile.entry import RUN
from laminar.kernels.compile.grid import Shape
from laminar.kernels.compile.host import host, linked, object_code
from laminar.kernels.compile.interrupts import INTERRUPTED, heard, interrupt
from laminar.kernels.compile.plan import independent, planned
from laminar.kernels.compile.together import Pace, Shared
from laminar.kernels.compile.watch import Watch
from laminar.kernels.emulate.findings import HINTS
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.digest import digest
from laminar.kernels.language.room import too_large
from laminar.kernels.language.rules import KernelError, excerpt
from laminar.kernels.language.tree import (
    At,
    Barrier,
    Kernel,
    Object,
    Type,
    Variable,
    statements,
)
from laminar.kernels.language.types import converted

Array: TypeAlias = np.ndarray[Any, Any]
Scalar: TypeAlias = int | float | bool

REMEMBERED: Final = 256  # calls that were found to fit


_RUN: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


@dataclass(frozen=True)
class Options:
    """`lanes`: instances side by side in vectors; `blocks`: several such, in registers. Without them: one instance after another."""

    lanes: bool = True
    blocks: bool = True
    cached: bool = True

    @property
    def key(self) -> str:
        return f"lanes {self.lanes} blocks {self.blocks}"


DEFAULT: Final = Options()


@final
class Native:
    """`address`: of `int32 run(int64 begin, int64 end, int64 count, void** arrays, void* values, Status* status)`. `independent`: instances
    may run in any order and at the same time."""

    def __init__(self, kernel: Kernel, code: bytes, plan: Plan | None, *, independent: bool, file: str = "kernel.c") -> None:
        self.kernel, self.plan, self.independent, self._file = kernel, plan, independent, file
        self._library, found = linked(code, kernel.name, RUN, CLAIM)
        self.address, self._claim = found[RUN], found[CLAIM]
        self._call: Callable[..., int] = _RUN(self.address)
        kinds = {"float": "f4x", "double": "d"}  # eight bytes each
        self._slots = struct.Struct("<" + "".join(kinds.get(one.of.type, "q") for one in kernel.values))
        self._types: list[Type] = [one.of.type for one in kernel.values]
        self._written = [place for place, one in enumerate(kernel.arrays) if one.mode != "in"]
        self._fits: set[object] = set()
        self._space: Space | None = None
        self._pace = Pace()

    @property
    def described(self) -> str:
        """How instances are run, in words."""
        return "one instance after another" if self.plan is None else self.plan.text

    def run(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int, threads: int = 1) -> None:
        """Arrays and values in the order of the kernel's parameters; outputs are changed in place. Raises L702, L703, L704."""
        self._fit(arrays, values, count)
        self.bound(arrays, values, count, threads)()

    def run_part(
        self, begin: int, end: int, count: int, arrays: Sequence[Array], values: Sequence[Scalar], sizes: int | None = None
    ) -> None:
        """Only the instances from begin to before end, of so many. `sizes`: no array's size is made of values behind the first so many."""
        self._fit(arrays, values, count, sizes)
        if not 0 <= begin <= end <= count:
            raise LaminarError("L702", f"{self._file}: instances {begin} to {end} of {count}", hint="a part of what there is")
        pointers, slots = self._given(arrays, values)
        status = heard(Status())
        if begin < end and self._call(begin, end, count, pointers, slots, ctypes.addressof(status)):
            self.fail(status)

    def _fit(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int, sizes: int | None = None) -> None:
        """Once for all calls that look the same."""
        seen = (count, *values[:sizes], *((one.shape, one.dtype.char, one.flags.c_contiguous) for one in arrays))
        if seen not in self._fits:
            self._check(arrays, values, count)
            if len(self._fits) >= REMEMBERED:
                self._fits.clear()
            self._fits.add(seen)

    def noting(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int, status: int) -> Callable[[], bool]:
        """To be called many times on this thread, with a status of the caller's, and arguments that were checked; whether it went well."""
        pointers, slots = self._given(arrays, values)

        def run() -> bool:
            if not self._call(0, count, count, pointers, slots, status):
                return True
            if Status.from_address(status).kind == INTERRUPTED:
                interrupt(Status.from_address(status))
            return False

        run.holds = (self, arrays)  # type: ignore[attr-defined]  # as long as it is there, so are the code and the arrays
        return run

    def _given(self, arrays: Sequence[Array], values: Sequence[Scalar]) -> tuple[Any, Any]:
        places = [one.ctypes.data for one in arrays]
        self._check_apart(arrays, places)
        packed = self._slots.pack(*(converted(value, type_) for value, type_ in zip(values, self._types, strict=True)))
        return (ctypes.c_void_p * max(len(places), 1))(*places), ctypes.create_string_buffer(packed, len(packed) + 8)

    def bound(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int, threads: int = 1) -> Callable[[], None]:
        """The same, to be called many times with the same arrays; shapes and dtypes are the caller's to check."""
        pointers, slots = self._given(arrays, values)
        if count == 0:
            return lambda: None
        if threads > 1 and self.independent:
            shared = Shared(self._call, self._claim, self.fail, self._pace)
            together = shared.bound(pointers, slots, self.unit(values, count), count, min(threads, MOST_THREADS))
            together.arrays = arrays  # type: ignore[attr-defined]  # as long as it is there, so are they
            return together
        status, call = heard(Status()), self._call
        place = ctypes.addressof(status)

        def alone() -> None:
            if call(0, count, count, pointers, slots, place):
                self.fail(status)

        alone.arrays = arrays  # type: ignore[attr-defined]
        return alone

    def unit(self, values: Sequence[Scalar], count: int) -> int:
        """Instances that are best run together."""
        if self.plan is None:
            return 1
        if not self.plan.axis:
            return self.plan.shape.instances
        self._space = self._space or Space.of(self.kernel)
        scalars = {self.kernel.count: count, **{one.of: int(value) for one, value in zip(self.kernel.values, values, strict=True)}}
        size = 1
        for factor in self._space.cuts[self.plan.axis - 1]:
            size *= evaluated(self._space.resolved_deep(self._space.sizes[factor]), scalars) or 1  # type: ignore[arg-type]
        return max(size * self.plan.shape.rows, 1)

    def _check(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int) -> None:
        parameters, wanted = self.kernel.arrays, self.kernel.values
        if len(arrays) != len(parameters) or len(values) != len(wanted):
            said = f"{len(parameters)} arrays and {len(wanted)} values are needed, {len(arrays)} and {len(values)} are given"
            raise LaminarError("L702", f"{self._file}: {said}", hint="those that the kernel declares, in order")
        most = 2**31 - 1 if "int" in (self.kernel.instance.type, self.kernel.count.type) else 2**63 - 1
        if not 0 <= count <= most:
            raise LaminarError("L702", f"{self._file}: {count:,} instances", hint=f"from 0 to {most:,}")
        for parameter, value in zip(wanted, values, strict=True):
            bits = {"int": 31, "long": 63}.get(parameter.of.type)
            if bits and not -(2**bits) <= value < 2**bits:
                raise LaminarError(
                    "L702", f"{self._file}: `{parameter.name}` is {value}, too large", hint=f"a value that a {parameter.of.type} holds"
                )
        scalars: Mapping[Variable, Any] = {
            self.kernel.count: count,
            **{one.of: value for one, value in zip(wanted, values, strict=True) if isinstance(one.of, Variable)},
        }
        check_assumptions(self.kernel, scalars, self._file)
        for one, array in zip(parameters, arrays, strict=True):
            assert isinstance(one.of, Object)
            shape, dtype = shape_of(one.of, scalars), DTYPES[one.of.type]
            if array.shape != shape or array.dtype.name != dtype or not array.flags.c_contiguous:
                has = f"{array.dtype.name} {array.shape}" + ("" if array.flags.c_contiguous else ", not contiguous")
                raise LaminarError(
                    "L702", f"{self._file}: `{one.name}` is {has}, and should be {dtype} {shape}", hint="np.ascontiguousarray(array, dtype)"
                )
            if one.mode != "in" and not array.flags.writeable:
                raise LaminarError("L702", f"{self._file}: `{one.name}` is written, and the array is read-only", hint="a copy of it")

    def _check_apart(self, arrays: Sequence[Array], places: list[int]) -> None:
        for place in self._written:
            low, high = places[place], places[place] + arrays[place].nbytes
            for other, start in enumerate(places):
                if other != place and start < high and low < start + arrays[other].nbytes:
                    names = [self.kernel.arrays[one].name for one in (place, other)]
                    said = f"`{names[0]}` and `{names[1]}` are the same memory, and `{names[0]}` is written"
                    raise LaminarError("L702", f"{self._file}: {said}", hint=f"a copy for `{names[1]}`")

    def fail(self, status: Status, more: str = "") -> NoReturn:
        """Say what a call noted in its status. `more`: what else mends a loop that does not end."""
        at = At(status.line, status.column)
        where, shown = f"{self._file}:{at.line}:{at.column}", excerpt(self.kernel.text, at)
        if status.kind == INTERRUPTED:
            interrupt(status)
        if status.kind != OUTSIDE:
            said = f"{where}: the loop went on for more than {status.size:,} rounds in instance {status.instance}"
            raise LaminarError("L704", f"{said}\n{shown}", hint=f"mend the loop's condition{more}")
        name = next((one.object.name for one in reversed(accesses(self.kernel)) if one.at == at), "an array")  # a store after its loads
        said = f"{where}: instance {status.instance} uses element {status.index} of `{name}`, which has {status.size:,} there"
        raise LaminarError("L703", f"{said}\n{shown}", hint=HINTS["out-of-bounds"])


def waits(kernel: Kernel) -> bool:
    """Are there barriers or shared arrays?"""
    return any(one.memory == "shared" for one in kernel.objects) or any(isinstance(one, Barrier) for one in statements(kernel.body))


def check_small(kernel: Kernel, file: str = "kernel.c") -> None:
    """As it was read; what is made of it may have more."""
    large = too_large(kernel.objects)
    if large is not None:
        at, said, instead = large
        raise KernelError("K19", at, said, instead=instead, text=kernel.text, name=file)


def text_of(kernel: Kernel, space: Space, plan: Plan | None, watch: Watch | None = None) -> str:
    try:
        return built(kernel, space, plan, watch)
    except RecursionError:
        raise LaminarError("L701", "expressions within expressions go too deep", hint="give parts names of their own") from None


def compiled(kernel: Kernel, options: Options = DEFAULT, *, file: str = "kernel.c") -> Native:
    """From the cache on the disk, if it is there. Kernels with barriers or shared arrays are taken apart first (circuit/phases.py)."""
    if waits(kernel):
        raise ValueError("barriers and shared arrays: circuit/phases.py makes kernels without them")
    check_small(kernel, file)
    kernel = contracted(kernel)
    name = cache.key(digest(kernel), options.key, host().key)
    found = cache.kept(name) if options.cached else None
    if found is None:
        space = Space.of(kernel)
        free = independent(kernel, space)
        plan = planned(kernel, space, host(), blocks=options.blocks) if options.lanes and free else None
        told: dict[str, Any] = {
            "independent": free,
            "plan": [plan.shape.rows, plan.shape.vectors, plan.shape.width, plan.axis] if plan else None,
        }
        found = told, object_code(text_of(kernel, space, plan))
        if options.cached:
            cache.keep(name, *found)
    told, code = found
    shape = told["plan"]
    return Native(kernel, code, Plan(Shape(*shape[:3]), shape[3]) if shape else None, independent=told["independent"], file=file)
