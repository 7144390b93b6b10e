"""The npz format: a zip of named arrays. Never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array


def read_npz(path: Path) -> dict[str, Array]:
    try:
        with open(path, "rb") as opened:  # by ourselves: numpy would leave it open where the zip is broken
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise LaminarError(
                    "L102", f"{path} holds a single array, expected an npz with x and y", hint="write it with numpy.savez(file, x=x, y=y)"
                )
            with file:
                return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, OSError) as error:
        if isinstance(error, PermissionError):
            raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error
        if "pickle" in str(error).lower() and zipfile.is_zipfile(path):
            raise LaminarError(
                "L102",
                f"{path} holds Python objects, which are never loaded; expected arrays of numbers",
                hint="store x and y with a numeric dtype",
            ) from error
        size = path.stat().st_size
        raise LaminarError(
            "L102",
            f"{path} is not a whole npz file ({size:,} bytes): {_why(error)}",
            hint="the file is damaged or incomplete: fetch or write it again",
        ) from error


def _why(error: Exception) -> str:
    text = str(error)
    if "pickle" in text.lower() or "allow_pickle" in text:
        return "it is no zip archive, expected one written by numpy.savez"
    return text or type(error).__name__
