"""Calls of a worker to a server. The line may break and the server may die: it is called again until the strategy's timeout has passed."""

from __future__ import annotations

import math
import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.parallel.apart.messages import Alive, Hello, Here, Message, Push, Refused, Reply, Welcome, reply
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
        chief: str = "",
    ) -> None:
        """`room`: bytes that messages have at most, to the server and from it, if they are to lie in shared memory where it is near.

        `over`: asked where there is no answer; nobody need wait for a server of a training that has ended.
        `chief`: for one who is not the chief's own, who that is. Chief and server may both be stopped, or cut off, and nobody would end
        this worker: when it waits it asks whether the server is there, and gives up. The chief's own are the chief's to end.
        """
        self._chief = chief
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
            tried = time.monotonic()
            try:
                self._link = Link(self.address, self._token, timeout=self._silence, room=self._room)
                self._link.send(hello)
                self._wait(HANGS * self._timeout - (tried - began))
                said = _checked(self._link.receive()[0])
                assert isinstance(said, Welcome)
                self._link.wait(self._timeout if self._chief else None)  # a server may have no work for long
                self.welcome, self.name = said, said.worker
                return said
            except Gone as error:
                if self._over():
                    raise Over from error
                if tried - began > self._timeout:  # by then it was tried once more: this process may have been stopped itself
                    raise self._no_answer(self._timeout, str(error)) from error
                self._pause(wait)
                wait = min(2 * wait, LONGEST_PAUSE)

    def _no_answer(self, seconds: float, how: str) -> LaminarError:
        if not self._chief:
            return LaminarError(
                "L401",
                f"the server at {self.address} did not answer for {seconds:g} s: {how}",
                hint="look at its machine; laminar build again goes on from the last snapshot",
            )
        return LaminarError(
            "L401",
            f"the server at {self.address} did not answer for {seconds:g} s ({how}), and {self._chief} has started no other",
            hint="if the build was stopped (Ctrl-Z), let it go on; else look at its machine and at the network. Then laminar join again",
        )

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
        while True:
            self._wait(HANGS * self._timeout if self._chief else math.inf, asks=bool(self._chief))
            header, data = self._link.receive()
            if not isinstance(said := _checked(header), Here):
                return said, data

    def _wait(self, patience: float, *, asks: bool = False) -> None:
        """Until there is something to receive, or the end of a line. L401 if that takes too long. `asks` whether the server is there.

        Looks are counted: the time in which this process itself was stopped is not the server's.
        """
        assert self._link is not None
        looks = 0
        while not self._link.ready(self._silence):
            if self._over():  # a server that hangs holds the line
                raise Over
            looks += 1
            if looks * self._silence > patience:
                raise self._no_answer(HANGS * self._timeout, "it takes calls and says nothing")
            if asks:
                self._tell(Alive(answer=True))

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
