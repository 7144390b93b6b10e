"""How long this process has waited for other workers. A worker is a process, so one number is enough; what it is not waiting, it is busy.

Counted where workers sleep or are blocked (meeting.py, sync/process_group.py), never where they only look: a wait that is over
within some 20 microseconds costs no look at the clock, and is not counted.
"""

from __future__ import annotations

from typing import Final, final


@final
class Waited:
    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


WAITED: Final = Waited()
