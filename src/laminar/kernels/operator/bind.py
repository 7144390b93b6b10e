"""Tensors and values to parameters.

Positional tensors are the kernel's inputs in order; names are for values, and for arrays where that is clearer. Sizes are told by the
shapes. A kernel whose arrays are all `[n]` takes tensors of any shape, one element an instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.kernels.arguments import DTYPES, declared, fitted
from laminar.kernels.language.tree import Kernel, Object, Parameter, Read

INSTANCES: Final = "instances"


@dataclass(frozen=True)
class Call:
    """`tensors`: the inputs, in order. `values`: those that were given; a tensor where one was given. `instances`: if given."""

    tensors: tuple[Tensor, ...]
    values: dict[str, Any]
    instances: int | None


def inputs_of(kernel: Kernel) -> tuple[Parameter, ...]:
    return tuple(one for one in kernel.arrays if one.mode != "out")


def is_flat(kernel: Kernel) -> bool:
    """Are all arrays of one element an instance?"""
    shapes = [one.of.shape for one in kernel.arrays if isinstance(one.of, Object)]
    return all(len(shape) == 1 and isinstance(shape[0], Read) and shape[0].variable is kernel.count for shape in shapes)


class Binder:
    def __init__(self, kernel: Kernel, file: str) -> None:
        self.kernel, self.file = kernel, file
        self.inputs = inputs_of(kernel)
        self.flat = is_flat(kernel)
        self._known = {one.name: one for one in kernel.parameters[2:]}

    def call(self, tensors: Sequence[Any], named: Mapping[str, Any]) -> Call:
        """Which is which. Raises L702."""
        known = self._known
        if len(tensors) > len(self.inputs):
            wanted = ", ".join(declared(one) for one in self.inputs)
            self.fail(f"{len(tensors)} tensors, and the kernel takes {len(self.inputs)} ({wanted})", "values and outputs by name")
        arrays = {one.name: tensor for one, tensor in zip(self.inputs, tensors, strict=False)}
        values: dict[str, Any] = {}
        instances = None
        for name, given in named.items():
            if name == INSTANCES and name not in known:
                instances = given
                continue
            self.check_name(name)
            if known[name].role == "value":
                values[name] = given
            elif name in arrays:
                self.fail(f"`{name}` is given twice", f"once: by its place, or as {name}=…")
            else:
                arrays[name] = given
        return Call(tuple(self._tensor(one, arrays) for one in self.inputs), values, instances)

    def check_name(self, name: str) -> None:
        """That it can be given by this name. Raises L702."""
        if name == INSTANCES and name not in self._known:
            return
        if name not in self._known:
            said = f"there is no parameter `{name}`; {did_you_mean(name, [*self._known, INSTANCES])}"
            self.fail(said, f"laminar kernel check {self.file}")
        if self._known[name].mode == "out":
            self.fail(f"`{name}` is an output: the call gives it back", f"leave {name} out")

    def _tensor(self, one: Parameter, arrays: Mapping[str, Any]) -> Tensor:
        given = arrays.get(one.name)
        if given is None:
            zeros = f"; if it starts as zeros, `out {declared(one)}`" if one.mode == "inout" else ""
            self.fail(f"the input `{one.name}` ({declared(one)}) is not given", f"a tensor for {one.name}{zeros}")
        if not isinstance(given, Tensor):
            self.fail(f"`{one.name}` is a {type(given).__name__}, and the kernel takes a tensor ({declared(one)})", "torch.tensor(…)")
        dtype = DTYPES[one.of.type]
        if given.dtype is not getattr(torch, dtype):
            said = str(given.dtype).removeprefix("torch.")
            self.fail(f"`{one.name}` is {said}, and the kernel takes {dtype} ({declared(one)})", f"{one.name}.to(torch.{dtype})")
        if given.device.type != "cpu":
            self.fail(f"`{one.name}` is on {given.device}, and kernels run on the CPU", f"{one.name}.cpu()")
        if given.layout is not torch.strided:
            self.fail(f"`{one.name}` is a sparse tensor", f"{one.name}.to_dense()")
        return given

    def fit(self, call: Call) -> tuple[tuple[Any, ...], int]:
        """(values in order, number of instances) of shapes that are numbers; checked. Raises L702."""
        plain = {name: _item(value) for name, value in call.values.items()}
        arrays = {
            one.name: ((tensor.numel(),) if self.flat else tuple(tensor.shape), DTYPES[one.of.type])
            for one, tensor in zip(self.inputs, call.tensors, strict=True)
        }
        if self.flat and len({tensor.shape for tensor in call.tensors}) > 1:
            said = ", ".join(f"{one.name} {list(tensor.shape)}" for one, tensor in zip(self.inputs, call.tensors, strict=True))
            self.fail(f"tensors of different shapes: {said}", "tensors of one shape; broadcast_tensors makes them so")
        try:
            found = fitted(self.kernel, arrays, plain, call.instances, self.file)
        except LaminarError as error:
            hint = (error.hint or "").replace("--param ", "").replace("--instances N", "instances=N")  # here nobody is at a command line
            raise LaminarError(error.code, error.message, hint=hint) from None
        return tuple(found.values[one.name] for one in self.kernel.values), found.count

    def given(self, call: Call) -> list[Any]:
        """Values in order; None for those that sizes tell. Nothing is looked at."""
        for one in self.kernel.values:
            if one.name not in call.values and one.of.type not in ("int", "long"):
                self.fail(f"the value `{one.name}` ({one.of.type}) is not given", f"{one.name}=…")
        return [call.values.get(one.name) for one in self.kernel.values]

    def fail(self, what: str, hint: str) -> NoReturn:
        raise LaminarError("L702", f"{self.file}: {what}", hint=hint)


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
