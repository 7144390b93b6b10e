"""After Ctrl-C: servers and workers are told, workers hand in what they have, and the servers keep it.

Before it, a server that died or is stopped is started again, and whoever asked it asks once more. After it none is started any more: one
that is gone, or silent for the strategy's timeout, is waited for no longer, and there is the snapshot from before.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, TypeVar, final

from laminar.core.errors import LaminarError
from laminar.parallel.crew import Crew
from laminar.parallel.wire.frames import Gone

STARTING: Final = 60.0  # seconds that a server may take to start

T = TypeVar("T")


class _NoAnswer(Exception):
    """A server does not answer, and will not be started again."""


@final
class CtrlC:
    """Was it pressed, and what of it: for the chief, which tells here whom it hears (`listening`: the servers that are there)."""

    def __init__(self, crew: Crew, servers: int, timeout: float, now: Callable[[], float], *, meanwhile: Callable[[], None]) -> None:
        """`meanwhile`: what the chief does while a server does not answer."""
        self._crew, self._servers, self._timeout, self._now, self._meanwhile = crew, servers, timeout, now, meanwhile
        self.listening: set[int] = set()
        self._asked: float | None = None  # when it was pressed
        self._unheard = False  # a server did not answer after that

    @property
    def pressed(self) -> bool:
        return self._asked is not None

    @property
    def whole(self) -> bool:
        """Do all servers answer? Else there is the snapshot from before."""
        return len(self.listening) == self._servers and not self._unheard

    @property
    def has_time(self) -> bool:
        """May workers still hand in what they have?"""
        return self.whole and self._asked is not None and self._now() - self._asked < self._timeout

    def press(self, tell: Callable[[int], None]) -> None:
        """`tell` a server that it is over. Workers leave at the next batch."""
        self._asked = self._now()
        self._to_servers(tell)
        for member in self._crew.workers:
            member.send(signal.SIGUSR1)

    def keep(self, say_keep: Callable[[int], None]) -> None:
        """What the servers have, if all of them answer."""
        self._to_servers(say_keep)

    def _to_servers(self, say: Callable[[int], None]) -> None:
        """To each, as long as all answer."""
        for shard in range(self._servers) if self.whole else []:
            try:
                say(shard)
            except _NoAnswer:
                self._unheard = True
                for member in self._crew.alive:
                    if member.role == "server" and member.rank == shard:
                        member.kill()  # who hangs does not end when it is asked to
                return

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask a server. One that died or is stopped is started again: see to that meanwhile, and ask once more.

        Not after Ctrl-C: _NoAnswer once one is gone, or was silent for the strategy's timeout."""
        since, patience = self._now(), 3 * self._timeout + STARTING
        while True:
            asked = self._now()
            try:
                return ask()
            except Gone as error:
                if self._asked is not None and (not self.whole or self._now() - self._asked >= self._timeout):
                    raise _NoAnswer from error
                if asked - since > patience:  # by then it was asked once more: this process may have been stopped itself
                    raise LaminarError(
                        "L401",
                        f"a server did not answer for {patience:g} s: {error}",
                        hint="look at its machine; laminar build again goes on from the last snapshot",
                    ) from error
                self._meanwhile()
