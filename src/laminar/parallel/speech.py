"""Speech: what a process says to its chief, as lines of JSON in a pipe.

A chief may be stopped (Ctrl-Z) and does not read then. What the pipe does not take waits here, so that nobody who waits for this process
has to wait for the chief: only the last word does, and what is more than anybody should remember.
"""

from __future__ import annotations

import json
import os
import select
import threading
from typing import Any, Final, final

MOST: Final = 16 << 20  # bytes
LAST: Final = ("done", "error")


@final
class Speech:
    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe, self._unsaid, self._one_at_a_time = pipe, bytearray(), threading.Lock()

    def __call__(self, message: dict[str, Any]) -> None:
        with self._one_at_a_time:
            self._unsaid += json.dumps(message).encode() + b"\n"
            self._write()
            while len(self._unsaid) > (0 if any(word in message for word in LAST) else MOST):
                select.select([], [self._pipe], [])
                self._write()

    def _write(self) -> None:
        """As much as the pipe takes."""
        try:
            while self._unsaid:
                del self._unsaid[: os.write(self._pipe, self._unsaid)]
        except BlockingIOError:
            pass
