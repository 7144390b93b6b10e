"""Crowd: members against the server's real code, one task after the other, on a clock that stands where it is put; some may be away."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import nodes, versions
from laminar.grid.population.hall import Hall
from laminar.grid.population.members import Member
from laminar.grid.server.service import Denied
from laminar.grid.settings import Settings
from laminar.grid.wire.messages import Ask, Task

GONE = 0.05  # share of the tasks that a member who comes and goes never brings


class Problem(Protocol):
    """Something that is learned."""

    settings: Settings
    first: bytes  # version

    def work(self, version: bytes, task: Task) -> tuple[Tensor, NDArray[np.float64]]:
        """The change, or the gradient, and the buffers afterwards. The same for all who do it honestly."""

    def accuracy(self, version: bytes) -> float: ...


class Crowd:
    def __init__(self, problem: Problem, kinds: Sequence[str], *, seed: int = 0, away: float = 0.0, one_owner: str = "sybil") -> None:
        """`kinds`: one for each member; those of `one_owner` are one person's. `away`: the share of the time in which members are."""
        self.problem, self.away, settings = problem, away, problem.settings
        self.hall = Hall(TorchLearner(), seed=seed)
        self.run = self.hall.begin("net", settings, problem.first)
        self.dice = np.random.default_rng(seed)
        self.members: list[Member] = []
        for i, kind in enumerate(kinds):
            key = base64.b64encode(hashlib.sha256(f"{seed} {i}".encode()).digest()).decode()
            id = self.hall.enrol(key, f"{kind} {i}", owner=kind if kind == one_owner else None)
            self.members.append(Member(id, kind, settings, np.random.default_rng(derive(seed, "node", i))))
        self.off = np.zeros(len(kinds), bool)
        self._version: tuple[int, bytes] = -1, b""
        self._done: dict[int, tuple[Tensor, NDArray[np.float64]]] = {}

    def version(self, number: int) -> bytes:
        if self._version[0] != number:
            row = self.hall.desk.do(lambda tx: versions.get(tx, self.run, number))
            self._version = number, bytes(row.data)
        return self._version[1]

    def work(self, version: bytes, task: Task) -> tuple[Tensor, NDArray[np.float64]]:
        """Done once, however many do it."""
        if task.task not in self._done:
            self._done[task.task] = self.problem.work(version, task)
        return self._done[task.task]

    def turn(self) -> bool:
        """Everybody does a task, if there is one. False: nobody had any."""
        busy = False
        for i, member in enumerate(self.members):
            if self.away:
                self.off[i] = self.dice.random() < (0.8 * self.away if not self.off[i] else 1 - 0.8 * (1 - self.away))
            if self.off[i]:
                continue
            try:
                work = self.hall.ask(member.id, Ask(want=1, holds=member.stuck[-8:]))
            except Denied:
                continue
            member.told(work)
            for task in work.tasks:
                busy = True
                if self.away and self.dice.random() < GONE:
                    member.stuck.append(task.result)
                    continue
                version = self.version(task.version.number)
                change, buffers = self.work(version, task)
                said = self.hall.answer(member.id, task.result, member.answer(task, change, buffers, version))
                if said.state != "returned":
                    member.settled(task.result, said.state, "")
            self.hall.now += 1.0
            self.hall.office.turn()
        return busy

    def play(self, most: int = 3000) -> float:
        """Until the run is over; the accuracy of its last version."""
        for _ in range(most):
            if self.hall.run(self.run).state != "open":
                break
            if not self.turn():
                self.hall.now += 30.0
        if self.hall.run(self.run).state != "done":
            raise RuntimeError(f"the run is not done after {most} turns: {self.counts}")
        return self.accuracy

    @property
    def accuracy(self) -> float:
        """Of the newest version."""
        return self.problem.accuracy(self.version(self.hall.run(self.run).version))

    @property
    def counts(self) -> dict[str, int]:
        return self.hall.counts(self.run)

    def banned(self) -> list[str]:
        return [row["name"] for row in self.known() if row["banned"]]

    def known(self) -> list[dict[str, Any]]:
        return self.hall.desk.do(nodes.everyone)
