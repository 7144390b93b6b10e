"""Native code behind a routine, called with as few detours as there can be.

Few instances run in the caller's thread, by the address of the code. Many are shared with the threads that torch would use, unless the
order of sums would then depend on chance. One instance is never run as lanes. Calls that take long may run as a circuit (split.py), if that
is measured to be faster. Kernels with barriers run phase by phase.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, Protocol, final

import torch
from torch import Tensor

from laminar.kernels.analyse.counted import counted
from laminar.kernels.arguments import Array
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.guess import Account
from laminar.kernels.circuit.native_phases import NativePhases
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.interrupts import heard
from laminar.kernels.compile.native import Native, waits
from laminar.kernels.compile.variants import Variants
from laminar.kernels.language.fold import folded
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import WHOLE, Atomic, Binary, Block, Kernel, Load, Loop, Object, Statement, Store, Type, statements
from laminar.kernels.operator.decide import LONG, Way
from laminar.kernels.operator.split import Split

_ARGUMENTS: Final = (ctypes.c_int32, *(ctypes.c_int64,) * 3, *(ctypes.c_void_p,) * 3)
_HOLDING: Final = ctypes.PYFUNCTYPE(*_ARGUMENTS)
_FREEING: Final = ctypes.CFUNCTYPE(*_ARGUMENTS)
FEW: Final = 4096
"""Instances up to which the interpreter stays locked: letting go of it costs a short call more than it gives the others."""
MANY: Final = 16384
"""Instances from which other threads are asked."""
SHORT: Final = LONG / 4
"""Seconds, by the count of operators, up to which no call is measured."""
_SLOT: Final[dict[Type, str]] = {"bool": "q", "int": "q", "long": "q", "float": "f4x", "double": "d"}
DTYPES: Final[dict[Type, torch.dtype]] = {
    "bool": torch.bool,
    "int": torch.int32,
    "long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
}


class Engine(Protocol):
    def slots(self, values: Sequence[Any]) -> bytes:
        """Values as the code takes them."""

    @property
    def guesses(self) -> Account:
        """What all calls so far guessed that ran as a circuit."""

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        """Tensors are contiguous, on the CPU, and in the order of the kernel's arrays. Raises L703, L704."""


def engine_of(kernel: Kernel, file: str) -> Engine:
    return Phased(kernel, file) if waits(kernel) else Direct(kernel, file)


class _Own(threading.local):
    """Each thread's: where a call notes what went wrong."""

    def __init__(self) -> None:
        self.status = heard(Status())
        self.place = ctypes.addressof(self.status)


@final
class _Way:
    """Native code, to be called with the interpreter locked or free."""

    def __init__(self, native: Native) -> None:
        self.native = native
        self.holding, self.freeing = _HOLDING(native.address), _FREEING(native.address)


@final
class Direct:
    def __init__(self, kernel: Kernel, file: str) -> None:
        summed = _sums(kernel)
        self._code = Variants(_InOrder().kernel(kernel) if summed else kernel, file=file)
        self._slots = struct.Struct("<" + "".join(_SLOT[one.of.type] for one in kernel.values) + "q")
        self._pointers = struct.Struct(f"{len(kernel.arrays)}P").pack
        self._own = _Own()
        self._flat = [isinstance(one.of, Object) and len(one.of.shape) == 1 for one in kernel.arrays]
        self._summed = summed
        self._split = None if summed else Split(kernel, file)
        self._cost = 0.0 if summed else cost(kernel.body) * 1e-9
        self._may_be_long = not summed and _unbounded(kernel)

    @cached_property
    def _scalar(self) -> _Way:
        return _Way(self._code.scalar)

    @cached_property
    def _several(self) -> _Way:
        return _Way(self._code.several)

    @cached_property
    def _ordered(self) -> bool:
        return self._summed or not self._code.several.independent

    def slots(self, values: Sequence[Any]) -> bytes:
        return self._slots.pack(*values, 0)

    @property
    def guesses(self) -> Account:
        return self._split.account if self._split is not None else Account()

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        if count >= MANY:
            if (threads := torch.get_num_threads()) > 1 and not self._ordered:
                self._several.native.run(arrays_of(tensors, self._flat), list(values), count, threads)
            else:
                self._call(self._several, tensors, slots, count)
            return
        if self._split is not None and (self._may_be_long or self._cost * count > SHORT):
            self._measured(self._split, tensors, slots, values, count)
            return
        self._call(self._scalar if count == 1 else self._several, tensors, slots, count)

    def _measured(self, split: Split, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        if not split.asleep:
            by = partial(self._by, tensors, slots, count)
            split.run(lambda: arrays_of(tensors, self._flat), values, count, by, self._ways(count))
            return
        way = self._scalar if count == 1 else self._several
        began = time.perf_counter()
        self._call(way, tensors, slots, count)
        seconds = time.perf_counter() - began
        if seconds >= LONG:
            split.long_call(values, count, self._ways(count), seconds)

    def _ways(self, count: int) -> tuple[Way, ...]:
        """The plain one first."""
        return ("scalar",) if count == 1 else ("lanes", "scalar") if self._code.several.plan is not None else ("lanes",)

    def _by(self, tensors: Sequence[Tensor], slots: bytes, count: int, way: Way, long: bool) -> None:
        self._call(self._scalar if way == "scalar" else self._several, tensors, slots, count, long=long)

    def _call(self, way: _Way, tensors: Sequence[Tensor], slots: bytes, count: int, *, long: bool = False) -> None:
        call = way.holding if count <= FEW and self._cost * count < LONG and not long else way.freeing
        own = self._own
        if call(0, count, count, self._pointers(*[one.data_ptr() for one in tensors]), slots, own.place):
            way.native.fail(own.status)  # what was changed so far stays: a second run might not fail


def _unbounded(kernel: Kernel) -> bool:
    """Are there loops of which the text does not tell how many rounds they have?"""
    loops = [(one, counted(one)) for one in statements(kernel.body) if isinstance(one, Loop)]
    return any(found is None or folded(found.bound) is None for _, found in loops)


def _sums(kernel: Kernel) -> bool:
    """Do instances add to the same elements, so that rounding depends on their order?"""
    return any(isinstance(one, Atomic) and one.object.type not in WHOLE for one in statements(kernel.body))


class _InOrder(Rewrite):
    """For one thread, in which instances run one after another: what is atomic is a sum like any other."""

    def kernel(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=self.block(kernel.body))

    def statement(self, one: Statement) -> Block:
        if not (isinstance(one, Atomic) and one.operator == "add"):
            return super().statement(one)
        old = Load(one.at, one.object, one.index)
        return (Store(one.at, one.object, one.index, Binary(one.at, one.object.type, "+", old, one.value)),)


@final
class Phased:
    def __init__(self, kernel: Kernel, file: str) -> None:
        self._native = NativePhases(kernel, file=file)
        self._flat = [isinstance(one.of, Object) and len(one.of.shape) == 1 for one in kernel.arrays]

    def slots(self, values: Sequence[Any]) -> bytes:  # noqa: ARG002 - phases take values as they are
        return b""

    @property
    def guesses(self) -> Account:
        return Account()

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:  # noqa: ARG002
        self._native.run(arrays_of(tensors, self._flat), list(values), count)


def arrays_of(tensors: Sequence[Tensor], flat: Sequence[bool]) -> list[Array]:
    """`flat`: those of one dimension, whose tensors may have any shape."""
    arrays = (one.detach().numpy() for one in tensors)
    return [array.reshape(-1) if line else array for array, line in zip(arrays, flat, strict=True)]
