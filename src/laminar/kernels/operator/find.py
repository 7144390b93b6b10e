"""`laminar.kernel("leaky.c")`: beside the file that asks for it, or in its project's folder."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from laminar.core import project_code
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import DESCRIBED
from laminar.kernels.open_file import read_text
from laminar.kernels.operator.function import KernelFunction


def kernel(path: str | Path = "kernel.c", *, source: str | None = None) -> KernelFunction:
    """The kernel in a file as a function of tensors; `source` is its text, if there is no file. Raises L701, L008."""
    if source is not None:
        return made_of(source, Path(path).name)
    asking = sys._getframe(1).f_globals.get("__file__")
    found = _found(Path(path), Path(asking).resolve() if asking else None)
    text = read_text(found)
    if asking:
        for file in (found, found.with_suffix(DESCRIBED)):
            if file.is_file():
                project_code.also_read(Path(asking), file)
    return made_of(text, found.name)


@functools.lru_cache(maxsize=256)
def made_of(text: str, name: str) -> KernelFunction:
    """The kernel of this text, whose file has this name."""
    return KernelFunction(text, name)


def _found(path: Path, asking: Path | None) -> Path:
    if path.is_absolute():
        return path
    root = project_code.root_of(asking) if asking else None
    folders = dict.fromkeys([*([asking.parent] if asking else []), *([root] if root else []), Path.cwd()])
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    looked = ", ".join(str(folder) for folder in folders)
    raise LaminarError("L008", f"there is no file {path} in {looked}", hint="name a file with a kernel, such as leaky.c")
