"""Gradients: while code runs, by autograd.Function; while it is traced, by the operator's formula. Both run the same adjoint."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.kernels.derive.by_hand import GRAD
from laminar.kernels.operator.again import Adjoint
from laminar.kernels.operator.backward import Backward
from laminar.kernels.operator.engine import DTYPES
from laminar.kernels.operator.library import operator_of, register_gradient, split
from laminar.kernels.operator.routine import Routine
from laminar.kernels.operator.sizes import instances

if TYPE_CHECKING:
    from laminar.kernels.operator.function import KernelFunction, Plan

MOST_PARTS: Final = 1 << 24  # of a gradient, that are kept to be added up
SUMS: Final = """#pragma laminar instances rows
void kernel(int i, int n, int rows, int cols, const float part[rows][cols], float sum[rows]) {
    float total = 0;
    for (int k = 0; k < cols; k++) total += part[i][k];
    sum[i] = total;
}
"""


@dataclass(frozen=True)
class Tape:
    """What the adjoint of one call needs. `own`: values that came as tensors, in order; they follow the arrays among the tensors."""

    function: KernelFunction | Adjoint
    own: tuple[str, ...]
    found: tuple[Backward, ...] | LaminarError
    values: tuple[Any, ...]  # of those in `own`, whatever they were
    count: Any
    shapes: dict[str, Any]  # of the tensors, and of arrays that nobody sees

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.function.routine.given, *self.own)

    def kept(self, tensors: Sequence[Tensor], made: Sequence[Tensor]) -> list[Tensor]:
        """What is saved of a call: no more than the adjoints look at."""
        inputs, outputs = self._needed()
        saved = [one for name, one in zip(self.names, tensors, strict=True) if name in inputs]
        if outputs:
            saved += [one for name, one in zip(self.function.routine.returned, made, strict=True) if name in outputs]
        return saved

    def _needed(self) -> tuple[frozenset[str], frozenset[str]]:
        if isinstance(self.found, LaminarError):
            return frozenset(), frozenset()
        if len(self.found) == 1 and not self.own:
            return self.found[0].inputs, self.found[0].outputs
        return frozenset(self.own).union(*(one.inputs for one in self.found)), frozenset().union(*(one.outputs for one in self.found))

    def gradients(self, saved: Sequence[Tensor], shares: Sequence[Tensor | None], *, traced: bool) -> dict[str, Tensor]:
        if isinstance(self.found, LaminarError):
            raise self.found
        (inputs, outputs), kept = self._needed(), iter(saved)
        given = {name: next(kept) for name in self.names if name in inputs}
        made = {name: next(kept) for name in self.function.routine.returned if name in outputs}
        known = dict(zip(self.function.routine.returned, shares, strict=True)) | self._unseen()
        values = {one.name: value for one, value in zip(self.function.kernel.values, self.values, strict=True)}
        values[self.function.kernel.count.name] = self.count
        if traced:
            values |= {name: given[name] for name in self.own}
        results: dict[str, Tensor] = {}
        for each in self.found:
            one = each if each.otherwise is None or self._few(each, given, made, known, values) else each.otherwise
            arrays = [
                _array(known[name]) if source == "gradient" else (given if source == "input" else made)[name] for source, name in one.takes
            ]
            gave = self._run(one, arrays, values, traced=traced)
            results |= zip(one.gives, [summed(part) for part in gave] if one.otherwise is not None else gave, strict=True)
        return {name: self._shaped(name, one) for name, one in results.items()}

    def _shaped(self, name: str, one: Tensor) -> Tensor:
        """By hand it may have any size. Nobody knows while sizes are symbols."""
        shape = self.shapes[name]
        if all(type(size) is int for size in (*one.shape, *shape)) and one.numel() != math.prod(shape):
            said = f"the gradient of `{name}` has the shape {list(one.shape)}, and `{name}` has {list(shape)}"
            hint = f"for {GRAD}{name} the sizes that the kernel has for `{name}`"
            raise LaminarError("L702", f"{self.function.routine.file}: {said}", hint=hint)
        return one.reshape(shape)

    def _unseen(self) -> dict[str, Tensor]:
        """Gradients of arrays that the routine changes and does not give back: nothing came of them."""
        assert not isinstance(self.found, LaminarError)
        routine = self.function.routine
        names = {name for one in self.found for source, name in one.takes if source == "gradient"} - set(routine.returned)
        return {name: torch.zeros(self.shapes[name], dtype=DTYPES[routine.objects[name].type]) for name in names}

    def _few(self, one: Backward, given: Mapping[str, Tensor], made: Mapping[str, Tensor], shares: Mapping[str, Any], values: Any) -> bool:
        """Is there room for the parts of a gradient? Nobody knows while sizes are symbols."""
        held = [(shares if source == "gradient" else given if source == "input" else made)[name] for source, name in one.takes]
        ordered = [values[parameter.name] for parameter in one.routine.kernel.values]
        if any(isinstance(value, Tensor) for value in ordered):
            return False
        shape = one.routine.shape(one.routine.returned[0], held, ordered, None)
        return all(type(size) is int for size in shape) and math.prod(shape) <= MOST_PARTS

    def _run(self, one: Backward, arrays: list[Tensor], values: dict[str, Any], *, traced: bool) -> Sequence[Tensor]:
        routine = one.routine
        ordered = [values[parameter.name] for parameter in routine.kernel.values]
        own = frozenset(self.own if traced else ()) & {parameter.name for parameter in routine.kernel.values}
        if traced:
            operator = operator_of(routine, own, formula(Adjoint(routine), _ordered(routine, own)))
            return listed(operator(*arrays, *ordered, None if one.by_element else self.count))
        known = dict(zip((parameter.of for parameter in routine.kernel.values), ordered, strict=True))
        return routine.run(arrays, ordered, instances(routine, known) if one.by_element else self.count)


@functools.lru_cache(2)
def _sums(type_: str) -> KernelFunction:
    from laminar.kernels.operator.function import KernelFunction

    return KernelFunction(SUMS.replace("float", type_), "sums.c")


def summed(parts: Tensor) -> Tensor:
    """Over the last dimension, in its order, whatever the number of threads."""
    made: Tensor = _sums("double" if parts.dtype is torch.float64 else "float")(parts.reshape(-1, parts.shape[-1]))
    return made


def _array(share: Tensor | None) -> Tensor:
    assert share is not None  # torch gives zeros for outputs that nobody used
    return share.contiguous()


class Applied(torch.autograd.Function):
    """`tensors`: the arrays, then the values in `own`."""

    @staticmethod
    def forward(ctx: Any, function: KernelFunction, own: tuple[str, ...], plan: Plan, *tensors: Tensor) -> Any:
        made = function.run(tensors[: len(tensors) - len(own)] if own else tensors, plan)
        names = (*function.routine.given, *own)
        wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[3:], strict=True) if need)
        shapes = {name: one.shape for name, one in zip(names, tensors, strict=True)}
        ctx.tape = tape = Tape(function, own, function.backwards(wanted, as_said=plan.as_said), plan.values, plan.count, shapes)
        outputs = listed(made)
        ctx.save_for_backward(*tape.kept(tensors, outputs))
        if function.whole:
            ctx.mark_non_differentiable(*(one for one in outputs if not one.is_floating_point()))
        return made

    @staticmethod
    def backward(ctx: Any, *shares: Tensor) -> Any:
        found = ctx.tape.gradients(ctx.saved_tensors, shares, traced=torch.is_grad_enabled())  # the gradient of it may be wanted, too
        return (None, None, None, *(found.get(name) for name in ctx.tape.names))


def _ordered(routine: Routine, own: frozenset[str]) -> tuple[str, ...]:
    return tuple(one.name for one in routine.kernel.values if one.name in own)


def formula(function: KernelFunction | Adjoint, own: tuple[str, ...]) -> Callable[[Any], None]:
    """Registers the gradient of the kernel's operator."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arrays, values, count = split(function.routine, inputs)
        tensors = (*arrays, *(one for one in values if isinstance(one, Tensor)))
        names = (*function.routine.given, *own)
        wanted = frozenset(name for name, one in zip(names, tensors, strict=True) if one.requires_grad)
        plain = tuple(None if isinstance(one, Tensor) else one for one in values)
        shapes = {name: one.shape for name, one in zip(names, tensors, strict=True)}
        unseen = [name for name in function.routine.objects if name not in shapes and name not in function.routine.returned]
        shapes |= {name: function.routine.shape(name, arrays, values, count) for name in unseen}
        ctx.tape = Tape(function, own, function.backwards(wanted, as_said=inputs[-1] is None), plain, count, shapes)
        ctx.save_for_backward(*ctx.tape.kept(tensors, listed(output)))

    def backward(ctx: Any, *shares: Tensor) -> Any:
        found = ctx.tape.gradients(ctx.saved_tensors, shares, traced=True)
        order = (*function.routine.given, *(one.name for one in function.kernel.values))
        return (*(found.get(name) for name in order), None)

    return lambda operator: register_gradient(operator, backward, setup)


def listed(made: Any) -> tuple[Tensor, ...]:
    return (made,) if isinstance(made, Tensor) else tuple(made)
