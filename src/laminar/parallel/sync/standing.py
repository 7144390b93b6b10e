"""Standing in: for a stretch of steps the first of a group of members takes the rows of all, and the others rest (crowding.py says when).

It computes part by part what each of them would have computed, writes each gradient where they would have written it, and makes their parts
of the optimizer's step: the same numbers in the same order, so that nobody can tell from the layer who did what. Those that rest go
through the loop without rows, ahead of the others, to the end of the stretch, and sleep there.

    ended - all tell how long they waited - meet - member 0 says how it goes on - meet

What member 0 wishes to be done by all (a checkpoint, the end) waits until then while somebody rests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, final

from laminar.parallel.meeting import Meeting
from laminar.parallel.sync.crowding import FIRST, Stretch
from laminar.parallel.sync.layout import GROUP, ODD, STEPS, WAITED, WISHED, Layout
from laminar.parallel.waited import WAITED as OWN
from laminar.train.team import NOTHING

MEETINGS: Final = 1024  # of a stretch, at most: as many are counted for each, since those that rest come to none
LOOK: Final = 4  # stretches from one look at what a process has to itself to the next, while all compute; it takes 0.1 ms
PARTS: Final = 1_000_000  # in which shares of a time are told


class Decides(Protocol):
    def next(self, now: float, pace: float | None, waited: float, *, allowed: bool) -> Stretch: ...


@final
class Standing:
    def __init__(
        self,
        words: memoryview[int],
        layout: Layout,
        meeting: Meeting,
        decide: Decides,
        own: Callable[[], object],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`decide`: asked in member 0 only. `own`: what this process has to itself; nobody stands in where that changes."""
        self._words, self._layout, self._whole, self._decide, self._look, self._now = words, layout, meeting, decide, own, now
        self._computing = Meeting(words, meeting.rank, meeting.size, first=layout.computing)
        self._take(1, FIRST)
        self._stretches = 0
        self._own: object = None  # what the process has to itself, as it was after the last stretch
        self._odd = False  # that has changed
        self._at, self._met = now(), -1  # end of the last step, and how often all had met by then
        self._clean, self._before = False, 0.0
        self._steps, self._seconds, self._waited = 0, 0.0, 0.0  # of the stretch, as far as nothing came between

    def _take(self, group: int, steps: int) -> None:
        rank, size = self._whole.rank, self._whole.size
        self.group, self.left = group, steps
        self.ranks = range(rank, min(rank + group, size) if rank % group == 0 else rank)  # whose rows this member takes; none: it rests
        self.resting = size + -size // group  # members that do
        self.between = self._whole if group == 1 else self._computing  # where those meet that compute

    def begins(self) -> None:
        """A step is about to be made. If all have met since the last one, they did something else."""
        self._clean, self._before = self._whole.count == self._met, OWN.seconds

    def ended(self, wish: int, left_out: list[int]) -> int:
        """A step was made. What all are to do now; `left_out`, of those that rest, becomes what it is in the others."""
        now = self._now()
        if self._clean:
            self._steps += 1
            self._seconds += now - self._at
            self._waited += OWN.seconds - self._before
        told = wish if self.group == 1 else NOTHING
        self.left -= 1
        if not self.left:
            told, now = self._turn(now, wish, left_out), self._now()
        self._at, self._met = now, self._whole.count
        return told

    def _turn(self, now: float, wish: int, left_out: list[int]) -> int:
        words, layout, rank, size = self._words, self._layout, self._whole.rank, self._whole.size
        own, first, rested = layout.facts(rank), layout.facts(0), not self.ranks
        words[own + WAITED] = 0 if rested or not self._seconds else int(PARTS * self._waited / self._seconds)
        words[own + ODD] = self._changed()
        if not rank and self.group > 1:
            for i, count in enumerate(left_out):
                words[layout.left_out + i] = count
        self._whole.meet()
        if not rank:
            pace = self._seconds / self._steps if self._steps else None
            waited = max(words[layout.facts(r) + WAITED] for r in range(size)) / PARTS
            allowed = not any(words[layout.facts(r) + ODD] for r in range(size))
            after = self._decide.next(now, pace, waited, allowed=allowed)
            words[first + GROUP], words[first + STEPS], words[first + WISHED] = after.group, after.steps, wish
        self._whole.meet()
        told = wish if self.group == 1 else words[first + WISHED]
        if rested:
            left_out[:] = words[layout.left_out : layout.left_out + len(left_out)].tolist()
        self._take(words[first + GROUP], words[first + STEPS])
        self._stretches += 1
        self._computing.among(range(0, size, self.group), MEETINGS * self._stretches)
        self._computing.timeout = self._whole.timeout
        self._steps, self._seconds, self._waited = 0, 0.0, 0.0
        return told

    def _changed(self) -> bool:
        """Has training changed what this process has to itself, as by drawing random numbers? Nobody else can do that for it."""
        if not self._odd and (self.group > 1 or self._own is None or self._stretches % LOOK == 1):
            before, self._own = self._own, self._look()
            self._odd = before is not None and before != self._own
        return self._odd or self._stretches < LOOK
