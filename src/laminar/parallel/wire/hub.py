"""Hub: the side that serves. It waits for whoever speaks next, and never for one of them."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

from laminar.parallel.wire.addresses import is_near, listen, roomy
from laminar.parallel.wire.frames import HEADER_LIMIT, IN_ROOM, LENGTHS, Bytes, Gone, frame, parsed
from laminar.parallel.wire.room import DOWN, UP, Room


@dataclass(eq=False)
class Caller:
    """One connection of a hub. `who` is the server's to set."""

    socket: socket.socket
    who: str = ""
    trusted: bool = False
    received: int = 0
    sent: int = 0
    heard: float = 0.0  # the server's to set
    closed: bool = False
    _lengths: bytearray = field(default_factory=lambda: bytearray(LENGTHS.size))
    _header: bytearray | None = None
    _payload: bytearray = field(default_factory=bytearray)
    _payload_bytes: int = 0  # to be read from the socket
    _at: int = 0
    _room: Room | None = None
    _in_room: int = 0  # bytes that lie there
    _outgoing: deque[memoryview] = field(default_factory=deque)


@dataclass(frozen=True)
class Heard:
    """`header` None: the caller is gone. `payload` is valid until the caller is answered, and at most until the hub's next turn."""

    caller: Caller
    header: dict[str, Any] | None
    payload: memoryview


@final
class Hub:
    def __init__(self, address: str, token: str, *, payload_limit: int) -> None:
        """Listen. L405 if the address is taken or is none of this machine. Port 0: any that is free; `address` tells which."""
        self._token, self._limit = token, payload_limit
        self._listener = listen(address)
        self.address = address if address.startswith("unix:") else "{}:{}".format(*self._listener.getsockname()[:2])
        self._selector: Any = selectors.DefaultSelector()  # epoll or kqueue, which another selector can wait for
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.callers: list[Caller] = []
        self._lost: list[Caller] = []  # and not told yet

    def fileno(self) -> int:
        """Readable when there is something to hear."""
        return int(self._selector.fileno())

    def turn(self, timeout: float | None) -> Iterator[Heard]:
        """Whatever is there to hear; waits for it at most so long."""
        for key, mask in self._selector.select(0 if self._lost else timeout):
            if key.fileobj is self._listener:
                self._accept()
                continue
            caller: Caller = key.data
            if mask & selectors.EVENT_WRITE and not caller.closed:
                self._flush(caller)
            if mask & selectors.EVENT_READ and not caller.closed:
                yield from self._read(caller)
        while self._lost:
            caller = self._lost.pop()
            if caller in self.callers:
                self.callers.remove(caller)
                yield Heard(caller, None, memoryview(b""))

    def send(self, caller: Caller, header: Any, *payload: Bytes) -> None:
        """Never waits: what does not go at once goes when there is room. The bytes may change afterwards: what is left is copied."""
        if caller.closed:
            return
        room = caller._room
        if room is not None:
            room.free(UP)
        parts, size = frame(header, payload, lambda parts, size: room is not None and room.put(DOWN, parts, size))
        caller.sent += size
        caller._outgoing.extend(parts)
        self._flush(caller)
        for i in range(1, min(len(parts), len(caller._outgoing)) + 1):
            if not caller._outgoing[-i].readonly:  # of bytes, which nobody changes
                caller._outgoing[-i] = memoryview(bytes(caller._outgoing[-i]))

    def drop(self, caller: Caller) -> None:
        """Hear no more of it. It is told as gone at no later turn."""
        self._close(caller)
        if caller in self.callers:
            self.callers.remove(caller)

    def close(self) -> None:
        for caller in list(self.callers):
            self.drop(caller)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            made, _ = self._listener.accept()
            made.setblocking(False)
            roomy(made)
            caller = Caller(made)
            self.callers.append(caller)
            self._selector.register(made, selectors.EVENT_READ, caller)

    def _read(self, caller: Caller) -> Iterator[Heard]:
        try:
            while not caller.closed and self._fill(caller):
                header, payload = parsed(caller._header or b""), self._payload(caller)
                caller._header, caller._at = None, 0
                if caller.trusted:
                    yield Heard(caller, header, payload)
                    return  # the buffer is valid until the next turn; what is left makes the socket readable again
                if not hmac.compare_digest(str(header.get("token")).encode(errors="replace"), self._token.encode()):
                    raise Gone("a wrong token")
                caller.trusted = True
                if "room" in header and is_near(self.address):
                    caller._room = Room.find(header["room"])
        except (Gone, OSError):
            self._close(caller)

    def _payload(self, caller: Caller) -> memoryview:
        if not caller._in_room:
            return memoryview(caller._payload)[: caller._payload_bytes]
        found = None if caller._room is None else caller._room.get(UP, caller._in_room)
        if found is None:
            raise Gone(f"a message of {caller._in_room:,} bytes in a room that has not so many")
        caller.received += caller._in_room
        return found

    def _fill(self, caller: Caller) -> bool:
        """Read on. True when a message is whole."""
        while True:
            if caller._header is None:
                into, offset = memoryview(caller._lengths), 0
            elif caller._at < len(caller._header):
                into, offset = memoryview(caller._header), 0
            else:
                into, offset = memoryview(caller._payload)[: caller._payload_bytes], len(caller._header)
            if caller._at - offset < len(into):
                try:
                    got = caller.socket.recv_into(into[caller._at - offset :])
                except BlockingIOError:
                    return False
                if not got:
                    raise Gone("closed")
                caller._at += got
                caller.received += got
            if caller._header is None and caller._at == LENGTHS.size:
                header, payload = LENGTHS.unpack(caller._lengths)
                elsewhere, payload = payload & IN_ROOM, payload & ~IN_ROOM
                if header > HEADER_LIMIT or payload > (self._limit if caller.trusted else 0):
                    raise Gone(f"a message of {header:,} and {payload:,} bytes")
                caller._in_room, payload = (payload, 0) if elsewhere else (0, payload)
                caller._header, caller._payload_bytes, caller._at = bytearray(header), payload, 0
                if len(caller._payload) < payload:
                    caller._payload = bytearray(payload)
            if caller._header is not None and caller._at == len(caller._header) + caller._payload_bytes:
                return True

    def _flush(self, caller: Caller) -> None:
        try:
            while caller._outgoing:
                part = caller._outgoing[0]
                gone = caller.socket.send(part)
                if gone == len(part):
                    caller._outgoing.popleft()
                else:
                    caller._outgoing[0] = part[gone:]
        except BlockingIOError:
            pass
        except OSError:
            self._close(caller)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller._outgoing else 0)
        if self._selector.get_key(caller.socket).events != wanted:
            self._selector.modify(caller.socket, wanted, caller)

    def _close(self, caller: Caller) -> None:
        if not caller.closed:
            caller.closed = True
            self._lost.append(caller)
            self._selector.unregister(caller.socket)
            caller.socket.close()
            if caller._room is not None:
                caller._room.close()
                caller._room = None
