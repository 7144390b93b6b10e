"""Post: numbered messages over a line that may break. What the other side has not seen is kept, and sent again when the line is back.

Pure: what it gives is to be sent, what arrives is given to it. Both sides have one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, final

Bytes = bytes | bytearray | memoryview


@final
class Post:
    def __init__(self) -> None:
        self.seen = 0  # number of the last message of the other side
        self.unseen_bytes = 0  # of our own that are kept
        self._sent = 0
        self._kept: deque[tuple[int, dict[str, Any], Bytes]] = deque()

    def out(self, header: dict[str, Any], payload: Bytes = b"") -> dict[str, Any]:
        """The header to send. `payload` is kept with it, so it must stay as it is."""
        self._sent += 1
        self._kept.append((self._sent, header, payload))
        self.unseen_bytes += len(payload)
        return {**header, "n": self._sent, "seen": self.seen}

    def beat(self) -> dict[str, Any]:
        """A message that need not arrive: it says what was seen."""
        return {"n": 0, "seen": self.seen}

    def take(self, header: dict[str, Any]) -> dict[str, Any] | None:
        """What arrived, without its numbers; None if it is a beat or was seen before."""
        number, seen = header.pop("n"), header.pop("seen")
        self.was_seen(seen)
        if not number or number <= self.seen:
            return None
        if number != self.seen + 1:
            raise ValueError(f"message {number} came after {self.seen}")
        self.seen = number
        return header

    def was_seen(self, number: int) -> None:
        while self._kept and self._kept[0][0] <= number:
            self.unseen_bytes -= len(self._kept.popleft()[2])

    def again(self) -> Iterator[tuple[dict[str, Any], Bytes]]:
        """All that the other side has not seen, in order; for a new line."""
        for number, header, payload in self._kept:
            yield {**header, "n": number, "seen": self.seen}, payload
