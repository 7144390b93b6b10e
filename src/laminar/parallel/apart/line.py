"""A line from a downpour worker to one server: gradients and parameters travel while the worker computes.

Over a network that is the work of a thread of the line's own. Where the server is near, messages lie in shared memory (../wire/room.py):
then there is nothing to wait for but the answer, and the worker looks for it between two steps. A thread would take turns with the worker
at the interpreter, and a core from somebody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import torch
from torch import Tensor

from laminar.parallel.apart.calls import Server
from laminar.parallel.apart.messages import Ask, Fetch, Finished, Parameters, Push, Reply, Taken, Unit
from laminar.parallel.apart.talk import Said, Talk
from laminar.parallel.apart.work import Task
from laminar.parallel.wire.frames import Bytes


@final
class Line:
    def __init__(self, server: Server, numel: int) -> None:
        """The server has been called."""
        self.server = server
        self._talk = Talk(server)
        self._thread = None if server.near else ThreadPoolExecutor(1, thread_name_prefix="laminar-line")
        self._travels: Future[None] | None = None  # by the thread
        self._asked: Said | None = None  # without one
        self._lock = threading.Lock()
        self._inbox = torch.zeros(numel)
        self._fresh: int | None = None  # version of parameters that have come and were not taken
        self._where: Tensor | None = None  # they are in the server's message still; None: in the inbox
        self.buffers = b""  # the model's, as they came with the first parameters; empty: the server has none
        self.base = server.welcome.version  # of what the worker has
        self._task: Task | None = None  # that came with the answer to the last push
        self.waited = 0.0  # seconds that the worker's own thread has waited for this line

    @property
    def acknowledged(self) -> int:
        """The highest number of a push that the server has safe."""
        return self._talk.acknowledged

    @property
    def dropped(self) -> int:
        return self._talk.dropped

    def push(self, push: Push, packet: Bytes, buffers: bytes, base: int | None = None) -> None:
        """Numbered here. One at a time: waits until the one before is taken. The packet must stay as it is.

        `base`: version of what it was computed on; None: of what was taken last.
        """
        self.settle()
        self._begin((self._talk.numbered(push, self.base if base is None else base), (packet, buffers)))

    def fetch(self) -> None:
        self.settle()
        self._begin((Fetch(), ()))

    def keep(self) -> None:
        """Wait until the server has all that was pushed in its snapshot."""
        self.settle()
        self._begin((Fetch(keep=True), ()))
        self.settle()

    def alive(self) -> None:
        """A word, if none is under way."""
        if self._asked is not None or (self._travels is not None and not self._travels.done()):
            return
        self.settle()
        if self._thread is not None:
            self._travels = self._thread.submit(self._talk.still_here)
        else:
            self._put_away()
            self._talk.still_here()

    def ask(self, done: int | None) -> Unit | Finished:
        """For the next unit, which may have come with the answer to a push that asked for it."""
        self.settle()
        if self._task is not None:
            task, self._task = self._task, None
            return Unit(task=task)
        began = time.monotonic()
        if self._thread is not None:
            said = self._thread.submit(self._exchange, (Ask(done=done), ())).result()
        else:
            self._put_away()
            said = self._exchange((Ask(done=done), ()))
        assert isinstance(said, Unit | Finished)
        self.waited += time.monotonic() - began
        return said

    def settle(self) -> None:
        """Wait for what is under way; whatever went wrong with it is raised here."""
        began = time.monotonic()
        if self._travels is not None:
            self._travels.result()
            self._travels = None
        elif self._asked is not None:
            self._end()
        else:
            return
        self.waited += time.monotonic() - began

    def take(self, into: Callable[[Tensor], object]) -> bool:
        """Give it parameters that have come; they are gone afterwards. False: there are no new ones."""
        if self._asked is not None and self.server.ready():
            self._end()
        if self._fresh is None:
            return False
        with self._lock:
            assert self._fresh is not None
            into(self._inbox if self._where is None else self._where)
            self.base, self._fresh, self._where = self._fresh, None, None
        return True

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._where = None
        self.server.close()

    def _begin(self, said: Said) -> None:
        if self._thread is not None:
            self._travels = self._thread.submit(self._travel, said)
            return
        self._put_away()
        self._talk.begin(said)
        self._asked = said

    def _end(self) -> None:
        assert self._asked is not None
        said, self._asked = self._asked, None
        self._receive(*self._talk.end(said))

    def _put_away(self) -> None:
        """What was not taken yet: a message is gone when something is said next."""
        if self._where is not None:
            self._inbox.copy_(self._where)
            self._where = None

    def _travel(self, said: Said) -> None:
        """In the line's thread."""
        self._talk.begin(said)
        self._receive(*self._talk.end(said))

    def _exchange(self, said: Said) -> Reply:
        self._talk.begin(said)
        return self._talk.end(said)[0]

    def _receive(self, reply: Reply, data: memoryview) -> None:
        assert isinstance(reply, Taken | Parameters)
        if isinstance(reply, Taken):
            self._task = reply.task
        if not len(data):
            return
        came = torch.frombuffer(data, dtype=torch.float32, count=self._inbox.numel())
        if isinstance(reply, Parameters) and reply.buffers and not self.buffers:
            self.buffers = bytes(data[4 * self._inbox.numel() :])
        with self._lock:
            if self._thread is None:
                self._where = came
            else:
                self._inbox.copy_(came)
            self._fresh = reply.version
