"""Who waits for whom in a circuit, for pictures and reports: values, guards, arrays, and what one round of a loop leaves for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, Cycle, Fork, Series, Step
from laminar.kernels.circuit.function import Function
from laminar.kernels.circuit.issue import functions
from laminar.kernels.language.tree import Object, Variable


@dataclass(frozen=True)
class Edge:
    """`what`: the variable or array; `next_round`: for the round of the loop that comes then."""

    source: int
    target: int
    kind: Literal["value", "guard", "array", "barrier"]
    what: str
    next_round: bool = False

    def to_json(self) -> dict[str, object]:
        return {"from": self.source, "to": self.target, "kind": self.kind, "what": self.what, "next_round": self.next_round}


def edges(circuit: Circuit, pairs: Pairs) -> list[Edge]:
    found = _Edges(pairs)
    found.steps(circuit.steps, None)
    return list(dict.fromkeys(found.made))


class _Edges:
    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.made: list[Edge] = []
        self.last: dict[Variable, Function] = {}
        self.used: dict[Object, list[Function]] = {}

    def steps(self, steps: Sequence[Step], guard: Function | None) -> None:
        for one in steps:
            match one:
                case Function():
                    self.function(one, guard)
                case Fork():
                    self.function(one.condition, guard)
                    self.steps(one.then, one.condition)
                    self.steps(one.other, one.condition)
                case Cycle():
                    self.cycle(one, guard)
                case Series():
                    self.series(one, guard)

    def function(self, one: Function, guard: Function | None) -> None:
        if guard is not None:
            self.made.append(Edge(guard.number, one.number, "guard", "test"))
        for variable in one.takes.values():
            if variable in self.last:
                self.made.append(Edge(self.last[variable].number, one.number, "value", variable.name))
        for array in sorted(one.reads | one.writes, key=lambda array: array.at):
            for user in self.used.get(array, []):
                meets = array in user.writes or array in one.writes
                if meets and user is not one and self.pairs.of(user, one, array).verdict != "independent":
                    self.made.append(Edge(user.number, one.number, "array", array.name))
            self.used.setdefault(array, []).append(one)
        for variable in one.gives.values():
            self.last[variable] = one

    def cycle(self, cycle: Cycle, guard: Function | None) -> None:
        if cycle.test_last:
            self.steps(cycle.body, guard)
            self.function(cycle.condition, guard)
        else:
            self.function(cycle.condition, guard)
            self.steps(cycle.body, cycle.condition)
        for one in (cycle.condition, *functions(cycle.body)):
            for variable in one.takes.values():
                giver = self.last.get(variable)
                if giver is not None and giver.number >= one.number:
                    self.made.append(Edge(giver.number, one.number, "value", variable.name, next_round=True))
        if cycle.test_last:
            self.made.append(Edge(cycle.condition.number, next(functions(cycle.body)).number, "guard", "test", next_round=True))

    def series(self, series: Series, guard: Function | None) -> None:
        if not series.body:
            self.function(series.whole, guard)
            return
        self.steps(series.body, guard)
        every = list(functions(series.body))
        for later, earlier in ((one, other) for one in every for other in every if other.number <= one.number):
            common = (earlier.writes & (later.reads | later.writes)) | (later.writes & earlier.reads)
            for array in sorted(common, key=lambda array: array.at):
                if self.pairs.of(later, earlier, array).verdict != "independent":
                    self.made.append(Edge(later.number, earlier.number, "array", array.name, next_round=True))
