"""A worker's talk with one server of downpour: what was pushed is remembered until the server has it safe, and pushed again to one that was
restarted from its snapshot. For one thread at a time."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import final

import msgspec

from laminar.parallel.apart.calls import Server
from laminar.parallel.apart.messages import Message, Push, Reply, Taken
from laminar.parallel.wire.frames import Bytes, Gone

Said = tuple[Message, tuple[Bytes, ...]]


@final
class Talk:
    def __init__(self, server: Server) -> None:
        """The server has been called."""
        self.server = server
        self._unsafe: deque[tuple[Push, tuple[Bytes, ...]]] = deque()
        self._next = server.welcome.next
        self.acknowledged = server.welcome.kept  # the highest number that the server has safe
        self.dropped = 0

    def numbered(self, push: Push, base: int) -> Push:
        number, self._next = self._next, self._next + 1
        return msgspec.structs.replace(push, sequence=number, base=base)

    def begin(self, said: Said) -> None:
        """Ask; `end` is for the answer."""
        message, payload = said
        if isinstance(message, Push):
            self._unsafe.append((message, payload))
        with contextlib.suppress(Gone):  # found out when the answer does not come
            self.server.say(message, *payload)

    def end(self, said: Said) -> tuple[Reply, memoryview]:
        """The answer. When the line breaks: call again, push again what may be lost, and ask again."""
        message, payload = said
        while True:
            try:
                reply, data = self.server.hear()
            except Gone:
                self._again(message)
                with contextlib.suppress(Gone):
                    self.server.say(message, *payload)
                continue
            if isinstance(reply, Taken):
                self._safe(reply.kept)
                self.dropped += bool(reply.dropped)
            return reply, data

    def still_here(self) -> None:
        if not self.server.still_here():
            self._again(None)

    def _again(self, under_way: Message | None) -> None:
        while True:
            try:
                welcome = self.server.call()
                self._safe(welcome.kept)
                for push, payload in list(self._unsafe):
                    if push is not under_way:
                        said, _ = self.server.ask(msgspec.structs.replace(push, fetch=False, ask=False), *payload)
                        assert isinstance(said, Taken)
                return
            except Gone:
                continue

    def _safe(self, kept: int) -> None:
        self.acknowledged = max(self.acknowledged, kept)
        while self._unsafe and self._unsafe[0][0].sequence <= kept:
            self._unsafe.popleft()
