"""The members of an archive: a zip, read with its sizes checked, and without torch, so that others than models can look into it."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError

MAX_JSON: Final = 256 << 20
MAX_MEMBERS: Final = 100_000
MAX_RATIO: Final = 1100  # deflate reaches 1032 : 1; more is a lie in the directory


def refuse(what: str) -> LaminarError:
    return LaminarError(
        "L207",
        f"the graph will not be loaded: {what}",
        hint="pull the layer again, or build it where its source code is; laminar verify finds damage",
    )


class Members:
    """The members of a zip, read with their sizes checked. The folder in front of every name is left out."""

    def __init__(self, data: bytes | Path) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise refuse("it is no zip archive") from error
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise refuse(f"it has {len(infos)} members")
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.filename.partition("/")[2]
            if name in self._infos:
                raise refuse(f"it has two members called '{name[:60]}'")
            self._infos[name] = info

    def names(self) -> list[str]:
        return list(self._infos)

    def has(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str, limit: int) -> bytes:
        info = self._infos.get(name)
        if info is None:
            raise refuse(f"its member '{name[:80]}' is missing")
        if info.file_size > limit or info.file_size > max(info.compress_size, 1) * MAX_RATIO:
            raise refuse(f"its member '{name[:80]}' says it has {info.file_size} bytes")
        try:
            with self._zip.open(info) as file:
                data = file.read(info.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise refuse(f"its member '{name[:80]}' is damaged") from error
        if len(data) != info.file_size:
            raise refuse(f"its member '{name[:80]}' is not as long as it says")
        return data
