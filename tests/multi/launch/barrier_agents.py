"""Agents of this machine in the place of a barrier stage of Spark: when one ends, all are ended, and later started again together."""

from __future__ import annotations

import time
from typing import final

from laminar.launch.local_agents import LocalAgents
from laminar.launch.protocol import Call, Trouble


@final
class BarrierAgents:
    name = "barrier"
    fixed: int | None = None
    whole = True

    def __init__(self, *, pause: float = 0.0, room: int | None = None, own: bool = True) -> None:
        """`pause`: seconds until all are started again. `room`: for so many, once one was lost; None: for all."""
        self.agents, self.own = LocalAgents(), own
        self.begin, self.call_off, self.stop = self.agents.begin, self.agents.call_off, self.agents.stop
        self._pause, self._room, self._known = pause, room, False
        self._again: float | None = None  # when they are started again

    @property
    def host(self) -> str:
        return self.agents.host

    def start(self, agents: int, call: Call, *, together: bool) -> None:
        assert together
        self._call, self._wanted = call, agents
        self.agents.start(agents, call, together=together)

    def trouble(self) -> list[Trouble]:
        if self._again is not None and time.monotonic() >= self._again:
            self._again, self._known = None, self._room is not None
            for slot in range(self._room or self._wanted):
                self.agents.start_one(slot, self._call)
        found = self.agents.trouble()
        if not found or self._again is not None:
            return []
        others = [process for slot, process in self.agents.processes.items() if slot not in {trouble.slot for trouble in found}]
        for process in others:
            process.kill()
        for process in others:
            process.wait()
        found += [Trouble(trouble.slot, "ended because another was lost", bystander=True) for trouble in self.agents.trouble()]
        self._again = time.monotonic() + self._pause
        return found

    def comes_back(self) -> bool:
        return True

    def most(self) -> int | None:
        return self._room if self._known else None
