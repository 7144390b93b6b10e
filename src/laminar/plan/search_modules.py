"""Search over modules: on a mesh, which table of rules each module has (SOAP: by sample, by attribute, by parameter, or on all workers).

The simulation of a step is edited operator by operator (delta.py), never built anew. No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.plan.anneal import State
from laminar.plan.delta import Simulation
from laminar.plan.facts import ModelCost
from laminar.plan.known import Known
from laminar.plan.places import Places
from laminar.plan.price_mesh import configs_of, maker_for
from laminar.train.splitting import Mesh

SAME: Final[Mapping[str, str] | None] = None  # the mesh's own table


@dataclass(frozen=True)
class Choices:
    """Modules that may have tables of their own, and which."""

    modules: tuple[str, ...]
    tables: tuple[Mapping[str, str] | None, ...]

    @property
    def options(self) -> list[int]:
        return [len(self.tables)] * len(self.modules)

    def strategy(self, how: Mesh, state: State) -> Mesh:
        said = {path: dict(table) for path, option in zip(self.modules, state, strict=True) if (table := self.tables[option]) is not None}
        found: Mesh = msgspec.structs.replace(how, module=said)
        return found

    def starts(self) -> list[State]:
        """All modules alike, in each way there is."""
        return [tuple([option] * len(self.modules)) for option in range(len(self.tables))]


def choices_for(how: Mesh, modules: Sequence[str], dimensions: Sequence[str]) -> Choices:
    """`dimensions`: those that could be split along the axis of the model instead of what `how` splits there."""
    axis = next(axis for name, axis in how.split.items() if name != "batch")
    rows = {name: to for name, to in how.split.items() if name == "batch"}
    own = {name for name, to in how.split.items() if to == axis}
    tables: list[Mapping[str, str] | None] = [SAME, rows]
    tables += [rows | {name: axis} for name in dimensions if {name} != own and name != "batch"]
    if not rows:
        tables.append({"batch": axis})  # rows of the batch on the same workers: what data parallel training does with this module
    return Choices(tuple(modules), tuple(tables))


@final
class MeshWalk:
    """A simulated step on a mesh, led from one choice of tables to another."""

    def __init__(self, known: Known, places: Places, how: Mesh, choices: Choices, batch: int) -> None:
        self._known, self._places, self._how, self._choices, self._batch = known, places, how, choices, batch
        self._simulation: Simulation | None = None
        self._configs: list[Any] = []
        self._before: list[Any] = []
        self._costs: dict[State, ModelCost | None] = {}
        self.delta = self.full = 0

    def cost(self, state: State) -> ModelCost | None:
        if state not in self._costs:
            how = self._choices.strategy(self._how, state)
            try:
                self._costs[state] = self._known.cost(how.mesh, how.split, how.module, self._batch)
            except LaminarError:
                self._costs[state] = None
        return self._costs[state]

    def go(self, state: State) -> float | None:
        cost = self.cost(state)
        if cost is None:
            return None
        configs = configs_of(cost)
        self._before = self._configs
        if self._simulation is None:
            maker = maker_for(self._known, self._places, self._how, cost, self._batch)
            self._simulation = Simulation(maker, configs)
            self.full += 1
        else:
            changed = {i: new for i, (old, new) in enumerate(zip(self._configs, configs, strict=True)) if old != new}
            self._simulation.change(changed)
            self.delta += 1
        self._configs = configs
        return self._simulation.seconds

    def back(self) -> None:
        assert self._simulation is not None
        self._simulation.undo()
        self._configs = self._before
