"""Traffic: the bytes that a worker of a pipeline or of branches hands over in a step, worked out from plan and layouts alone.

What lines and posts count is this, to the byte; what is told at the end of a step (loss, whether to go on) left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod

from laminar.parallel.split.calls import Value
from laminar.parallel.split.dims import At, local_sizes
from laminar.parallel.split.traffic import Sent, Traffic, traffic
from laminar.parallel.stages.micro import micro_batches
from laminar.parallel.stages.prepare import Prepared


@dataclass(frozen=True)
class StageTraffic:
    """Of one worker, in one of its stages."""

    inside: Traffic  # with the others of its mesh
    values: int  # to other lanes
    gradients: int  # back to other lanes

    @property
    def step(self) -> int:
        return self.inside.step + self.values + self.gradients


@dataclass(frozen=True)
class LaneTraffic:
    stages: dict[int, StageTraffic]
    shared: int  # gradients of tensors that several lanes have

    @property
    def step(self) -> int:
        return sum(one.step for one in self.stages.values()) + self.shared


def lane_traffic(prepared: Prepared, lane: int, at: At, rows: int, parts: int, trains: Callable[[str], bool]) -> LaneTraffic:
    """Of the worker at a place of a lane's mesh, for a batch of so many rows that `parts` share."""
    plan = prepared.fit
    sizes = [some.rows for some in micro_batches(rows, prepared.batches, parts=parts)]
    found = {}
    for number, stage in enumerate(plan.stages):
        if stage.lane != lane:
            continue
        by_rows = {count: stages_traffic(prepared, [number], at, count, trains) for count in set(sizes)}
        every = [by_rows[count] for count in sizes]
        out = [edge.value for edge in plan.edges if edge.source == number and plan.stages[edge.taker].lane != lane]
        back = [edge.value for edge in plan.edges if edge.taker == number and plan.stages[edge.source].lane != lane]
        values, grads = (
            sum(_bytes(prepared, value, at, count) for value in some for count in sizes) for some in (out, _learned(plan.learns, back))
        )
        found[number] = StageTraffic(_added(every), values, grads)
    return LaneTraffic(found, _shared(prepared, lane, at, trains))


def stages_traffic(prepared: Prepared, numbers: Sequence[int], at: At, rows: int, trains: Callable[[str], bool]) -> Traffic:
    """Of one worker, inside some stages of its lane: their gradients begin with the loss, or come back from other stages."""
    plan, placed = prepared.fit, prepared.training
    some = [plan.stages[number] for number in numbers]
    ends = [value for stage in some for value in stage.gives if value in plan.learns]
    ends += [placed.traced.output] if plan.last in numbers else []
    taken = {value: value in plan.learns for stage in some for value in stage.takes}
    return traffic(placed, at, rows, trains, [i for stage in some for i in stage.operations], ends=ends, taken=taken)


def _learned(learns: Collection[Value], values: list[Value]) -> list[Value]:
    return [value for value in values if value in learns]


def _bytes(prepared: Prepared, value: Value, at: At, rows: int) -> int:
    placed = prepared.training
    return prod(local_sizes(placed.values[value][0], at, placed.mesh, rows)) * placed.traced.dtypes[value][0].itemsize


def _added(every: list[Traffic]) -> Traffic:
    """Of all micro-batches; gradients of parameters are added up among workers once a step."""
    operators = [_sum(list(same)) for same in zip(*(one.operators for one in every), strict=True)]
    return Traffic(operators, every[0].gradients, _sum([one.output for one in every]))


def _sum(same: list[Sent]) -> Sent:
    first = same[0]
    return Sent(first.path, first.operator, sum(one.forward for one in same), sum(one.backward for one in same), first.why)


def _shared(prepared: Prepared, lane: int, at: At, trains: Callable[[str], bool]) -> int:
    placed, total, trained = prepared.training, 0, prepared.fit.holders()
    for name, lanes in prepared.holders().items():
        if lane in lanes and len(lanes) > 1 and trains(name) and name in trained:
            total += (len(lanes) - 1) * 4 * prod(local_sizes(placed.layouts[name], at, placed.mesh, 0))
    return total
