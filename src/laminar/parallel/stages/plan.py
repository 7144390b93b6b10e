"""Plans: which lane runs which operators of a placed model, and what goes from one to the other. No torch here.

A stage is a row of operators that a lane runs in one go. It takes values of other stages and gives values to others; in training,
gradients of those go the other way. A pipeline is a row of stages, branches are stages side by side: both are run by the same runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from laminar.parallel.split.calls import Value
from laminar.parallel.stages.flow import Flow


@dataclass(frozen=True)
class Stage:
    lane: int
    operations: tuple[int, ...]  # of the placed model, in order
    inputs: tuple[Value, ...]  # of the model
    takes: tuple[Value, ...]  # made by other stages
    gives: tuple[Value, ...]  # needed by other stages
    tensors: tuple[str, ...]  # of the model


class Edge(NamedTuple):
    """A value that one stage makes and another takes."""

    value: Value
    source: int
    taker: int


@dataclass(frozen=True)
class Plan:
    stages: tuple[Stage, ...]
    lanes: int
    learns: frozenset[Value]  # of the values that stages give, those that gradients come back for
    last: int  # the stage that makes the model's output

    @property
    def edges(self) -> list[Edge]:
        """In an order that everybody knows."""
        maker = {value: source for source, stage in enumerate(self.stages) for value in stage.gives}
        return [Edge(value, maker[value], taker) for taker, stage in enumerate(self.stages) for value in stage.takes]

    def holders(self) -> dict[str, tuple[int, ...]]:
        """Lanes that need each of the model's tensors, the first one first."""
        found: dict[str, set[int]] = {}
        for stage in self.stages:
            for name in stage.tensors:
                found.setdefault(name, set()).add(stage.lane)
        return {name: tuple(sorted(lanes)) for name, lanes in found.items()}

    def to_json(self) -> dict[str, Any]:
        def names(values: Iterable[str]) -> list[str]:
            return [str(value) for value in values]  # plain text, as messages have it

        stages = [[s.lane, s.operations, names(s.inputs), names(s.takes), names(s.gives), s.tensors] for s in self.stages]
        return {"stages": stages, "lanes": self.lanes, "learns": names(sorted(self.learns)), "last": self.last}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Plan:
        def values(names: Sequence[str]) -> tuple[Value, ...]:
            return tuple(map(Value, names))

        stages = [
            Stage(lane, tuple(operations), values(inputs), values(takes), values(gives), tuple(tensors))
            for lane, operations, inputs, takes, gives, tensors in told["stages"]
        ]
        return cls(tuple(stages), told["lanes"], frozenset(values(told["learns"])), told["last"])


def make_plan(flow: Flow, stage_of: Sequence[int | None], lane_of: Sequence[int], lanes: int) -> Plan:
    """`stage_of`: of each operator; None: of those that need no sample, which are run where they are needed. `lane_of`: of each stage."""
    groups: list[list[int]] = [[] for _ in lane_of]
    for i, stage in enumerate(stage_of):
        if stage is not None:
            groups[stage].append(i)
    groups = [flow.with_what_they_need(group) for group in groups]
    needs = [flow.needs(group) for group in groups]
    output = flow.placed.traced.output
    taken = {value for found in needs for value in found}
    stages = []
    for lane, group, found in zip(lane_of, groups, needs, strict=True):
        made = [flow.operations[i].call.name for i in group if i not in flow.anywhere]
        gives = tuple(value for value in made if value in taken)
        stages.append(Stage(lane, tuple(group), tuple(flow.inputs(group)), tuple(found), gives, tuple(flow.tensors(group))))
    last = stage_of[flow.maker[output]]
    assert last is not None
    return Plan(tuple(stages), lanes, flow.learns & taken, last)
