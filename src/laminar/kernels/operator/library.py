"""Routines for tracing, export and torch.compile: each is an operator `laminar_kernels::leaky_<digest>` with a fake kernel.

Arguments are the arrays that are given, the values in order (a tensor where its gradient is wanted; None where sizes tell it), and the
number of instances (or None).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import check_assumptions
from laminar.kernels.language.tree import WHOLE, Variable
from laminar.kernels.operator.engine import DTYPES
from laminar.kernels.operator.routine import Routine
from laminar.kernels.operator.sizes import solved

SPACE: Final = "laminar_kernels"
_LIBRARY: Final = torch.library.Library(SPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
_KNOWN: Final[dict[str, Any]] = {}
Split = tuple[tuple[Tensor, ...], tuple[Any, ...], Any]


def operator_of(routine: Routine, tensors: frozenset[str], gradient: Callable[[Any], None]) -> Any:
    """The operator of a routine; `tensors`: values that come as tensors. `gradient(operator)` registers its gradient."""
    name = "_".join([routine.name, *sorted(tensors)])
    if name not in _KNOWN:
        _LIBRARY.define(f"{name}({_arguments(routine, tensors)}) -> {_results(routine)}")  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, lambda *given: _out(routine, _run(routine, given)), "CPU")  # type: ignore[no-untyped-call]
        found = getattr(getattr(torch.ops, SPACE), name).default
        torch.library.register_fake(f"{SPACE}::{name}", lambda *given: _out(routine, _fake(routine, given)), lib=_LIBRARY)
        gradient(found)
        _KNOWN[name] = found
    return _KNOWN[name]


def split(routine: Routine, given: Sequence[Any]) -> Split:
    """Arguments of an operator: arrays, values, number of instances; those that were None are what the sizes tell."""
    arrays = len(routine.given)
    return tuple(given[:arrays]), *solved(routine, given[:arrays], given[arrays:-1], given[-1])


def register_gradient(operator: Any, backward: Callable[..., Any], setup: Callable[..., None]) -> None:
    torch.library.register_autograd(operator, backward, setup_context=setup, lib=_LIBRARY)


def _arguments(routine: Routine, tensors: frozenset[str]) -> str:
    words = [f"Tensor array_{name}" for name in routine.given]
    for one in routine.kernel.values:
        type_ = "Tensor" if one.name in tensors else "bool" if one.of.type == "bool" else "SymInt?" if one.of.type in WHOLE else "float"
        words.append(f"{type_} value_{one.name}")
    return ", ".join([*words, "SymInt? instances"])


def _results(routine: Routine) -> str:
    return "Tensor" if len(routine.returned) == 1 else f"({', '.join(['Tensor'] * len(routine.returned))})"


def _out(routine: Routine, made: tuple[Tensor, ...]) -> Any:
    return made[0] if len(routine.returned) == 1 else made


def _run(routine: Routine, given: Sequence[Any]) -> tuple[Tensor, ...]:
    arrays, found, count = split(routine, given)
    values = [one.item() if isinstance(one, Tensor) else one for one in found]
    known = {one.of: value for one, value in zip(routine.kernel.values, values, strict=True) if isinstance(one.of, Variable)}
    check_assumptions(routine.kernel, known | {routine.kernel.count: int(count)}, routine.file)
    for name, tensor in zip(routine.given, arrays, strict=True):
        _check(routine, name, tensor, [count] if name in routine.flat else routine.shape(name, arrays, values, count))
    return routine.run(arrays, values, count)


def _check(routine: Routine, name: str, tensor: Tensor, wanted: Any) -> None:
    """Whoever calls the operator itself gets an error, too, and not somebody else's memory."""
    dtype, shape = DTYPES[routine.objects[name].type], [tensor.numel()] if name in routine.flat else list(tensor.shape)
    fits = tensor.numel() == math.prod(wanted) if routine.by_hand else shape == list(wanted)
    if tensor.dtype is not dtype or not fits:
        said = f"`{name}` is {tensor.dtype} {shape}, and the kernel takes {dtype} {list(wanted)}"
        raise LaminarError("L702", f"{routine.name}: {said}", hint="call the kernel, not its operator")


def _fake(routine: Routine, given: Sequence[Any]) -> tuple[Tensor, ...]:
    arrays, values, count = split(routine, given)
    held = dict(zip(routine.given, arrays, strict=True))
    return tuple(
        torch.empty(
            held[name].shape if name in held else routine.shape(name, arrays, values, count),
            dtype=DTYPES[routine.objects[name].type],
            device=arrays[0].device if arrays else None,
        )
        for name in routine.returned
    )
