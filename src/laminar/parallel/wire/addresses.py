"""Addresses: `unix:PATH` or `HOST:PORT`, to call and to listen on."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.core.scratch import scratch
from laminar.parallel.wire.frames import Gone

LONGEST: Final = 80  # letters of a folder for sockets
ROOM: Final = 4 << 20  # asked of the system for each direction: a model of a million numbers goes in one call


def connect(address: str, timeout: float | None) -> socket.socket:
    """Gone if nobody is there."""
    family, place = place_of(address)
    made = socket.socket(family, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        roomy(made)
        made.connect(place)
    except OSError as error:
        made.close()
        raise Gone(f"{address}: {error.strerror or error}") from error
    return made


def listen(address: str) -> socket.socket:
    """L405 if the address is taken or is none of this machine."""
    family, place = place_of(address)
    if family == socket.AF_UNIX:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)  # of a server that was killed
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that died comes back to the same port
        made.bind(place)
        made.listen(128)
    except (OSError, OverflowError) as error:  # the latter: of a port above 65535
        made.close()
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        too_high = isinstance(error, OverflowError)
        what = "it is in use" if taken else "there are no ports above 65535" if too_high else getattr(error, "strerror", None) or error
        raise LaminarError(
            "L405",
            f"cannot listen on {address}: {what}",
            hint="choose another port, or leave port out of strategy: then a free one is taken"
            if taken or too_high
            else "choose a host of this machine",
        ) from error
    made.setblocking(False)
    return made


def lines_folder() -> Path:
    """A new folder for sockets, whose paths must be short."""
    return scratch("laminar-lines-", "/tmp" if len(tempfile.gettempdir()) > LONGEST else None)


def place_of(address: str) -> tuple[socket.AddressFamily, Any]:
    if address.startswith("unix:"):
        return socket.AF_UNIX, address.removeprefix("unix:")
    host, _, port = address.rpartition(":")
    return socket.AF_INET, (host, int(port))


def is_near(address: str) -> bool:
    """Is whoever listens there surely on this machine?"""
    return address.startswith("unix:")


def roomy(made: socket.socket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, option, ROOM)
    if made.family == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
