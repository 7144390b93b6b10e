"""Downloads: a file with a known sha256 from the first of several homes that gives it, going on where the last try broke off.

A file whose sha256 nobody has published can be had as well: what arrives is then proved by nothing but its length.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.data.fetch_clock import fetches
from laminar.data.sources.protocol import Progress

TIMEOUT = 15.0  # seconds without a byte
_CHUNK = 1 << 18


@fetches
def fetch(
    urls: Sequence[str], target: Path, sha256: str | None, progress: Progress, *, looked_in: Sequence[Path] = (), as_sent: bool = False
) -> None:
    """Put the file at `target`. Two processes may call this.

    `sha256` is that of its content, unzipped if the name ends in .gz; or, `as_sent`, of the bytes that arrive. None: it is not known.
    """
    failures: list[str] = []
    with atomic.explaining_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if target.is_file():
                return
            part = target.with_name(f"{target.name}.part")
            for url in urls:
                try:
                    _download(url, part, sha256, progress, unzip=target.suffix == ".gz" and not as_sent)
                except _NOT_HAD as error:
                    failures.append(f"{url} ({getattr(error, 'reason', None) or error})")
                else:
                    os.replace(part, target)
                    atomic.fsync_folder(target.parent)
                    return
    looked = f" It was not in {', '.join(map(str, looked_in))}." if looked_in else ""
    raise LaminarError(
        "L107",
        f"{target.name} could not be downloaded.{looked} Tried: {'; '.join(failures)}",
        hint=f"with a network, run the same command again: it goes on where it stopped; without one, copy {target.name} to {target.parent}",
    )


class _Unlike(Exception):
    """What arrived is not the file."""


_NOT_HAD = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, _Unlike)


def _download(url: str, part: Path, sha256: str | None, progress: Progress, *, unzip: bool) -> None:
    """Fill `part` and prove it; what is there already is kept if it turns out to be the beginning of the right file."""
    if sha256 is None:
        part.unlink(missing_ok=True)  # whose beginning it is could not be told
        return _receive(url, part, progress)
    resumed = part.is_file() and part.stat().st_size > 0
    if resumed:
        with contextlib.suppress(_Unlike, urllib.error.HTTPError):
            _receive(url, part, progress)
            return _prove(part, sha256, unzip=unzip)
    part.unlink(missing_ok=True)
    _receive(url, part, progress)
    return _prove(part, sha256, unzip=unzip)


def _receive(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "laminar", **({"Range": f"bytes={have}-"} if have else {})})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        if have and answer.status != 206:  # a server that cannot begin in the middle begins anew
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        with open(part, "ab" if have else "wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                progress(url, have, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have < total:
        raise ConnectionError(f"broke off after {have:,} of {total:,} bytes")


def _prove(part: Path, sha256: str, *, unzip: bool) -> None:
    """Keep nothing that is not what was asked for."""
    found = hashlib.sha256()
    try:
        with gzip.open(part, "rb") if unzip else open(part, "rb") as file:
            while chunk := file.read(1 << 20):
                found.update(chunk)
        if found.hexdigest() == sha256:
            return
        why = f"sha256 {found.hexdigest()[:12]}…, expected {sha256[:12]}…"
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        why = str(error)
    part.unlink()
    raise _Unlike(f"sent something else: {why}")
