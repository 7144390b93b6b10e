"""Calls of a worker to a server. The line may break and the server may die: it is called again until the strategy's timeout has passed."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.parallel.apart.messages import Alive, Hello, Message, Push, Refused, Reply, Welcome, reply
from laminar.parallel.wire.frames import Bytes, Gone
from laminar.parallel.wire.link import Link

FIRST_PAUSE: Final = 0.02  # seconds between calls, doubled each time up to
LONGEST_PAUSE: Final = 1.0
ALIVE_SECONDS: Final = 1.0  # between words of a worker that has nothing to say
SILENCE: Final = 10.0  # seconds until the answer to a hello, at most, and between looks whether silence is the end
HANGS: Final = 3  # timeouts for a server that takes the call and says nothing: its chief ends it after one, and starts it again
LEFT: Final = "it was told to leave"


class Over(Exception):
    """The training has ended, so the server will not come back."""


@final
class Server:
    """A server as its workers see it. For one thread."""

    def __init__(
        self,
        address: str,
        token: str,
        name: str,
        timeout: float,
        *,
        room: tuple[int, int] | None = None,
        pause: Callable[[float], None] = time.sleep,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`room`: bytes that messages have at most, to the server and from it, if they are to lie in shared memory where it is near.

        `over`: asked where there is no answer; nobody need wait for a server of a training that has ended.
        """
        self.address, self.name, self._room = address, name, room
        self._token, self._timeout, self._pause, self._over = token, timeout, pause, over
        self._silence = min(timeout, SILENCE)
        self._link: Link | None = None
        self._life = secrets.token_hex(8)  # numbers of processes are used again
        self.welcome = Welcome(worker=name, version=0, next=0, kept=-1)
        self.busy: int | None = None  # the round that is worked at

    def call(self) -> Welcome:
        """Say hello, as often as it takes. Over if that is for ever."""
        began, wait = time.monotonic(), FIRST_PAUSE
        hello = Hello(worker=self.name, life=self._life, pid=os.getpid(), host=socket.gethostname(), busy=self.busy)
        while True:
            self.close()
            patience = self._timeout
            try:
                self._link = Link(self.address, self._token, timeout=self._silence, room=self._room)
                patience = HANGS * self._timeout
                said = _checked(self._link.ask(hello)[0])
                assert isinstance(said, Welcome)
                self._link.wait_for_ever()  # a server may have no work for long
                self.welcome, self.name = said, said.worker
                return said
            except Gone as error:
                if self._over():
                    raise Over from error
                if time.monotonic() - began > patience:
                    raise LaminarError(
                        "L401",
                        f"the server at {self.address} did not answer for {patience:g} s: {error}",
                        hint="look at its machine; laminar build again goes on from the last snapshot",
                    ) from error
                self._pause(wait)
                wait = min(2 * wait, LONGEST_PAUSE)

    def answer(self, said: Push, *payload: Bytes) -> None:
        """The round that is worked at. If it does not arrive, the server asks again."""
        self.busy = None
        self._tell(said, *payload)

    def still_here(self) -> bool:
        """In the middle of long work. False: the line is broken, and a server that was restarted must hear of it before it gives up."""
        return self._tell(Alive())

    def _tell(self, said: Message, *payload: Bytes) -> bool:
        """False: the line is broken."""
        assert self._link is not None
        try:
            self._link.send(said, *payload)
        except Gone:
            return False
        return True

    def ask(self, said: Message, *payload: Bytes) -> tuple[Reply, memoryview]:
        """Gone if the line breaks."""
        self.say(said, *payload)
        return self.hear()

    def say(self, said: Message, *payload: Bytes) -> None:
        """The first half of asking. Gone if the line breaks."""
        assert self._link is not None
        self._link.send(said, *payload)

    def hear(self) -> tuple[Reply, memoryview]:
        """The second half, which waits unless it is `ready`."""
        assert self._link is not None
        while not self._link.ready(self._silence):
            if self._over():  # a server that hangs holds the line
                raise Over
        header, data = self._link.receive()
        return _checked(header), data

    @property
    def near(self) -> bool:
        """Does what is said to it lie in shared memory?"""
        return self._link is not None and self._link.near

    def ready(self) -> bool:
        assert self._link is not None
        return self._link.ready()

    def wait(self) -> tuple[Reply, memoryview]:
        """What the server says next. After a broken line, what it says to one who is new."""
        while True:
            try:
                return self.hear()
            except Gone:
                self.call()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


def _checked(header: dict[str, Any]) -> Reply:
    said = reply(header)
    if isinstance(said, Refused):
        raise LaminarError(said.code, f"the server refused: {said.message}", hint=said.hint)
    return said
