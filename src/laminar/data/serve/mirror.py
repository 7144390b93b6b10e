"""A folder as a mirror, over http and ftp, while a block lasts."""

from __future__ import annotations

import contextlib
import errno
import socket
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from laminar.core.errors import LaminarError
from laminar.data.serve.shelf import INDEX, Shelf
from laminar.data.serve.troubles import told


@dataclass(frozen=True)
class Served:
    urls: list[str]  # of the mirror; the index is at index.json below each


@contextlib.contextmanager
def serving(
    folder: Path,
    index: bytes,
    files: Collection[str],
    *,
    host: str = "127.0.0.1",
    http: int | None = None,
    ftp: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Served]:
    """Be a mirror of `files` (paths below `folder`) and of the index. A port of 0 is any that is free. Nothing can be written.

    `tell` hears of what goes wrong in the servers.
    L008 for a port or host that cannot be had, L011 where the extra `serve` is not installed.
    """
    try:
        from laminar.data.serve.ftp_mirror import serving_ftp
        from laminar.data.serve.http_mirror import serving_http
    except ImportError as error:
        raise LaminarError(
            "L011", f"a mirror needs a library that is not installed: {error}", hint="pip install 'laminar-train[serve]'"
        ) from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(told(tell))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laminar-mirror-")))
        (scratch / INDEX).write_bytes(index)
        shelf = Shelf(folder, scratch / INDEX, files)
        wanted = [("http", http, serving_http), ("ftp", ftp, serving_ftp)]
        bound = [(scheme, _bound(stack, host, port, scheme), serve) for scheme, port, serve in wanted if port is not None]
        urls = []
        for scheme, sock, serve in bound:
            urls.append(f"{scheme}://{_shown(host)}:{sock.getsockname()[1]}")
            stack.enter_context(serve(shelf, sock))
        yield Served(urls)


def _bound(stack: contextlib.ExitStack, host: str, port: int, scheme: str) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With its protocol said: asyncio sends without delay only where it sees that it is TCP.
        sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        hint = f"--{scheme} 0 takes any port that is free"
        if error.errno == errno.EACCES:
            hint = f"ports below 1024 are the administrator's: --{scheme} {port + 8000}"
        elif isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            hint = "--host 127.0.0.1 for this machine alone, --host 0.0.0.0 for all that can reach it"
        raise LaminarError("L008", f"cannot serve {scheme} on {host}:{port}: {error.strerror}", hint=hint) from error
    except OverflowError as error:
        raise LaminarError("L008", f"{port} is no port: expected 0 to 65535", hint=f"--{scheme} 0 takes any port that is free") from error
    return sock


def _shown(host: str) -> str:
    """What others can write for it."""
    if host in ("", "0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
