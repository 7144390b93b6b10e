"""A crowd: nodes that are all there, each doing one task after the other, against the server's real code in this process."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import nodes
from laminar.grid.population.behaviour import Person
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server.service import Denied
from laminar.grid.wire.messages import Task
from laminar.grid.wire.sketch import Sketcher
from laminar.train.on_grid import Grid


@dataclass
class Crowd:
    kinds: list[str]  # one for each node
    grid: Grid
    seed: int = 0
    owners: dict[int, str] = field(default_factory=dict)  # who has a token of their own
    trusted: frozenset[int] = frozenset()
    database: str = "sqlite://"
    kernels: dict[str, str] = field(default_factory=dict)  # that the run needs

    def __post_init__(self) -> None:
        self.problem = Clouds(self.seed)
        self.settings = msgspec.structs.replace(Clouds.settings(self.grid, seed=self.seed), kernels=self.kernels)
        self.hall = Hall(TorchLearner(), seed=self.seed, database=self.database)
        self.run = self.hall.begin("crowd", self.settings, Clouds.first())
        self.sketcher = Sketcher(self.settings.layout.numel, derive(self.seed, "grid sketch"))
        self.people = [Person(kind, np.random.Generator(np.random.PCG64(i))) for i, kind in enumerate(self.kinds)]
        self.ids = []
        for i, kind in enumerate(self.kinds):
            key = base64.b64encode(hashlib.sha256(f"{self.seed} {i}".encode()).digest()).decode()
            self.ids.append(self.hall.enrol(key, f"{kind} {i}", owner=self.owners.get(i), trusted=i in self.trusted))

    def work(self, task: Task) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self.problem.work(self.hall.version(self.run, task.version.number), task.seed, task.steps, self.settings)

    def packed(self, number: int, task: Task) -> bytes:
        row = self.hall.version(self.run, task.version.number)
        return self.people[number].does(task, self.work(task), row, self.settings.layout, self.sketcher)

    def take(self, number: int) -> Task | None:
        """What a node is given; None: nothing, or it is banned."""
        try:
            found = self.hall.ask(self.ids[number]).tasks
        except Denied:
            return None
        return found[0] if found else None

    def turn(self) -> bool:
        """Everybody does a task, if there is one. False: nobody had any."""
        busy = False
        for number in range(len(self.kinds)):
            task = self.take(number)
            if task is not None:
                busy = True
                self.hall.answer(self.ids[number], task.result, self.packed(number, task))
            self.hall.now += 1.0
            self.hall.office.turn()
        return busy

    def play(self, most: int = 2000) -> float:
        """Until the run is over; the accuracy of its last version."""
        for _ in range(most):
            if self.hall.run(self.run).state != "open":
                break
            if not self.turn():
                self.hall.now += 30.0
        assert self.hall.run(self.run).state == "done", self.hall.counts(self.run)
        return self.accuracy

    @property
    def accuracy(self) -> float:
        return self.problem.accuracy(self.hall.version(self.run, self.hall.run(self.run).version))

    @property
    def counts(self) -> dict[str, int]:
        return self.hall.counts(self.run)

    def known(self) -> list[dict[str, Any]]:
        return self.hall.desk.do(nodes.everyone)

    def banned(self) -> list[str]:
        return [row["name"] for row in self.known() if row["banned"]]
