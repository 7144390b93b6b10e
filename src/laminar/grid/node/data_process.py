"""The process that opens data: `python -P -m laminar.grid.node.data_process HOME THREADS SHARE MEMORY REACH`.

It has the network, for data sets lie on mirrors, and runs no graph; the process that computes has none (worker_process.py). A task that
needs data which are not on the disk waits until it has written them there (data_files.py). It loads no torch, keeps large arrays in files,
and is ended when nobody needs it (computers.py).

    {"open": a data set's description}            {"opened": the name of its folder, "fetching": seconds}
"""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import msgspec

from laminar.core.confine import confine
from laminar.data.fetch_clock import clocked
from laminar.data.mirrors.readers.reach import only_public
from laminar.data.open import open_data
from laminar.data.sources.places import cache_folder
from laminar.data.spec import DataSpec
from laminar.grid.node import data_files
from laminar.grid.node.child import Pace, own_output, serve
from laminar.grid.node.limits import PRIVATE
from laminar.grid.node.memory_limit import MemoryLimit
from laminar.grid.node.sources import BY_NAME, check_source
from laminar.parallel.crew import die_with

IN_MEMORY: Final = 64 << 20  # bytes of arrays; others are in files while they are made
OPENED: Final = "opened"  # the folder of the home for what was opened
DATA: Final = "data"  # that for what is remembered of files, and for files without a name


def main() -> None:
    home, threads, share, memory, reach = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]) or None, sys.argv[5]
    out = own_output()
    with contextlib.suppress(ImportError):
        import PIL.Image  # noqa: F401 - libraries are loaded before the rest is given up
    die_with(os.getppid())
    give_up_the_rest(home)
    limit = MemoryLimit(memory, threads)
    opener = Opener(home, memory, allow_private=reach == PRIVATE, pause=Pace(share, threads=threads).pause)

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        limit.renew()
        with clocked() as fetching:
            name = opener.open(msgspec.convert(asked["open"], DataSpec, str_keys=True))
        return {"opened": name, "fetching": fetching.seconds}

    serve(out, home, limit, answer)


@final
class Opener:
    def __init__(self, home: Path, most: int | None, *, allow_private: bool, pause: Callable[[], None] = lambda: None) -> None:
        """`most`: bytes that the owner lets the node use. `allow_private`: also mirrors in the owner's own network."""
        self._home, self._most, self._allow_private, self._pause = home, most, allow_private, pause

    def open(self, spec: DataSpec) -> str:
        """The name of the folder that the data are in when this returns."""
        check_source(spec)
        name, remembered = data_files.name_of(spec), self._home / DATA
        if not (self._home / OPENED / name).exists():
            # how much memory it may take is not for the server to say
            mostly_in_files = msgspec.structs.replace(spec, memory=IN_MEMORY)
            with only_public(not self._allow_private):
                data = open_data(mostly_in_files, remembered, cache=remembered, progress=lambda *_: self._pause())
            data_files.keep(self._home / OPENED, name, data, self._most)
        return name


def give_up_the_rest(home: Path) -> set[str]:
    """No graph runs here, but pictures of strangers are decoded: no programs, and no files but those of data sets."""
    kept = [cache_folder() / name for name in (*BY_NAME, "files", "indexes")]
    writable = [home / DATA, home / OPENED, *kept]
    for folder in writable:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    shared = os.environ.get("LAMINAR_DATA")
    return confine(files=[cache_folder(), *_of_network(), *([Path(shared)] if shared else [])], writable=writable, network=True)


def _of_network() -> list[Path]:
    """What names and certificates are looked up in. Some are links to other places: those are named, too."""
    certificates = ssl.get_default_verify_paths()
    files = [Path("/etc/resolv.conf"), Path("/etc/hosts"), Path("/etc/nsswitch.conf")]
    files += [Path(place) for place in (certificates.cafile, certificates.capath, certificates.openssl_cafile) if place]
    return [Path("/etc"), Path("/usr/share/ca-certificates"), *files, *(path.resolve() for path in files)]


if __name__ == "__main__":
    main()
