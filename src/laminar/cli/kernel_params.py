"""What the verbs of kernels are called with: a file, and `--param` words for arrays and values."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from laminar.core.errors import LaminarError

if TYPE_CHECKING:
    from laminar.kernels.language.tree import Kernel, Parameter

FORMS: Final = "@FILE.npy, zeros:4x4, ones:4x4, empty:4x4, random:4x4:SEED"

File = Annotated[Path, typer.Argument(metavar="FILE", help="A kernel: C with a function `kernel`.")]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help=f"A parameter: a number, or {FORMS}. Outputs are zeros if left out."),
]
Instances = Annotated[int | None, typer.Option("--instances", metavar="N", help="How many; if left out, the sizes of arrays tell.")]


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Native code does not look up for Python's signals: meanwhile Ctrl-C ends the process as the system does it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class Given:
    """`empty`: arrays without values; `files`: that inputs were read from."""

    values: dict[str, Any] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    files: dict[str, Path] = field(default_factory=dict)


def given(kernel: Kernel, words: list[str]) -> Given:
    """`x=@x.npy` and the like."""
    found = Given()
    parameters = {one.name: one for one in kernel.parameters}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise LaminarError("L008", f"--param {word}: expected NAME=VALUE", hint="--param x=@x.npy, --param slope=0.1")
        if name in found.values:
            raise LaminarError("L008", f"--param {name} is given twice", hint="leave one of them out")
        _take(found, parameters.get(name), name, value)
    return found


def _take(found: Given, parameter: Parameter | None, name: str, value: str) -> None:
    if value.startswith("@"):
        found.files[name] = Path(value[1:])
        found.values[name] = _loaded(name, found.files[name])
        return
    kind, _, rest = value.partition(":")
    if kind in ("zeros", "ones", "empty", "random"):
        if kind == "empty":
            found.empty.add(name)
        found.values[name] = _made(name, kind, rest, parameter)
        return
    found.values[name] = _number(name, value)


def _loaded(name: str, path: Path) -> Any:
    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        unsafe = "pickle" in str(error)  # numpy would have it loaded all the same
        said = "not an array of numbers, or not a .npy file" if unsafe else str(error)
        raise LaminarError("L702", f"--param {name}=@{path}: {said}", hint="a file that numpy.save has written") from None
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise LaminarError("L702", f"--param {name}=@{path}: several arrays in one file", hint="a file with one array: .npy")
    return loaded


def _made(name: str, kind: str, rest: str, parameter: Parameter | None) -> Any:
    import numpy as np

    from laminar.kernels.arguments import DTYPES

    words, _, seed = rest.partition(":")
    sizes = words.split("x")
    if not all(one.isdecimal() and int(one) > 0 for one in sizes) or (seed and (kind != "random" or not seed.isdecimal())):
        raise LaminarError("L702", f"--param {name}={kind}:{rest}: expected sizes", hint=f"--param {name}={kind}:4x4")
    shape = tuple(map(int, sizes))
    dtype = DTYPES[parameter.of.type] if parameter is not None else "float32"
    try:
        if kind != "random":
            return np.ones(shape, dtype) if kind == "ones" else np.zeros(shape, dtype)
        source = np.random.default_rng(int(seed or 0))
        if dtype.startswith("float"):
            return source.standard_normal(shape).astype(dtype)
        return source.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    except (MemoryError, ValueError) as error:
        raise LaminarError("L702", f"--param {name}={kind}:{rest}: {error}", hint="a smaller array") from None


def _number(name: str, value: str) -> bool | int | float:
    if value in ("true", "false"):
        return value == "true"
    for read in (lambda word: int(word, 0), float):
        try:
            return read(value)
        except ValueError:
            continue
    raise LaminarError("L702", f"--param {name}={value}: neither a number nor one of {FORMS}", hint=f"--param {name}=0.1")
