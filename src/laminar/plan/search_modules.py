"""Search over modules: on a mesh, which table of rules each module has (SOAP: by sample, by attribute, by parameter, or on all workers).

The simulation of a step is edited operator by operator (delta.py), never built anew. No torch here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.plan.anneal import State
from laminar.plan.budget import OutOfTime
from laminar.plan.delta import Simulation
from laminar.plan.facts import ModelCost
from laminar.plan.known import NOT_MEASURED, Known
from laminar.plan.places import Places
from laminar.plan.price_mesh import configs_of, maker_for, without_use
from laminar.train.splitting import Mesh

MANY: Final = 24  # modules, beyond which those that are alike have one table: a walk could not look at each of hundreds
SAME: Final[Mapping[str, str] | None] = None  # the mesh's own table
WHOLE: Final = 1  # the option of a module that is not split but by rows


Option = Mapping[str, str] | None
Group = tuple[str, ...]  # paths of modules


@dataclass(frozen=True)
class Choices:
    """Modules that may have tables of their own, and which: only such as name dimensions that they have. Those of a group have the same."""

    tables: Mapping[Group, tuple[Option, ...]]

    @property
    def options(self) -> list[int]:
        return [len(some) for some in self.tables.values()]

    def chosen(self, state: State) -> list[tuple[Group, Option]]:
        return [(group, some[option]) for (group, some), option in zip(self.tables.items(), state, strict=True)]

    def strategy(self, how: Mesh, state: State) -> Mesh:
        said = {path: dict(table) for group, table in self.chosen(state) if table is not None for path in group}
        found: Mesh = msgspec.structs.replace(how, module=said)
        return found

    def splits(self, state: State) -> bool:
        """Anything? A mesh on which every worker does all of the work is none."""
        return any(table is SAME or table for _, table in self.chosen(state))

    def starts(self) -> list[State]:
        """All modules alike, in each way there is; one that has no such dimension is left whole."""
        every = [table for some in self.tables.values() for table in some]
        alike = [table for i, table in enumerate(every) if table not in every[:i]]
        return [tuple(some.index(table) if table in some else WHOLE for some in self.tables.values()) for table in alike]


def groups_of(modules: Mapping[str, Collection[str]], kinds: Mapping[str, str]) -> dict[Group, Collection[str]]:
    """Each module alone where they are few, and those of one kind together where they are many: the blocks of a deep model are all alike,
    and so is what is best for them. `modules`, and what is found: with the dimensions that they have, all of a group. `kinds`: by module;
    one without is of its own."""
    if len(modules) <= MANY:
        return {(path,): has for path, has in modules.items()}
    found: dict[str, list[str]] = {}
    for path in modules:
        found.setdefault(kinds.get(path, path), []).append(path)
    return {tuple(group): [name for name in modules[group[0]] if all(name in modules[path] for path in group)] for group in found.values()}


def choices_for(how: Mesh, groups: Mapping[Group, Collection[str]], dimensions: Sequence[str]) -> Choices:
    """`groups`: with the dimensions that their modules have. `dimensions`: those that could be split along the axis of the model instead
    of what `how` splits there."""
    axis = next(axis for name, axis in how.split.items() if name != "batch")
    rows = {name: to for name, to in how.split.items() if name == "batch"}
    own = {name for name, to in how.split.items() if to == axis}
    others = [name for name in dimensions if {name} != own and name != "batch"]

    def tables(has: Collection[str]) -> Iterator[Option]:
        yield SAME
        yield rows
        if not rows:
            yield {"batch": axis}  # rows of the batch on the same workers: what data parallel training does with this module
        yield from (rows | {name: axis} for name in others if name in has)

    return Choices({group: tuple(tables(has)) for group, has in groups.items()})


@final
class MeshWalk:
    """A simulated step on a mesh, led from one choice of tables to another."""

    def __init__(self, known: Known, places: Places, how: Mesh, choices: Choices, batch: int, threads: int = 1) -> None:
        """`threads`: of each worker."""
        self._known, self._places, self._how, self._choices = known, places, how, choices
        self._batch, self._threads = batch, threads
        self._simulation: Simulation | None = None
        self._configs: list[Any] = []
        self._before: list[Any] = []
        self._costs: dict[State, ModelCost | None] = {}
        self.delta = self.full = 0

    def cost(self, state: State) -> ModelCost | None:
        if not self._choices.splits(state):
            return None
        if state not in self._costs:
            how = self._choices.strategy(self._how, state)
            try:
                cost = self._known.cost(how.mesh, how.split, how.module, self._batch, self._threads)
                self._costs[state] = None if without_use(how.mesh, cost) else cost  # a table that a module keeps need not split it
            except (LaminarError, OutOfTime) as error:  # it cannot be; or it would have to be measured first
                if isinstance(error, LaminarError) and error.code in NOT_MEASURED:
                    raise
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
