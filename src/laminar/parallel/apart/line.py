"""A line from a downpour worker to one server, with a thread of its own: gradients and parameters travel while the worker computes.

What was pushed is remembered until the server has it safe, and pushed again to one that was restarted from its snapshot.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import msgspec
import torch
from torch import Tensor

from laminar.parallel.apart.calls import Server
from laminar.parallel.apart.messages import Ask, Fetch, Finished, Message, Parameters, Push, Reply, Taken, Unit
from laminar.parallel.wire.frames import Gone

Sent = tuple[Push, bytes | memoryview, bytes]


@final
class Line:
    def __init__(self, server: Server, numel: int) -> None:
        """The server has been called."""
        self.server = server
        welcome = server.welcome
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="laminar-line")
        self._lock = threading.Lock()
        self._inbox = torch.zeros(numel)
        self._fresh: int | None = None  # version of what is in the inbox and was not taken
        self._unsafe: deque[Sent] = deque()
        self._next = welcome.next
        self.base = welcome.version  # of what the worker has
        self.acknowledged = welcome.kept  # the highest number that the server has safe
        self.dropped = 0
        self.last: Future[None] | None = None

    # For the worker's own thread

    def push(self, push: Push, packet: memoryview, buffers: bytes) -> Future[None]:
        """Numbered here. One at a time: waits until the one before is taken."""
        self.settle()
        numbered = msgspec.structs.replace(push, sequence=self._next, base=self.base)
        self._next += 1
        self.last = self._thread.submit(self._push, (numbered, packet, buffers))
        return self.last

    def fetch(self) -> Future[None]:
        self.settle()
        self.last = self._thread.submit(self._fetch)
        return self.last

    def alive(self) -> None:
        """A word, if none is under way."""
        if self.last is None or self.last.done():
            self.settle()
            self.last = self._thread.submit(self._alive)

    def settle(self) -> None:
        """Wait for what is under way; whatever went wrong with it is raised here."""
        if self.last is not None:
            self.last.result()
            self.last = None

    def take(self, row: Tensor) -> bool:
        """Put parameters that have come into `row`. False: there are no new ones."""
        if self._fresh is None:
            return False
        with self._lock:
            assert self._fresh is not None
            row.copy_(self._inbox)
            self.base, self._fresh = self._fresh, None
        return True

    def ask(self, done: int | None) -> Unit | Finished:
        self.settle()
        return self._thread.submit(self._ask, done).result()

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self.server.close()

    # In the line's thread

    def _push(self, sent: Sent) -> None:
        self._unsafe.append(sent)
        said, data = self._exchange(sent[0], sent[1], sent[2])
        self._taken(said, data)

    def _alive(self) -> None:
        if not self.server.still_here():
            self._again(None)

    def _fetch(self) -> None:
        said, data = self._exchange(Fetch())
        assert isinstance(said, Parameters)
        self._receive(said.version, data)

    def _ask(self, done: int | None) -> Unit | Finished:
        said, _ = self._exchange(Ask(done=done))
        assert isinstance(said, Unit | Finished)
        return said

    def _exchange(self, message: Message, *payload: bytes | memoryview) -> tuple[Reply, memoryview]:
        """Ask, and when the line breaks call again, push again what may be lost, and ask again."""
        while True:
            try:
                return self.server.ask(message, *payload)
            except Gone:
                self._again(message)

    def _again(self, under_way: Message | None) -> None:
        while True:
            try:
                welcome = self.server.call()
                self._safe(welcome.kept)
                for push, packet, buffers in list(self._unsafe):
                    if push is not under_way:
                        said, _ = self.server.ask(msgspec.structs.replace(push, fetch=False), packet, buffers)
                        assert isinstance(said, Taken)
                return
            except Gone:
                continue

    def _taken(self, said: Reply, data: memoryview) -> None:
        assert isinstance(said, Taken)
        self._safe(said.kept)
        self.dropped += bool(said.dropped)
        if len(data):
            self._receive(said.version, data)

    def _receive(self, version: int, data: memoryview) -> None:
        with self._lock:
            self._inbox.copy_(torch.frombuffer(data, dtype=torch.float32, count=self._inbox.numel()))
            self._fresh = version

    def _safe(self, kept: int) -> None:
        self.acknowledged = max(self.acknowledged, kept)
        while self._unsafe and self._unsafe[0][0].sequence <= kept:
            self._unsafe.popleft()
