"""Gradients of gradients: an adjoint is a kernel, too, and has an adjoint where the rules allow.

Its parameters `grad_y`, `grad_x` get other names first, since the second adjoint has a `grad_x` of its own.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace

from laminar.core.errors import LaminarError
from laminar.kernels.derive.by_hand import GRAD
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel
from laminar.kernels.operator.backward import Backward, derived
from laminar.kernels.operator.routine import Routine


@dataclass(frozen=True, eq=False)
class Adjoint:
    """What autograd.py wants of a kernel, of the adjoint of one."""

    first: Routine
    _found: dict[tuple[frozenset[str], bool], tuple[Backward, ...] | LaminarError] = field(default_factory=dict)

    @functools.cached_property
    def routine(self) -> Routine:
        """With names that are free for what is derived of it."""
        first, text = self.first, self.first.kernel.text
        names = {one.name: _free(one.name, text) for one in first.kernel.arrays if one.name.startswith(GRAD)}
        read = read_kernel(
            re.sub(rf"\b{GRAD}\w+", lambda found: names.get(found[0], found[0]), text), f"{first.file} (derived)", first.kernel.name
        )
        kept = {names.get(one.name, one.name) for one in first.kernel.parameters}
        given, copied, returned, flat = (
            [names.get(one, one) for one in part] for part in (first.given, first.copied, first.returned, first.flat)
        )
        parameters = [one for one in read.parameters if one.name in kept]
        zeros = {one.name for one in parameters if one.mode == "inout" and one.name not in given}  # nobody gives them
        parameters = [replace(one, mode="out") if one.name in zeros else one for one in parameters]
        kernel = replace(read, name="kernel", parameters=tuple(parameters))
        return replace(first, kernel=kernel, given=tuple(given), copied=frozenset(copied), returned=tuple(returned), flat=frozenset(flat))

    @property
    def kernel(self) -> Kernel:
        return self.routine.kernel

    def backwards(self, wanted: frozenset[str], *, as_said: bool) -> tuple[Backward, ...] | LaminarError:
        """The adjoints for these inputs; if there are none, why."""
        if (wanted, as_said) not in self._found:
            try:
                found: tuple[Backward, ...] | LaminarError = derived(
                    self.kernel, f"{self.first.file} (derived)", wanted, self.routine.flat, as_said=as_said
                )
            except LaminarError as error:
                said = f"the gradient of a kernel's gradient: {error.message}"
                found = LaminarError("L705", said, hint="backward() without create_graph=True, or this part of the model in torch")
            self._found[wanted, as_said] = found
        return self._found[wanted, as_said]


def _free(name: str, text: str) -> str:
    made = f"share_{name.removeprefix(GRAD)}"
    while re.search(rf"\b{made}\b", text):
        made += "_"
    return made
