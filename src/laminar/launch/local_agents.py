"""Agents as processes of this machine. For tests, for rank 0 of a launch by the environment, and to try a cluster without one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import Final, final

from laminar.launch.agent import TOKEN
from laminar.launch.protocol import Call, Trouble

LEAVE: Final = 5.0  # seconds in which an agent that was told to leave has left


@final
class LocalAgents:
    name = "agents"
    fixed: int | None = None
    own = True
    whole = False

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._told: set[int] = set()

    def begin(self) -> None:
        """There is nothing to load."""

    @property
    def host(self) -> str:
        return self._host

    def start(self, agents: int, call: Call, *, together: bool) -> None:  # noqa: ARG002
        for slot in range(agents):
            self.start_one(slot, call)

    def start_one(self, slot: int, call: Call) -> None:
        words = [sys.executable, "-m", "laminar.launch.agent", call.address, str(slot)]
        self.processes[slot] = subprocess.Popen(words, env=os.environ | {TOKEN: call.token}, start_new_session=True)
        self._told.discard(slot)

    def call_off(self) -> None:
        """It takes no time to start them."""

    def trouble(self) -> list[Trouble]:
        ended = {slot: process.poll() for slot, process in self.processes.items() if slot not in self._told}
        found = [Trouble(slot, f"its agent ended with exit code {code}") for slot, code in ended.items() if code is not None]
        self._told |= {trouble.slot for trouble in found}
        return found

    def comes_back(self) -> bool:
        return False

    def most(self) -> int | None:
        return None

    def stop(self) -> None:
        for end in (None, subprocess.Popen.terminate, subprocess.Popen.kill):  # they were told to leave, and put things away
            for process in self.processes.values():
                if end is not None and process.poll() is None:
                    end(process)
            until = time.monotonic() + LEAVE
            for process in self.processes.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))
