"""Link: the side that asks, and waits for the answer."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Sequence
from typing import Any, final

from laminar.parallel.wire.addresses import connect, is_near
from laminar.parallel.wire.frames import HEADER_LIMIT, IN_ROOM, LENGTHS, Bytes, Gone, frame, parsed
from laminar.parallel.wire.room import DOWN, UP, Room


@final
class Link:
    """Asks a hub. A reply's bytes are valid until something is sent, or received, next."""

    def __init__(self, address: str, token: str, *, timeout: float | None = None, room: tuple[int, int] | None = None) -> None:
        """`room`: bytes of a message up and down, at most, if there are to be many large ones: where the hub is near they are not sent."""
        self._socket = connect(address, timeout)
        self._looks = select.poll()
        self._looks.register(self._socket, select.POLLIN)
        self._buffer = bytearray()
        self._room = Room.make(*room) if room is not None and is_near(address) else None
        self._used = False  # is the last reply in the room?
        self.sent = self.received = 0  # bytes
        try:
            self.send({"token": token} if self._room is None else {"token": token, "room": self._room.told(os.getpid())})
        except Gone:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def own_host(self) -> str:
        """The address of this machine by which it calls."""
        return str(self._socket.getsockname()[0])

    @property
    def near(self) -> bool:
        """Do its bytes lie in a room? Not before the hub has answered for the first time."""
        return self._room is not None and self._room.shared

    def ready(self, within: float = 0.0) -> bool:
        """Is there something to receive, or an end? Waits for it for so many seconds."""
        return bool(self._looks.poll(1000 * within))

    def wait(self, timeout: float | None) -> None:
        """From now on so long, for a message of which nothing more comes or goes. None: for ever."""
        self._socket.settimeout(timeout)

    def send(self, header: Any, *payload: Bytes) -> None:
        """The bytes may change afterwards."""
        self._done_with_room()
        parts, size = frame(header, payload, self._into_room)
        self.sent += size
        try:
            for part in parts:
                self._send_all(part)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # what is sent next would count as the rest of this
            raise Gone(str(error)) from error

    def _send_all(self, part: memoryview) -> None:
        """The timeout is for each piece: a slow line is no dead one."""
        gone = 0
        while gone < len(part):
            gone += self._socket.send(part[gone:] if gone else part)

    def _done_with_room(self) -> None:
        if self._used and self._room is not None:
            self._room.free(DOWN)
        self._used = False

    def _into_room(self, parts: Sequence[memoryview], size: int) -> bool:
        return self._room is not None and self._room.put(UP, parts, size)

    def receive(self) -> tuple[dict[str, Any], memoryview]:
        self._done_with_room()
        header_bytes, payload_bytes = LENGTHS.unpack(self._exactly(bytearray(LENGTHS.size)))
        if header_bytes > HEADER_LIMIT:
            raise Gone(f"a header of {header_bytes:,} bytes")
        header = parsed(self._exactly(bytearray(header_bytes)))
        if payload_bytes & IN_ROOM:
            payload_bytes ^= IN_ROOM
            found = None if self._room is None else self._room.get(DOWN, payload_bytes)
            if found is None:
                raise Gone(f"a message of {payload_bytes:,} bytes in a room that has not so many")
            self._used = True
            self.received += LENGTHS.size + header_bytes + payload_bytes
            return header, found
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
        if self._room is not None:
            self._room.close()
            self._room = None
