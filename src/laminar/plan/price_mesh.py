"""What a step takes on a mesh: every operator on every worker's parts, with the exchanges between. No torch here.

The tasks of an operator depend on its own cost and on who needs it, so that a simulation can be edited operator by operator (delta.py):
what changes with a rule for a module are the costs of its operators and of some behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from laminar.core.errors import LaminarError
from laminar.plan.facts import Exchange, JobFacts, ModelCost, OperatorCost
from laminar.plan.grid_lines import GridLines
from laminar.plan.known import Known
from laminar.plan.places import Places
from laminar.plan.step import Step
from laminar.plan.tasks import Key, Task
from laminar.plan.team_memory import FLOAT, opened
from laminar.train.splitting import Mesh

BEFORE, RUN, AFTER, BACK, RETURN = range(5)  # parts of an operator's tasks
Ends = list[Key]  # by rank: the task after which something is there


@final
class MeshMaker:
    """The tasks of a step, operator by operator; behind them, as two more, the gradients and the optimizer."""

    def __init__(self, places: Places, mesh: Mapping[str, int], link: str, needs: Sequence[Sequence[int]], rest: Rest) -> None:
        self._places, self._link, self._rest = places, link, rest
        self._lines = GridLines(mesh)
        self._ranks = range(self._lines.size)
        self._slow = [places.slow(rank) * places.last_of(self._lines.size) for rank in self._ranks]
        self._needs = [tuple(some) for some in needs]
        count = len(self._needs)
        self._used: list[list[int]] = [[] for _ in range(count)]
        for i, some in enumerate(self._needs):
            for maker in some:
                self._used[maker].append(i)
        self._first = [i for i, some in enumerate(self._needs) if not some]
        self._gradients, self._optimizer = count, count + 1
        self.operators = count + 2
        self._touched = [
            tuple(sorted({i, *self._used[i], *self._needs[i], *([count, count + 1] if i in self._first else [])})) for i in range(count)
        ] + [(count, count + 1), (count + 1,)]
        self._priced: dict[tuple[Exchange, int], tuple[float, list[tuple[int, ...]]]] = {}

    def touched(self, operator: int) -> Sequence[int]:
        return self._touched[operator]

    def tasks_of(self, operator: int, configs: Sequence[Any]) -> Sequence[Task]:
        """`configs`: the cost of each operator; then the exchanges of gradients, and bytes of trained tensors."""
        if operator == self._gradients:
            return self._add_gradients(configs)
        if operator == self._optimizer:
            return self._step(configs)
        return [*self._there(operator, configs), *self._back(operator, configs)]

    def _there(self, i: int, configs: Sequence[Any]) -> list[Task]:
        cost: OperatorCost = configs[i]
        found: list[Task] = []
        needed = [self._made(one, configs) for one in self._needs[i]]
        ready: list[tuple[Key, ...]] = [tuple(dict.fromkeys(ends[rank] for ends in needed)) for rank in self._ranks]
        for k, one in enumerate(cost.before):
            ready = self._exchange(found, (i, BEFORE, k), one, ready, cost.path)
        for rank in self._ranks:
            takes = ((rank, cost.kept),) if cost.kept else ()
            seconds, core = cost.forward * self._slow[rank], (self._places.core(rank),)
            found.append(Task((i, RUN, rank), seconds, core, ready[rank], "forward", cost.path or cost.name, takes))
        ready = [((i, RUN, rank),) for rank in self._ranks]
        for k, one in enumerate(cost.after):
            ready = self._exchange(found, (i, AFTER, k), one, ready, cost.path)
        return found

    def _back(self, i: int, configs: Sequence[Any]) -> list[Task]:
        cost: OperatorCost = configs[i]
        found: list[Task] = []
        behind = [self._returned(one, configs) for one in self._used[i]] or [self._made(i, configs)]
        for rank in self._ranks:
            after = tuple(dict.fromkeys(ends[rank] for ends in behind))
            seconds, core = (cost.inputs + cost.weights) * self._slow[rank], (self._places.core(rank),)
            gives = ((rank, cost.kept),) if cost.kept else ()
            found.append(Task((i, BACK, rank), seconds, core, after, "backward", cost.path or cost.name, gives=gives))
        ready: list[tuple[Key, ...]] = [((i, BACK, rank),) for rank in self._ranks]
        for k, one in enumerate(cost.back):
            ready = self._exchange(found, (i, RETURN, k), one, ready, cost.path)
        return found

    def _made(self, i: int, configs: Sequence[Any]) -> Ends:
        """After which an operator's result is with each worker."""
        after = configs[i].after
        if not after:
            return [(i, RUN, rank) for rank in self._ranks]
        line = self._lines.line_of(after[-1].axis)
        return [(i, AFTER, len(after) - 1, line[rank]) for rank in self._ranks]

    def _returned(self, i: int, configs: Sequence[Any]) -> Ends:
        back = configs[i].back
        if not back:
            return [(i, BACK, rank) for rank in self._ranks]
        line = self._lines.line_of(back[-1].axis)
        return [(i, RETURN, len(back) - 1, line[rank]) for rank in self._ranks]

    def _exchange(self, found: list[Task], key: Key, one: Exchange, ready: Sequence[tuple[Key, ...]], path: str) -> list[tuple[Key, ...]]:
        """One on each line of its axis."""
        ends: list[tuple[Key, ...]] = [()] * len(self._ranks)
        for number, members in enumerate(self._lines.lines(one.axis)):
            seconds, resources = self._price(one, members)
            after = tuple(dict.fromkeys(end for member in members for end in ready[member]))
            found.append(Task((*key, number), seconds, resources, after, "exchange", f"{one.kind} {path}"))
            for member in members:
                ends[member] = ((*key, number),)
        return ends

    def _price(self, one: Exchange, members: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        return self._places.exchange(one, members, self._link), self._places.resources(members)

    def _add_gradients(self, configs: Sequence[Any]) -> list[Task]:
        found: list[Task] = []
        ends = [self._returned(i, configs) for i in self._first]
        ready: list[tuple[Key, ...]] = [tuple(dict.fromkeys(some[rank] for some in ends)) for rank in self._ranks]
        for k, one in enumerate(configs[self._gradients]):
            ready = self._exchange(found, (self._gradients, k), one, ready, "gradients")
        return found

    def _step(self, configs: Sequence[Any]) -> list[Task]:
        exchanges: Sequence[Exchange] = configs[self._gradients]
        ready: list[tuple[Key, ...]]
        if exchanges:
            line = self._lines.line_of(exchanges[-1].axis)
            ready = [((self._gradients, len(exchanges) - 1, line[rank]),) for rank in self._ranks]
        else:
            ends = [self._returned(i, configs) for i in self._first]
            ready = [tuple(dict.fromkeys(some[rank] for some in ends)) for rank in self._ranks]
        found = []
        for rank in self._ranks:
            seconds = self._rest.seconds(configs[self._optimizer]) * self._places.slow(rank)
            found.append(Task((self._optimizer, rank), seconds, (self._places.core(rank),), ready[rank], "optimizer", "optimizer"))
        return found


@final
class Rest:
    """What a worker does in a step beside the operators."""

    def __init__(self, job: JobFacts, rows: int) -> None:
        self._job, self._rows = job, rows

    def seconds(self, trained: int) -> float:
        return self._job.step(trained) + self._rows * self._job.gather + self._job.loop


def configs_of(cost: ModelCost) -> list[Any]:
    return [*cost.operators, cost.gradients, cost.trained]


def maker_for(known: Known, places: Places, how: Mesh, cost: ModelCost, batch: int) -> MeshMaker:
    rest = Rest(known.job(), -(-batch // how.parts))
    return MeshMaker(places, how.mesh, how.link, [one.needs for one in cost.operators], rest)


def mesh_step(known: Known, places: Places, how: Mesh, batch: int, threads: int) -> Step:
    cost = known.cost(how.mesh, how.split, how.module, batch, threads)
    if idle := without_use(how.mesh, cost):
        said = f"nothing of the model is split along '{idle[0]}': all {how.mesh[idle[0]]} workers there would do the same"
        raise LaminarError("L012", said, hint="a mesh without it, or other rules in split")
    maker, configs = maker_for(known, places, how, cost, batch), configs_of(cost)
    tasks = [task for i in range(maker.operators) for task in maker.tasks_of(i, configs)]
    return Step(tasks, standing(known, places, cost), bytes_sent(cost, how.workers), names=places.names())


def without_use(mesh: Mapping[str, int], cost: ModelCost) -> list[str]:
    """Axes along which nothing is exchanged: whoever has a part of something has to tell the others of it, here or in the gradients."""
    every = [one for op in cost.operators for one in (*op.before, *op.after, *op.back)]
    used = {one.axis for one in (*every, *cost.gradients)}
    return [axis for axis, size in mesh.items() if size > 1 and axis not in used]


def standing(known: Known, places: Places, cost: ModelCost) -> dict[int, int]:
    job = known.job()
    whole = FLOAT * job.parameters  # as every worker opens the model, before it takes its parts
    own = opened(job, places.facts) - job.untrained + cost.untrained + whole + (2 + job.slots) * cost.trained
    return dict.fromkeys(range(places.workers), own)


def bytes_sent(cost: ModelCost, workers: int) -> int:
    every = [one for op in cost.operators for one in (*op.before, *op.after, *op.back)]
    return workers * sum(one.bytes for one in (*every, *cost.gradients))
