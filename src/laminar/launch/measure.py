"""Measure: how far two machines are from each other, by a call from one to the other."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from typing import Final

PINGS: Final = 20
WAIT: Final = 10.0  # seconds for a call, and for each answer
KEY: Final = 32  # bytes
PIECE: Final = 1 << 20


def new_key() -> str:
    return secrets.token_hex(KEY // 2)


def answer_one(host: str, key: str) -> str:
    """Listen for one call by who knows the key; where."""
    listener = socket.create_server((host, 0))
    listener.settimeout(WAIT)
    threading.Thread(target=_answer, args=(listener, key), name="laminar-measure", daemon=True).start()
    return "{}:{}".format(*listener.getsockname()[:2])


def _answer(listener: socket.socket, key: str) -> None:
    with listener:
        try:
            line, _ = listener.accept()
            with line:
                line.settimeout(WAIT)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if not hmac.compare_digest(_exactly(line, KEY), key.encode()):
                    return
                for _ in range(PINGS):
                    line.sendall(_exactly(line, 1))
                size = int.from_bytes(_exactly(line, 8), "little")
                while size:
                    size -= len(_some(line, min(size, PIECE)))
                line.sendall(b".")
        except OSError:
            return  # the caller says what went wrong


def call(address: str, key: str, size: int) -> dict[str, float]:
    """Seconds there and back (the median), and bytes per second. OSError if nobody answers."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(key.encode())
        times = []
        for _ in range(PINGS):
            began = time.perf_counter()
            line.sendall(b".")
            _exactly(line, 1)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        line.sendall(size.to_bytes(8, "little"))
        block = bytes(PIECE)
        for at in range(0, size, PIECE):
            line.sendall(block[: size - at])
        _exactly(line, 1)
        spent = time.perf_counter() - began
    return {"latency": sorted(times)[PINGS // 2], "bandwidth": size / max(spent, 1e-9)}


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += _some(line, count - len(found))
    return found


def _some(line: socket.socket, most: int) -> bytes:
    got = line.recv(most)
    if not got:
        raise ConnectionError("the other side has closed")
    return got
