"""Native code behind a routine, called with as few detours as there can be.

Few instances run in the caller's thread, by the address of the code. Many are shared with the threads that torch would use, unless the
order of sums would then depend on chance. Few that take long may run as a circuit (split.py). Kernels with barriers run phase by phase.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, final

import numpy as np
import torch
from torch import Tensor

from laminar.kernels.arguments import Array, Value
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.phases import phases, run_plan
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.native import Native, compiled
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import WHOLE, Atomic, Barrier, Binary, Block, Kernel, Load, Object, Statement, Store, Type, statements
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

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        """Tensors are contiguous, on the CPU, and in the order of the kernel's arrays. Raises L703, L704."""


def engine_of(kernel: Kernel, file: str) -> Engine:
    waits = any(isinstance(one, Barrier) for one in statements(kernel.body)) or any(one.memory == "shared" for one in kernel.objects)
    return Phased(kernel, file) if waits else Direct(kernel, file)


class _Own(threading.local):
    """Each thread's: where a call notes what went wrong."""

    def __init__(self) -> None:
        self.status = Status()
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

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:
        if count >= MANY and not self._ordered and (threads := torch.get_num_threads()) > 1:
            self._native.run(self._arrays(tensors), list(values), count, threads)
            return
        if self._split is not None and self._cost * count > LONG and count < MANY:
            self._split.run(self._arrays(tensors), values, count, lambda: self._whole(tensors, slots, count))
            return
        self._whole(tensors, slots, count)

    def _whole(self, tensors: Sequence[Tensor], slots: bytes, count: int) -> None:
        call = self._holding if count <= FEW and self._cost * count < LONG else self._freeing
        own = self._own
        if call(0, count, count, self._pointers(*[one.data_ptr() for one in tensors]), slots, own.place):
            self._native.fail(own.status)  # what was changed so far stays: a second run might not fail

    def _arrays(self, tensors: Sequence[Tensor]) -> list[Array]:
        arrays = (one.detach().numpy() for one in tensors)
        return [array.reshape(-1) if flat else array for array, flat in zip(arrays, self._flat, strict=True)]


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
        self._kernel, self._plan = kernel, phases(kernel)
        self._natives = {id(one): compiled(one, file=file) for one in self._plan.phases}

    def slots(self, values: Sequence[Any]) -> bytes:  # noqa: ARG002 - phases take values by name
        return b""

    def run(self, tensors: Sequence[Tensor], slots: bytes, values: Sequence[Any], count: int) -> None:  # noqa: ARG002
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for one, tensor in zip(self._kernel.arrays, tensors, strict=True):
            array = tensor.detach().numpy()
            arrays[one.name] = array.reshape(-1) if isinstance(one.of, Object) and len(one.of.shape) == 1 else array
        run_plan(self._plan, self._phase, arrays, {one.name: value for one, value in zip(self._kernel.values, values, strict=True)}, count)

    def _phase(self, kernel: Kernel, arrays: dict[str, Array], values: Mapping[str, Value], count: int) -> None:
        ordered = [arrays[one.name] for one in kernel.arrays]
        self._natives[id(kernel)].run(ordered, [values[one.name] for one in kernel.values], count)
