"""Fetching: files from whichever mirrors give them, into the cache, each proved by its sha256. The two functions that others call."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from laminar.core import digest
from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.data.fetch_clock import fetches
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.faults import Fault
from laminar.data.mirrors.health import Patience
from laminar.data.mirrors.parts import Part
from laminar.data.mirrors.readers.places import connections, must_be_mirror, parted, reader_of
from laminar.data.mirrors.readers.protocol import Ask, Timeouts
from laminar.data.mirrors.transfer import Transfer
from laminar.data.mirrors.wanted import Wanted
from laminar.data.sources.protocol import Progress, silent
from laminar.store.drivers import masked

_HINT: Final = "check the mirrors and the network, then run the same command again: what has arrived is kept"


@dataclass(frozen=True)
class FromMirror:
    url: str  # without its password
    bytes: int  # that it sent, also those that were of no use
    seconds: float  # in which it was asked for something
    failures: dict[str, int] = field(default_factory=dict)  # kind -> how often


@dataclass(frozen=True)
class Fetched:
    files: int  # that were not in the cache, and of which something arrived now
    bytes: int  # of theirs that arrived now
    seconds: float
    mirrors: tuple[FromMirror, ...] = ()
    by_others: int = 0  # files that other processes fetched meanwhile


@fetches
def fetch(
    wanted: Sequence[Wanted],
    mirrors: Sequence[str],
    cache: FileCache,
    *,
    progress: Progress = silent,
    clock: Clock = SYSTEM,
    patience: Patience = Patience(),  # noqa: B008 - frozen
) -> Fetched:
    """Have all of `wanted` in the cache. L112 when no mirror gives one of them; what the others gave is kept. May be called by several
    processes at once, which then share the work, and may be killed: the next call goes on with what was proved."""
    start = clock.monotonic()
    with cache.using() as lease:
        files = [file for file in {file.sha256: file for file in wanted}.values() if cache.path(file.sha256) is None]
        if not files:
            return Fetched(0, 0, clock.monotonic() - start)
        for url in mirrors:
            must_be_mirror(url)
        lease.wrote = True
        cache.evict(sum(file.size for file in files))
        taken = [_begun(file, cache) for file in files]
        had = [units for _, units in taken]
        before = sum(file.length(unit) for file, units in zip(files, had, strict=True) for unit in units)
        total = sum(file.size for file in files)
        timeouts = Timeouts(connect=min(Timeouts.connect, patience.stall), read=2 * patience.stall)
        with _one_of_several(cache) as backwards:
            transfer = Transfer(
                files,
                had,
                [part for part, _ in taken],
                cache,
                [(functools.partial(reader_of, url, timeouts), connections(url)) for url in mirrors],
                patience=patience,
                backwards=backwards,
                clock=clock,
            )
            what = f"{len(files):,} files from {many(len(mirrors), 'mirror')}" if len(files) > 1 else files[0].path
            transfer.run(lambda proved: progress(what, before + proved, total))
        cache.evict()
    if transfer.given_up:
        raise _refusal(files, mirrors, transfer.given_up)
    health = transfer.swarm.mirrors
    missing = {number for number, units in enumerate(had) if len(units) < files[number].units}
    return Fetched(
        len(transfer.fetched),
        transfer.proved - transfer.had,
        clock.monotonic() - start,
        tuple(
            FromMirror(masked(url), transfer.received[m], transfer.seconds[m], {str(kind): n for kind, n in health[m].counts.items()})
            for m, url in enumerate(mirrors)
        ),
        len(missing - transfer.fetched),
    )


@fetches
def fetch_index(urls: Sequence[str], *, sha256: str | None, limit: int = 256 << 20, patience: Patience = Patience()) -> bytes:  # noqa: B008
    """A small file from the first URL that gives it, and gives the one with this digest. L112 with what each said when none does."""
    failures: list[str] = []
    for url in urls:
        must_be_mirror(url)
        mirror, name = parted(url)
        reader = reader_of(mirror, Timeouts(connect=min(Timeouts.connect, patience.stall), read=patience.stall))
        data = bytearray()
        try:
            with contextlib.closing(reader.stream(Ask(name))) as stream:
                for block in stream:
                    data += block
                    if len(data) > limit:
                        break
        except Fault as fault:
            failures.append(f"{masked(url)}: {fault.why}")
            continue
        finally:
            reader.close()
        if len(data) > limit:
            failures.append(f"{masked(url)}: larger than {limit:,} bytes")
        elif sha256 is not None and (found := digest.of_bytes(data)) != sha256:
            failures.append(f"{masked(url)}: another file (sha256 {found[:12]}…, not {sha256[:12]}…)")
        else:
            return bytes(data)
    raise LaminarError("L112", f"no mirror gives the index. {'; '.join(failures) or 'There is no mirror'}", hint=_HINT)


def _begun(file: Wanted, cache: FileCache) -> tuple[Part | None, set[int]]:
    """What an earlier fetch left of a file."""
    if file.size == 0:
        if hashlib.sha256().hexdigest() != file.sha256:
            raise LaminarError("L111", f"{file.path}: no empty file has the sha256 {file.sha256[:12]}…", hint="make the index anew")
        cache.keep(file.sha256, b"")
        return None, {0}
    if file.units == 1:
        return None, set()
    part = Part(file, cache)
    had = part.had()
    if len(had) == file.units and not part.finish():
        part, had = Part(file, cache), set()
    return part, had


@contextlib.contextmanager
def _one_of_several(cache: FileCache) -> Iterator[bool]:
    """Whether another process is fetching, too: then we begin at the other end, and they meet in the middle."""
    from filelock import FileLock, Timeout

    lock = FileLock(cache.folder / "locks" / "fetching.lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield True
        return
    except OSError:  # who writes will hear of it
        yield False
        return
    try:
        yield False
    finally:
        lock.release()


def _refusal(files: Sequence[Wanted], mirrors: Sequence[str], given_up: dict[int, tuple[str, ...]]) -> LaminarError:
    first = min(given_up)
    more = f" and {len(given_up) - 1:,} more of {len(files):,} files" if len(given_up) > 1 else ""
    reasons = given_up[first]
    if len(reasons) == len(mirrors):
        reasons = tuple(f"{masked(url)}: {why}" for url, why in zip(mirrors, reasons, strict=True))
    return LaminarError("L112", f"no mirror gives {files[first].path}{more}. {'; '.join(reasons) or 'There is no mirror'}", hint=_HINT)
