"""Be a mirror: serve a folder of images and its index over HTTP and FTP, for reading only, until Ctrl-C.

Only what the index names is served. Others use it with  source = "index:URL/index.json"  or  mirrors = ["URL", …].
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, remark, say
from laminar.core.errors import LaminarError
from laminar.core.figures import many


def run(
    folder: Annotated[Path, typer.Argument(help="A folder with one folder of images a class.")],
    http: Annotated[int | None, typer.Option("--http", metavar="PORT", min=0, max=65535, help="0 takes any free port.")] = None,
    ftp: Annotated[int | None, typer.Option("--ftp", metavar="PORT", min=0, max=65535, help="0 takes any free port.")] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at; 127.0.0.1: this machine only.")] = "0.0.0.0",
    index: Annotated[Path | None, typer.Option("--index", help="Serve this index; made anew from FOLDER if left out.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and count them.")] = False,
    json: Json = False,
) -> None:
    from laminar.cli.progress import counted
    from laminar.core import digest
    from laminar.data.index import read_index
    from laminar.data.make_index import index_of
    from laminar.data.serve.mirror import serving

    if http is None and ftp is None:
        raise LaminarError("L008", "neither --http nor --ftp is given", hint=f"laminar data serve {folder} --http 8080 --ftp 2121")
    skipped: list[str] = []
    if index is not None:
        data = _read(index)
        known = read_index(data, str(index))
    else:
        with counted(quiet=json) as progress:
            known, skipped = index_of(folder, skip_bad=skip_bad, progress=progress)
        data = known.encode()
    for why in skipped:
        remark(f"skipped: {why}")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with serving(folder, data, {file.path for file in known.files}, host=host, http=http, ftp=ftp, tell=remark) as served:
        if json:
            import json as encoder

            say(encoder.dumps({"urls": served.urls, "images": len(known.files), "sha256": digest.of_bytes(data)}))
        else:
            say(f"{many(len(known.files), 'image')} of {folder} at " + " and ".join(served.urls))
            say(f'source = "index:{served.urls[0]}/index.json#sha256={digest.of_bytes(data)}"')
            remark("Ctrl-C ends it")
        stop.wait()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LaminarError(
            "L101", f"{path} cannot be read: {error.strerror}", hint="laminar data index FOLDER --out FILE makes one"
        ) from error
