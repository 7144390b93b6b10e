"""A kernel from its file, for the command line and for models."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import DESCRIBED
from laminar.kernels.language.described import with_parameters
from laminar.kernels.language.tree import Kernel

LARGEST: Final = 1 << 20  # bytes of text


def open_kernel(path: Path, entry: str = "kernel") -> Kernel:
    """Raises LaminarError: no such file, no text, or a rule that is broken."""
    return kernel_of(read_text(path), path.name, entry)


def kernel_of(text: str, name: str, entry: str = "kernel") -> Kernel:
    need_extra()
    from laminar.kernels.language.kernel import read_kernel

    return read_kernel(text, name, entry)


def read_text(path: Path) -> str:
    """With what the file beside it says of its parameters, if there is one."""
    text, beside = _text(path), path.with_suffix(DESCRIBED)
    return with_parameters(text, _text(beside), beside.name) if beside.is_file() else text


def _text(path: Path) -> str:
    if path.is_dir():
        raise LaminarError("L008", f"{path} is a folder", hint="name a file with a kernel, such as leaky.c")
    with explaining_os_errors(path):
        if not path.exists():
            raise LaminarError("L008", f"there is no file {path}", hint="name a file with a kernel, such as leaky.c")
        data = path.read_bytes()
    if len(data) > LARGEST:
        raise LaminarError("L008", f"{path} has {len(data):,} bytes, a kernel has at most {LARGEST:,}", hint="name the kernel's own file")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise LaminarError("L008", f"{path} is not text: byte {error.start} is not UTF-8", hint="save it as UTF-8") from None


def need_extra() -> None:
    """pycparser and llvmlite are an extra."""
    missing = [name for name in ("pycparser", "llvmlite") if find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"kernels need {' and '.join(missing)}", hint="pip install 'laminar-train[kernels]'")
