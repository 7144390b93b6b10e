"""Kernels in a folder: which there are, by name and digest. Files are read and digested; nothing is compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.kernels.open_file import kernel_of, read_text

MOST: Final = 20_000  # folders that are looked through


@dataclass(frozen=True)
class Found:
    path: Path
    text: str  # with what is said of parameters beside it
    name: KernelName


def kernels_in(folder: Path, stem: str | None = None) -> Iterator[Found]:
    """Files that end with .c, in the folder and those below it, but for hidden ones; `stem`: of this name only. Others' mistakes are passed
    over: what cannot be read is not there."""
    for number, (place, folders, files) in enumerate(os.walk(folder)):
        if number >= MOST:
            return
        folders[:] = sorted(one for one in folders if not one.startswith((".", "__")))
        for file in sorted(files):
            path = Path(place, file)
            if path.suffix != ".c" or (stem is not None and KernelName.stem_of(file) != stem):
                continue
            try:
                text = read_text(path)
            except LaminarError:
                continue
            yield Found(path, text, KernelName.of(text, file))


def usable(folder: Path) -> tuple[list[Found], list[str]]:
    """Kernels of a folder that keep to the rules, and what is wrong with the others. Raises L008, L011."""
    if not folder.is_dir():
        raise LaminarError("L008", f"there is no folder {folder}", hint="name a folder with kernels, such as leaky.c")
    good: list[Found] = []
    bad: list[str] = []
    for found in kernels_in(folder):
        try:
            kernel_of(found.text, found.path.name)
        except LaminarError as error:
            if error.code == "L011":
                raise
            bad.append(f"{found.path.name} is no kernel: {error.message.splitlines()[0]}")
        else:
            good.append(found)
    return good, bad
