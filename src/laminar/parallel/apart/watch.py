"""Watch: which processes of the crew have been silent for too long. A process that is stopped does not die, and would be waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from laminar.parallel.crew import Member


@final
class Watch:
    """Servers speak about every second. Workers are the servers' to watch, once they have said hello; before that each has as long as
    the first one took to open the data, and `timeout` more."""

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self._timeout, self._now = timeout, now
        self._began: dict[Member, float] = {}  # when it was started
        self._heard: dict[Member, float] = {}
        self._greeted: set[Member] = set()
        self._opening: float | None = None  # seconds from the start of a worker to its hello

    @property
    def first_hello(self) -> bool:
        return self._opening is not None

    def started(self, member: Member) -> None:
        self._began[member] = self._heard[member] = self._now()

    def heard(self, member: Member) -> None:
        self._heard[member] = self._now()

    def said_hello(self, member: Member | None) -> None:
        """None: a worker that somebody else has started."""
        if member is not None:
            self._greeted.add(member)
        if self._opening is None:
            self._opening = self._now() - self._began[member] if member in self._began else 0.0

    def ended(self, member: Member) -> None:
        for known in (self._began, self._heard):
            known.pop(member, None)

    def silent(self, members: Iterable[Member], now: float) -> list[tuple[Member, str]]:
        """Who, and what is to be said of it. Told once. `now`: when it was last known that nobody was heard who is not."""
        found = []
        for member in members:
            if member not in self._began:
                continue
            if member.role == "server" and now - self._heard[member] > self._timeout:
                found.append((member, f"said nothing for {self._timeout:g} s"))
            elif member.role == "worker" and member not in self._greeted and self._opening is not None:
                allowed = self._opening + self._timeout
                if now - self._began[member] > allowed:
                    found.append((member, f"was not ready after {allowed:.0f} s"))
        for member, _ in found:
            del self._began[member]
        return found
