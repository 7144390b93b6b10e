"""What has no derivative, or none that is derived here: L705 names the statement and asks for `kernel_backward`."""

from __future__ import annotations

from typing import NoReturn

from laminar.core.errors import LaminarError
from laminar.kernels.language.rules import excerpt
from laminar.kernels.language.tree import At, Kernel


def refuse(kernel: Kernel, file: str, at: At, why: str) -> NoReturn:
    raise LaminarError(
        "L705",
        f"{file}:{at.line}:{at.column}: no gradient can be derived: {why}\n{excerpt(kernel.text, at)}",
        hint=f"write {kernel.name}_backward in the same file: the parameters of {kernel.name}, grad_… of every output (const), "
        "and grad_… of every input",
    )
