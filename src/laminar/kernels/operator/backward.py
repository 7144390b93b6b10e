"""The adjoint of a kernel: the one that is written in its file (derive/by_hand.py); else derived."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.kernels.derive.adjoint import adjoint, adjoint_by_element, adjoint_in_parts
from laminar.kernels.derive.by_hand import GRAD, by_hand
from laminar.kernels.derive.prune import touched
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel, statements
from laminar.kernels.operator.bind import is_flat
from laminar.kernels.operator.routine import Routine


@dataclass(frozen=True, eq=False)
class Backward:
    """`takes`: where each array that the routine is given comes from. `gives`: the parameter that each result is the gradient of.
    `otherwise`: the routine gives parts, whose sums over the last dimension are the gradient; this one is for those that are too many."""

    routine: Routine
    by_element: bool  # an instance for each element of the one that it gives
    takes: tuple[tuple[str, str], ...]  # ("input" | "output" | "gradient", name of the kernel's array)
    gives: tuple[str, ...]
    otherwise: Backward | None = None

    @functools.cached_property
    def inputs(self) -> frozenset[str]:
        own = frozenset(name for source, name in self.takes if source == "input")
        return own if self.otherwise is None else own | self.otherwise.inputs

    @functools.cached_property
    def outputs(self) -> frozenset[str]:
        own = frozenset(name for source, name in self.takes if source == "output")
        return own if self.otherwise is None else own | self.otherwise.outputs


def backwards_of(kernel: Kernel, file: str, wanted: frozenset[str], *, as_said: bool) -> tuple[Backward, ...]:
    """Adjoints that together give the gradients of `wanted`. `as_said`: there are as many instances as the text says. Raises L705, L701.

    What many instances add to is derived by element where that can be done, so that it needs no atomics."""
    written = by_hand(kernel, file)
    if written is not None:
        return (_Fitting(kernel, written, file, flat_of(kernel), by_hand=True).backward(wanted),)
    return derived(kernel, file, wanted, flat_of(kernel), as_said=as_said)


def flat_of(kernel: Kernel) -> frozenset[str]:
    """Arrays that have tensors of any shape."""
    return frozenset(one.name for one in kernel.arrays) if is_flat(kernel) else frozenset()


def derived(kernel: Kernel, file: str, wanted: frozenset[str], flat: frozenset[str], *, as_said: bool) -> tuple[Backward, ...]:
    """The same, whatever is written by hand. `flat`: arrays that have tensors of any shape."""
    found: list[Backward] = []

    def fitted(text: str, names: frozenset[str], *, by_element: bool = False) -> Backward:
        return _Fitting(kernel, read_kernel(text, f"{file} (derived)", "kernel_backward"), file, flat, by_element).backward(names)

    for name in sorted(wanted) if as_said else ():
        text = adjoint_by_element(kernel, name, file=file)
        if text is not None:
            found.append(fitted(text, frozenset({name}), by_element=True))
        elif (text := adjoint_in_parts(kernel, name, file=file)) is not None:
            whole = fitted(adjoint(kernel, wanted={name}, file=file), frozenset({name}))
            parts = fitted(text, frozenset({name}), by_element=True)
            found.append(replace(parts, otherwise=whole))
    rest = wanted.difference(*(one.gives for one in found))
    if rest:
        found.append(fitted(adjoint(kernel, wanted=rest, file=file), rest))
    return tuple(found)


def _without_unused(kernel: Kernel, made: Kernel) -> Kernel:
    """Arrays of the kernel that its adjoint does not look at need not be kept for it."""
    used = {data for one in statements(made.body) for data in touched(one)}
    own = {one.name for one in kernel.arrays}
    return replace(made, parameters=tuple(one for one in made.parameters if one.name not in own or one.of in used))


@dataclass
class _Fitting:
    kernel: Kernel
    made: Kernel
    file: str
    flat: frozenset[str]
    by_element: bool = False
    by_hand: bool = False

    def backward(self, wanted: frozenset[str]) -> Backward:
        self.made = _without_unused(self.kernel, self.made)
        of = {one.name: one for one in self.kernel.parameters}
        takes: list[tuple[str, str]] = []
        given: list[str] = []
        copied: set[str] = set()
        gives: dict[str, str] = {}
        for one in self.made.parameters[2:]:
            name = one.name.removeprefix(GRAD)
            source = of.get(one.name) or of.get(name)
            assert source is not None
            if one.role == "value":
                continue
            if one.name in of:
                if source.mode == "out" and (one.mode == "out" or (one.mode == "inout" and not self.by_hand)):
                    continue  # to work on, of zeros
                takes.append(("output" if source.mode == "out" else "input", one.name))
            elif source.mode in ("out", "inout"):
                takes.append(("gradient", name))
                if source.mode == "inout":
                    gives[name] = one.name
            else:
                gives[name] = one.name
                continue
            given.append(one.name)
            if one.mode != "in" or one.name in gives.values():
                copied.add(one.name)
        missing = sorted(wanted - gives.keys())
        if missing:
            at = self.made.parameters[0].at
            raise LaminarError(
                "L705",
                f"{self.file}:{at.line}: {self.made.name} has no {GRAD}{missing[0]}, and a gradient of `{missing[0]}` is asked for",
                hint=f"a parameter {GRAD}{missing[0]} for {self.made.name}, or {missing[0]}.detach() in the call",
            )
        returned = tuple(sorted(wanted))
        routine = Routine(
            name=operator_name(self.file, self.made.text, self.made.name, *returned),
            kernel=self.made,
            file=self.file,
            given=tuple(given),
            copied=frozenset(copied),
            returned=tuple(gives[name] for name in returned),
            flat=frozenset(one.name for one in self.made.arrays if {one.name, one.name.removeprefix(GRAD)} & self.flat),
            by_hand=self.by_hand,
        )
        return Backward(routine, self.by_element, tuple(takes), returned)


def operator_name(file: str, text: str, *parts: str) -> str:
    """`leaky_1a2b3c4d5e6f`: unique for the text, and readable."""
    return f"{KernelName.stem_of(file)}_{digest.of_json([text, *parts])[:12]}"
