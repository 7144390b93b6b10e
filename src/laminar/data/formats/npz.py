"""The npz format: a zip of named arrays. Never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.formats.npy import PythonObjects, objects_refused, read_npy_stream
from laminar.data.room import Room

_HINT = "the file is damaged or incomplete: fetch or write it again"


def read_npz(path: Path, room: Room | None = None, choose: Callable[[list[str]], Iterable[str]] | None = None) -> dict[str, Array]:
    """The arrays that `choose` takes of the names there are (default: all)."""
    size = path.stat().st_size
    if _is_npy(path):
        raise LaminarError(
            "L102", f"{path} holds a single array, expected an npz with x and y", hint="write it with numpy.savez(file, x=x, y=y)"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            arrays: dict[str, Array] = {}
            for name in members if choose is None else choose(list(members)):
                with archive.open(members[name]) as stream:
                    arrays[name] = read_npy_stream(stream, members[name].file_size, room or Room())
                    stream.read(1)  # at the end of a member its checksum is compared
            return arrays
    except PythonObjects as error:
        raise objects_refused(path) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise LaminarError("L102", f"{path} is not a whole npz file ({size:,} bytes): {_why(error)}", hint=_HINT) from error
    except PermissionError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error
    except OSError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error}", hint=_HINT) from error


def _is_npy(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(6) == b"\x93NUMPY"
    except OSError:
        return False  # said below, where it is opened


def _why(error: Exception) -> str:
    if str(error) == "File is not a zip file":
        return "it is no zip archive, expected one written by numpy.savez"
    return str(error) or type(error).__name__
