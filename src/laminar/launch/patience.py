"""How long a chief waits for agents. Pure: who is here, what the engine says and the clock are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

BACK: Final = 5.0  # seconds until a line that broke is mended: the wait where the engine replaces nobody
AGAIN: Final = 20.0  # seconds without another agent, after which those that are here are enough
RESTART: Final = 90.0  # seconds until enough are here again for the training to go on, where the engine is replacing them


@final
@dataclass
class Patience:
    """Of one wait for `wanted` agents, `fewest` at least.

    Where fewer than `fewest` are here, the alternative to waiting is the end of the build. So the engine gets the time that it needs to
    start a machine's software again. Where enough are here, the alternative is a smaller team, which is not worth so much time.
    """

    wanted: int
    fewest: int
    slots: int  # agents that were asked for, which may be more than `wanted`
    began: float
    starting: float | None = None  # seconds for the first agents of all; None: they were here once
    _here: int = field(default=0, init=False)
    _came: float = field(default=0.0, init=False)  # when there were more than before

    def __post_init__(self) -> None:
        self._came = self.began

    def limit(self, *, comes_back: bool) -> float:
        """Seconds for as many as are needed."""
        if self.starting is not None:
            return self.starting
        return RESTART if comes_back else BACK

    def is_over(self, here: int, missing: int, now: float, *, comes_back: bool, most: int | None) -> bool:
        """`missing`: slots of whose agents it is known why they are not here. `most`: Launcher.most."""
        if here > self._here:
            self._came = now
        self._here = here
        if here >= self.wanted:
            return True
        if now - self.began >= self.limit(comes_back=comes_back):
            return True
        if not comes_back:
            return here + missing >= self.slots
        if self.starting is not None or here < self.fewest:
            return False
        return (most is not None and here >= most) or now - self._came >= AGAIN
