"""Listening: a socket, and a uvicorn server that says when it listens and ends as any command does. The dashboard uses it too."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

import uvicorn

from laminar.core.errors import LaminarError

OTHER: Final = "--host 127.0.0.1 for this machine only, 0.0.0.0 for all its addresses; ports below 1024 are the system's"
WAITING: Final = 2048  # connections that the system keeps until they are taken


def listen(host: str, port: int) -> socket.socket:
    """L405 where it cannot."""
    try:
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        hint = "--port 0 takes any that is free" if port and error.errno == errno.EADDRINUSE else OTHER
        raise LaminarError("L405", f"cannot listen on {host}:{port}: {why}", hint=hint) from error
    # connections have it from here: asyncio sets it on those only that know their protocol by number, and theirs is 0. Without it the body
    # of an answer waits until the other side has acknowledged its head, which takes 40 ms
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Listening(uvicorn.Server):
    """Says when it listens; lets go of requests that it holds when it is to end; and ends as any command does, not by the signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], let_go: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._let_go = ready, let_go

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._let_go()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(WAITING)  # asyncio takes as many at once as it lets wait, which may be fewer
        if not self.should_exit:
            self._ready()
