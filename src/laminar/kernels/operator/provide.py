"""Kernels that graphs name, from files that lie here: found by name, and used if they have the digest that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.kernels.files import kernels_in
from laminar.kernels.operator.find import made_of
from laminar.kernels.operator.function import KernelFunction


def provide(folders: Sequence[Path], wanted: KernelName, operator: str) -> str:
    """Make an operator of a kernel; "" or why that cannot be. Raises L701, L011."""
    others: list[str] = []
    for folder in folders:
        for found in kernels_in(folder, wanted.stem):
            if found.name == wanted:
                return _register(made_of(found.text, found.path.name), operator)
            others.append(f"{found.path} is another one (sha256 {digest.short(found.name.sha256)}…)")
    looked = ", ".join(str(folder) for folder in folders)
    return "; ".join(others[:3]) or f"there is no {wanted.stem}.c in {looked or 'any folder'}"


def _register(function: KernelFunction, operator: str) -> str:
    """The operator that takes the values as tensors that its name says."""
    rest = operator.removeprefix(function.name.operator)
    own = _named(rest, sorted(one.name for one in function.kernel.values))
    if own is None:
        raise LaminarError(
            "L207", f"the graph calls '{operator[:120]}', and {function.file} has no such values", hint="build the layer again"
        )
    function.operator(own)
    return ""


def _named(rest: str, names: Sequence[str]) -> list[str] | None:
    """Names that, each after a `_`, make up `rest`."""
    if not rest:
        return []
    for number, name in enumerate(names):
        if rest.startswith(f"_{name}") and (more := _named(rest[len(name) + 1 :], names[number + 1 :])) is not None:
            return [name, *more]
    return None
