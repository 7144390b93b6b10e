"""Native code behind a routine, called with as few detours as there can be.

Few instances run in the caller's thread, by the address of the code. Many are shared with the threads that torch would use, unless the
order of sums would then depend on chance. Few that take long may run as a circuit (split.py). Kernels with barriers run phase by phase.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, final

import torch
from torch import Tensor

from laminar.kernels.arguments import Array
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.guess import Account
from laminar.kernels.circuit.native_phases import NativePhases
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.interrupts import heard
from laminar.kernels.compile.native import Native, compiled, waits
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import WHOLE, Atomic, Binary, Block, Kernel, Load, Object, Statement, Store, Type, statements
from laminar.kernels.operator.split import LONG, Split

_ARGUMENTS: Final = (ctypes.c_int32, *(ctypes.c_int64,) * 3, *(ctypes.c_void_p,) * 3)
_HOLDING: Final = ctypes.PYFUNCTYPE(*_ARGUMENTS)
_FREEING: Final = ctypes.CFUNCTYPE(*_ARGUMENTS)
FEW: Final = 4096
"""Instances up to which the interpreter stays locked: letting go of it costs a short call more than it gives the others."""
MANY: Final = 16384
"""Instances from which other threads are asked."""
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
class Direct:
    def __init__(self, kernel: Kernel, file: str) -> None:
        summed = _sums(kernel)
        self._native: Native = compiled(_InOrder().kernel(kernel) if summed else kernel, file=file)
        self._holding, self._freeing = _HOLDING(self._native.address), _FREEING(self._native.address)
        self._slots = struct.Struct("<" + "".join(_SLOT[one.of.type] for one in kernel.values) + "q")
        self._pointers = struct.Struct(f"{len(kernel.arrays)}P").pack
        self._own = _Own()
        self._flat = [isinstance(one.of, Object) and len(one.of.shape) == 1 for one in kernel.arrays]
        self._ordered = summed or not self._native.independent
        self._split = None if summed else Split(kernel, file)
        self._cost = 0.0 if summed else cost(kernel.body) * 1e-9

    def slots(self, values: Sequence[Any]) -> bytes:
        return self._slots.pack(*values, 0)

    @property
    def guesses(self) -> Account:
        return self._split.account if self._split is not None else Account()

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        if count >= MANY and not self._ordered and (threads := torch.get_num_threads()) > 1:
            self._native.run(arrays_of(tensors, self._flat), list(values), count, threads)
            return
        if self._split is not None and self._cost * count > LONG and count < MANY:
            self._split.run(arrays_of(tensors, self._flat), values, count, lambda: self._whole(tensors, slots, count))
            return
        self._whole(tensors, slots, count)

    def _whole(self, tensors: Sequence[Tensor], slots: bytes, count: int) -> None:
        call = self._holding if count <= FEW and self._cost * count < LONG else self._freeing
        own = self._own
        if call(0, count, count, self._pointers(*[one.data_ptr() for one in tensors]), slots, own.place):
            self._native.fail(own.status)  # what was changed so far stays: a second run might not fail


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
