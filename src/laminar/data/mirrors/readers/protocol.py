"""The seam: what a connection to a mirror must offer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Protocol

BLOCK: Final = 1 << 18


@dataclass(frozen=True)
class Ask:
    """Bytes [start, end) of a file that should have `size` bytes (None: to its end, and whatever it has)."""

    path: str
    start: int = 0
    end: int | None = None
    size: int | None = None
    skip: Callable[[int], None] | None = None  # is told what is read over by a mirror that cannot begin in the middle; None: it need not


class Reader(Protocol):
    """Connects when it is first asked, stays connected, connects again after a fault. Raises Fault and nothing else."""

    def stream(self, ask: Ask) -> Generator[bytes, None, None]:
        """What was asked for, to the last byte, as it arrives. May be left in the middle, by closing the iterator."""
        ...

    def abort(self) -> None:
        """From another thread: let a stream that waits fail now, if that is possible."""
        ...

    def close(self) -> None:
        """End the connection. May be called twice; throws nothing."""
        ...


@dataclass(frozen=True)
class Timeouts:
    """Seconds."""

    connect: float = 5.0
    read: float = 10.0
