"""In step: processes that measure something together, all at the same time, as often as the first of them says."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final, final

import torch

from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import Segment
from laminar.parallel.split.line import Alone, Line
from laminar.parallel.split.shared_line import SharedLine
from laminar.parallel.sync.process_group import Group

SAMPLES: Final = 5
UNEVEN: Final = 6  # times as long as what is even
BURST: Final = 0.01  # seconds: some turns of a scheduler
TIMEOUT: Final = 60.0  # seconds
BEGIN: Final = 120.0  # until all have loaded torch
Curve = list[list[float]]  # bytes, seconds


@final
class InStep:
    def __init__(self, told: dict[str, Any]) -> None:
        self.rank, self.size = int(told["rank"]), int(told["size"])
        self.sizes: list[int] = told["sizes"]
        self.least, self.steps = float(told["seconds"]), float(told["steps"])
        self.socket: str = told["socket"]
        self.segment, self.step_segment = (Segment(*one) for one in told["segments"])
        self.line: Line = Alone()
        self._meeting: Meeting | None = None
        if self.size > 1:
            shared = SharedLine(self.segment, 0, self.rank, self.size, timeout=BEGIN)
            self.line, self._meeting = shared, shared.meeting
            self.meet()
            shared.meeting.timeout = TIMEOUT
        self._told, self._groups = told, dict[str, Group]()

    def group(self, name: str) -> Group:
        """All of them over gloo; everybody asks for the same ones in the same order."""
        if name not in self._groups:
            host, port = self._told["host"], self._told["port"]
            self._groups[name] = Group(host, port, self.rank, self.size, bind=host, timeout=TIMEOUT, name=name)
        return self._groups[name]

    def meet(self) -> None:
        if self._meeting is not None:
            self._meeting.meet()

    def agreed(self, value: float) -> float:
        """What the first one has."""
        return float(self.line.sum(torch.tensor([0.0 if self.rank else value], dtype=torch.float64)))

    def added(self, value: float) -> float:
        """Over all."""
        return float(self.line.sum(torch.tensor([value], dtype=torch.float64)))

    def timed(self, function: Callable[[], Any], *, uneven: bool = False) -> float:
        """Seconds of a call that all make at once, many times over. `uneven`: what takes ten times as long now and then, because whoever
        is woken up has to wait for a core; then it is the mean that counts, of more of them."""
        clock = time.perf_counter
        self._spread_out()
        for _ in range(3):
            function()
        self.meet()
        begin = clock()
        function()
        least = self.least * (UNEVEN if uneven else 1)
        times = int(self.agreed(max(1.0, least / SAMPLES / max(clock() - begin, 1e-9))))
        for _ in range(times):  # caches, clocks and connections are warm after that
            function()
        samples = []
        for _ in range(SAMPLES):
            self.meet()
            begin = clock()
            for _ in range(times):
                function()
            samples.append((clock() - begin) / times)
        return statistics.mean(samples) if uneven else statistics.median(samples)

    def _spread_out(self) -> None:
        """Processes that only wait for each other may end up on one core, and stay there. Those that compute are given one each."""
        self.meet()
        until, a = time.perf_counter() + BURST, torch.ones(64, 64)
        while time.perf_counter() < until:
            torch.mm(a, a)

    def played(self, *parts: Callable[[], Any], uneven: bool = False) -> float:
        """The same, where the first ones have parts of their own, and the others nothing to do."""
        return self.timed(parts[self.rank] if self.rank < len(parts) else _nothing, uneven=uneven)


def _nothing() -> None: ...
