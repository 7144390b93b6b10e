"""Link: the side that asks, and waits for the answer."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, final

from laminar.parallel.wire.addresses import connect
from laminar.parallel.wire.frames import HEADER_LIMIT, LENGTHS, Bytes, Gone, frame, parsed


@final
class Link:
    """Asks a hub. A reply's bytes are valid until the next is received."""

    def __init__(self, address: str, token: str, *, timeout: float | None = None) -> None:
        self._socket = connect(address, timeout)
        self._buffer = bytearray()
        self.sent = self.received = 0  # bytes
        try:
            self.send({"token": token})
        except Gone:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def own_host(self) -> str:
        """The address of this machine by which it calls."""
        return str(self._socket.getsockname()[0])

    def send(self, header: Any, *payload: Bytes) -> None:
        parts = frame(header, payload)
        self.sent += sum(len(part) for part in parts)
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            raise Gone(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], memoryview]:
        header_bytes, payload_bytes = LENGTHS.unpack(self._exactly(bytearray(LENGTHS.size)))
        if header_bytes > HEADER_LIMIT:
            raise Gone(f"a header of {header_bytes:,} bytes")
        header = parsed(self._exactly(bytearray(header_bytes)))
        if len(self._buffer) < payload_bytes:
            try:
                self._buffer = bytearray(payload_bytes)
            except (MemoryError, OverflowError):
                raise Gone(f"a message of {payload_bytes:,} bytes") from None
        payload = memoryview(self._buffer)[:payload_bytes]
        self._exactly(payload)
        self.received += LENGTHS.size + header_bytes + payload_bytes
        return header, payload

    def ask(self, header: Any, *payload: Bytes) -> tuple[dict[str, Any], memoryview]:
        self.send(header, *payload)
        return self.receive()

    def _exactly(self, into: bytearray | memoryview) -> bytearray | memoryview:
        view, at = memoryview(into), 0
        while at < len(view):
            try:
                got = self._socket.recv_into(view[at:])
            except OSError as error:
                raise Gone(str(error)) from error
            if not got:
                raise Gone("the other side has closed")
            at += got
        return into

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in receive
        self._socket.close()
