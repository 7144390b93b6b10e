"""An adjoint that somebody wrote: `kernel_backward` in the kernel's file, or `leaky_backward` in leaky.c. Does it fit the kernel?

Its parameters go by name, as many as it needs, after the two that every kernel has:

    x, y, slope      of the kernel: outputs as the kernel left them, arrays that it changes as they were before
    const grad_y     the gradient of an output; of an array that is changed it leaves as that of what was given
    grad_x           the gradient of an input, which starts as zeros
    grad_s[1]        of a value s
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import Final, NoReturn

from laminar.core.nearest import nearest
from laminar.kernels.arguments import declared
from laminar.kernels.language.fold import folded
from laminar.kernels.language.kernel import entries, read_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import WHOLE, Kernel, Object, Parameter

GRAD: Final = "grad_"


def entry_of(text: str, file: str) -> str | None:
    """The hand-written adjoint's name."""
    wanted = ("kernel_backward", f"{PurePath(file).stem}_backward")
    return next((name for name in entries(text, file) if name in wanted), None)


def by_hand(kernel: Kernel, file: str) -> Kernel | None:
    """The adjoint in the kernel's file, if there is one. Raises KernelError: also of what does not fit the kernel."""
    entry = entry_of(kernel.text, file)
    if entry is None:
        return None
    made = read_kernel(kernel.text, file, entry)
    check_fits(kernel, made, file)
    return made


def check_fits(kernel: Kernel, made: Kernel, file: str) -> None:
    """Raises KernelError K20: the first parameter of the adjoint that does not go with those of the kernel."""
    fitting = _Fitting(kernel, made, file)
    for one in made.parameters[2:]:
        fitting.check(one)


class _Fitting:
    def __init__(self, kernel: Kernel, made: Kernel, file: str) -> None:
        self._made, self._file = made, file
        self._of = {one.name: one for one in kernel.parameters[2:]}

    def check(self, one: Parameter) -> None:
        source = self._of.get(one.name) or self._of.get(one.name.removeprefix(GRAD))
        if source is None:
            self._unknown(one)
        gradient = one.name not in self._of
        if gradient and source.of.type in WHOLE:
            self._fail(one, f"is the gradient of `{source.name}`, which is {source.of.type} and has none", "leave it out")
        if one.of.type != source.of.type:
            self._fail(one, f"is {one.of.type}, and `{source.name}` is {source.of.type}", f"`{_written(one, source)}`")
        if one.role != ("array" if gradient else source.role):
            is_, wanted = ("an array", "one number") if one.role == "array" else ("one number", "an array")
            said = f"is {is_}, and `{source.name}` is {wanted}" if not gradient else "is one number, and nothing could be written to it"
            self._fail(one, said, f"`{_written(one, source)}`")
        if gradient and one.mode == "out" and source.mode == "out":
            said = f"is written and never read: it is the gradient of the output `{source.name}`, which comes from the caller"
            self._fail(one, said, f"`{_written(one, source)}`")
        if gradient and one.mode == "in" and source.mode not in ("out", "inout"):
            said = f"is const: it is the gradient of the input `{source.name}`, which {self._made.name} writes"
            self._fail(one, said, f"`{_written(one, source)}`")
        has, wanted_size = _elements(one), 1 if source.role == "value" else _elements(source)
        if one.role == "array" and has is not None and wanted_size is not None and has != wanted_size:
            said = f"has {has:,} element{'s' * (has != 1)}, and `{source.name}` has {wanted_size:,}"
            self._fail(one, said, f"`{_written(one, source)}`")

    def _unknown(self, one: Parameter) -> NoReturn:
        names = [*self._of, *(f"{GRAD}{name}" for name, source in self._of.items() if source.of.type not in WHOLE)]
        near = nearest(one.name, names)
        source = self._of.get(near) or self._of.get(near.removeprefix(GRAD)) if near else None
        instead = f"`{_text(near, source, near not in self._of)}`" if near and source else f"one of {', '.join(names)}"
        self._fail(one, "is neither a parameter of the kernel nor grad_ and one", instead)

    def _fail(self, one: Parameter, why: str, instead: str) -> NoReturn:
        said = f"`{one.name}` of {self._made.name} {why}"
        raise KernelError("K20", one.at, said, instead=instead, text=self._made.text, name=self._file)


def _written(one: Parameter, source: Parameter) -> str:
    return _text(one.name, source, one.name != source.name)


def _text(name: str, source: Parameter, gradient: bool) -> str:
    """How an adjoint declares it: `const float grad_y[n]`."""
    if source.role == "value":
        return f"{source.of.type} {name}{'[1]' * gradient}"
    fixed = source.mode == "out" if gradient else True
    return "const " * fixed + declared(source).replace(f" {source.name}", f" {name}", 1)


def _elements(one: Parameter) -> int | None:
    """Of an array whose sizes are numbers."""
    if not isinstance(one.of, Object):
        return None
    sizes = [folded(size) for size in one.of.shape]
    return math.prod(int(size.value) for size in sizes if size is not None) if None not in sizes else None
