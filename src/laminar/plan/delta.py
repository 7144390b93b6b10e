"""Delta: the time of a plan after a change of some operators, without simulating all of it anew. No torch here.

FlexFlow's idea (Jia et al., MLSys 2019, arXiv 1807.05358, algorithm 2) in another way: tasks that differ are linked anew in place, and the
loop is resumed where the first of them is ready. Nothing before that can change: what is taken there comes after nothing but what was
taken before, and every task that is new or differs is ready then at the earliest. The outcome is that of `simulate`, to the last bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from laminar.core.errors import LaminarError
from laminar.plan.links import Links, Node, resumed
from laminar.plan.simulate import Timeline, simulate, stuck
from laminar.plan.tasks import Key, Task


class Maker(Protocol):
    """Makes tasks of operators. A task may come after one of another operator only if it is of an operator that is touched by that one."""

    @property
    def operators(self) -> int: ...

    def tasks_of(self, operator: int, configs: Sequence[Any]) -> Sequence[Task]:
        """All whose keys begin with it."""
        ...

    def touched(self, operator: int) -> Sequence[int]:
        """Itself and the operators whose tasks may be others when it is configured in another way."""
        ...


@dataclass
class Log:
    """What it takes to undo a change."""

    order: list[Node]
    end: list[float]
    seconds: float
    configs: dict[int, Any] = field(default_factory=dict)
    own: dict[int, set[Key]] = field(default_factory=dict)
    same: list[tuple[int, Task]] = field(default_factory=list)  # tasks that differ in nothing that takes time
    gone: list[tuple[int, Task]] = field(default_factory=list)  # as they were: those that differ …
    removed: list[tuple[int, Task]] = field(default_factory=list)  # … and those that are no more
    added: list[tuple[int, Key]] = field(default_factory=list)


class Simulation:
    """Of all operators in some configuration, which can be changed."""

    def __init__(self, maker: Maker, configs: Sequence[Any], *, check_every: int = 1000) -> None:
        """Every so many changes it is held against a full simulation; 0: never."""
        self._maker, self._configs, self._check_every = maker, list(configs), check_every
        self._links = Links()
        self._own: dict[int, set[Key]] = {}  # keys of the tasks of each operator
        self._order: list[Node] = []
        self._end: list[float] = []
        self._log: Log | None = None
        self._changes = 0
        self.seconds = 0.0
        self._change({}, range(maker.operators))
        self.keep()

    @property
    def configs(self) -> Sequence[Any]:
        return tuple(self._configs)

    def change(self, changes: Mapping[int, Any]) -> float:
        """The time with these operators configured anew. If it cannot be (ValueError, as of `simulate`), nothing is changed."""
        self.keep()
        touched = dict.fromkeys(other for operator in changes for other in self._maker.touched(operator))
        self._change(changes, touched)
        self._changes += 1
        if self._check_every and self._changes % self._check_every == 0:
            self.check()
        return self.seconds

    def undo(self) -> float:
        """All as before the last change."""
        if self._log is None:
            raise ValueError("there is no change to undo: only the last one can be, and once")
        self._restore(self._log)
        self._log = None
        return self.seconds

    def keep(self) -> None:
        """The last change stays."""
        if self._log is not None:
            self._links.spare += [slot for slot, _ in self._log.removed]
            self._log = None

    def timeline(self) -> Timeline:
        """As that of `simulate`."""
        links, end = self._links, self._end
        free = [0.0] * len(links.resources)
        ready, begin = [], []
        for node in self._order:
            slot = node[1]
            ready.append(links.ready(slot, end))
            begin.append(max([ready[-1], *[free[resource] for resource in links.held[slot]]]))
            for resource in links.held[slot]:
                free[resource] = end[slot]
        return Timeline([links.tasks[node[1]] for node in self._order], ready, begin, [end[node[1]] for node in self._order])

    def check(self) -> None:
        """Against a full simulation of tasks that are all made anew. A difference is a bug, here or in what the maker calls touched."""
        maker, configs = self._maker, self._configs
        want = simulate([task for operator in range(maker.operators) for task in maker.tasks_of(operator, configs)])
        have = self.timeline()
        if have == want and self.seconds == want.seconds:
            return
        what = f"{self.seconds!r} seconds instead of {want.seconds!r}"
        differ = [f"{mine} instead of {right}" for mine, right in zip(have.ran, want.ran, strict=False) if mine != right]
        what += f", {len(have)} tasks instead of {len(want)}" + (f"; the first that differs: {differ[0]}" if differ else "")
        raise LaminarError("L900", f"a bug in Laminar: after {self._changes} changes, the simulation has {what}", hint="laminar doctor")

    def _change(self, changes: Mapping[int, Any], touched: Iterable[int]) -> None:
        log = Log(self._order, self._end, self.seconds, {operator: self._configs[operator] for operator in changes})
        for operator, config in changes.items():
            self._configs[operator] = config
        try:
            cut, place = self._edit(touched, log)
            if cut < inf:
                self._order, self._end, self.seconds = resumed(self._links, self._order[:place], self._end, cut)
            if len(self._order) < len(self._links.slots):
                raise stuck(self._links.slots.keys() - {self._links.tasks[node[1]].key for node in self._order})
        except BaseException:
            self._restore(log)
            raise
        self._log = log

    def _edit(self, touched: Iterable[int], log: Log) -> tuple[float, int]:
        """Links what differs anew, and says when the first of it is ready (inf: it takes no time), and how many were taken before that."""
        links, end = self._links, self._end
        differ = self._compare(touched, log)
        was = {slot: links.ready(slot, end) for slot, _ in (*log.gone, *log.removed)}
        cut = min(was.values(), default=inf)
        for slot, _ in log.gone:
            links.unlink(slot)
        for slot, task in log.removed:
            links.unlink(slot)
            del links.slots[task.key]
        for slot, task in differ.items():
            links.link(slot, task)
        for slot, task in log.removed:
            if links.followers[slot]:
                after = [other.key for other in map(links.tasks.__getitem__, links.slots.values()) if task.key in other.after]
                raise ValueError(f"{after} come after {task.key}, which is not there any more")
        for slot in differ:
            if differ.keys().isdisjoint(links.after[slot]):  # else it is ready after another one that differs
                cut = min(cut, links.ready(slot, end))

        def ready(node: Node) -> float:
            found = was.get(node[1])
            return links.ready(node[1], end) if found is None else found

        return cut, bisect_left(self._order, cut, key=ready)

    def _compare(self, touched: Iterable[int], log: Log) -> dict[int, Task]:
        """Tasks that have to be linked, by their slots."""
        links, differ = self._links, dict[int, Task]()
        slots, tasks = links.slots, links.tasks
        for operator in touched:
            made = self._maker.tasks_of(operator, self._configs)
            keys = {task.key for task in made}
            if len(keys) < len(made) or any(key[0] != operator for key in keys):
                raise ValueError(f"tasks of operator {operator}, two with the same key or one of another: {[task.key for task in made]}")
            log.own[operator] = before = self._own.get(operator, set())
            self._own[operator] = keys
            for task in made:
                slot = slots.get(task.key, -1)
                if slot < 0:
                    slot = links.place(task.key)
                    log.added.append((slot, task.key))
                    differ[slot] = task
                    continue
                old = tasks[slot]
                if old == task:
                    continue
                if old[:4] == task[:4]:
                    log.same.append((slot, old))
                    tasks[slot] = task
                else:
                    log.gone.append((slot, old))
                    differ[slot] = task
            log.removed += [(slots[key], tasks[slots[key]]) for key in before - keys]
        return differ

    def _restore(self, log: Log) -> None:
        """Also where a change was given up half-way: what is not linked can be unlinked."""
        links = self._links
        self._order, self._end, self.seconds = log.order, log.end, log.seconds
        self._own |= log.own
        for operator, config in log.configs.items():
            self._configs[operator] = config
        for slot, _ in (*log.gone, *log.removed, *log.added):
            links.unlink(slot)
        for slot, key in log.added:
            del links.slots[key]
            links.spare.append(slot)
        for slot, task in log.removed:
            links.slots[task.key] = slot
        for slot, task in (*log.gone, *log.removed):
            links.link(slot, task)
        for slot, task in log.same:
            links.tasks[slot] = task
