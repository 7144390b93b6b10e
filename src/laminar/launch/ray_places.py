"""What a Ray cluster says of the placement group in which agents have their bundles. Pure: the group's state and the clock are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

CROWDED: Final = 5.0  # seconds without a place for a lost one's bundle, after which there is no room
PENDING, PLACED = "PENDING", "CREATED"  # of Ray's states; between them the group holds CPUs already, and after a loss it is RESCHEDULING


@final
@dataclass
class Places:
    """`until`: when it must have been placed for the first time, or at least be about to."""

    until: float
    crowded: bool = field(default=False, init=False)  # Ray has found no other node for a bundle whose node is gone
    _since: float = field(default=0.0, init=False)  # when all bundles had a place, or one was lost

    def have_no_room(self, state: str, now: float) -> bool:
        """A group whose CPUs are held is not waiting for room, however long its bundles take: what it holds is not free for others."""
        return state == PENDING and now > self.until

    def lost(self, now: float) -> None:
        """An agent was: nobody has looked for a place for its bundle before."""
        self._since = now

    def look(self, state: str, now: float) -> None:
        """At a group that was placed once."""
        if state == PLACED:
            self._since = now
        self.crowded = now - self._since > CROWDED
