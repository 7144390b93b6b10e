"""Kernels in graphs: `laminar_kernels::leaky_<sha256>` is an operator of which a graph has the name and never the text.

Whoever reads a graph says where kernels may come from (`kernels_by`): files that lie here. The name is a digest of the text, and what is
found is digested before it is used, so that a graph gets the kernel it was made with or none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch._ops import OpOverload

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName

SPACE: Final = "laminar_kernels"
_TARGET: Final = re.compile(rf"torch\.ops\.{SPACE}\.((\w+?)_([0-9a-f]{{64}})(?:_\w+)?)\.default", re.ASCII)

Provider = Callable[[KernelName, str], str]
"""Is told the kernel, and the operator of it that is wanted. Makes it, or says why it cannot."""

_PROVIDER: Final[ContextVar[Provider | None]] = ContextVar("kernels", default=None)


@contextlib.contextmanager
def kernels_by(provider: Provider | None) -> Iterator[None]:
    """Kernels of graphs that are read in the block come from there; without it, they are those that the process has already."""
    before = _PROVIDER.set(provider)
    try:
        yield
    finally:
        _PROVIDER.reset(before)


def kernel_in(target: str) -> KernelName | None:
    """The kernel that an operator of a graph is."""
    fits = _TARGET.fullmatch(target)
    return None if fits is None else KernelName(fits[2], fits[3])


def kernel_called(target: str) -> Callable[..., Any] | None:
    """The operator of a kernel; None if `target` is no kernel's. L706 where the kernel is not here."""
    fits, kernel = _TARGET.fullmatch(target), kernel_in(target)
    if fits is None or kernel is None:
        return None
    found, why, provider = _operator(fits[1]), "", _PROVIDER.get()
    if found is None and provider is not None:
        why = provider(kernel, fits[1])
        found = _operator(fits[1])
    if found is None:
        raise LaminarError(
            "L706",
            f"the graph calls the kernel {kernel}, which is not here{f': {why}' if why else ''}",
            hint=f"put {kernel.stem}.c as it was then into the project's folder; laminar kernel check {kernel.stem}.c prints the sha256",
        )
    return found


def _operator(name: str) -> OpOverload | None:
    found = getattr(getattr(getattr(torch.ops, SPACE), name, None), "default", None)
    return found if isinstance(found, OpOverload) else None
