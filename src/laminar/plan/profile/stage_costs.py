"""What the stages of a pipeline or of branches cost: cut and dealt by the executor's own rules, from operators that were measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from laminar.core.errors import LaminarError
from laminar.parallel.split.calls import Value
from laminar.parallel.split.dims import local_sizes
from laminar.parallel.split.place import Placed
from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.measure import Cost
from laminar.parallel.stages.plan import Stage
from laminar.parallel.stages.prepare import Prepared, Staged, in_stages
from laminar.parallel.stages.traffic import lane_traffic, stages_traffic
from laminar.plan.facts import Exchange, ModelCost, StageCost, StagesCost, Taken
from laminar.plan.profile.operators import buckets, last_place
from laminar.train.job import Job
from laminar.train.snapshot import trainable


def stages_cost(job: Job, how: Staged, flows: tuple[Flow, Flow], cost: ModelCost) -> StagesCost:
    """`flows`: of training and of judging. `cost`: of the operators of training, and the loss behind them, for the rows of one
    micro-batch. L012 where a lane would have nothing to do: branches that take less than handing them over all stay with the first."""
    training = flows[0].placed
    costs = [Cost(one.forward, one.inputs + one.weights, one.weights) for one in cost.operators[: len(training.operations)]]
    prepared = in_stages(job, how, *flows, costs)
    if idle := prepared.fit.lanes - len({stage.lane for stage in prepared.fit.stages}):
        raise LaminarError(
            "L012",
            f"the model's branches take so little time that {idle} of {prepared.fit.lanes} lanes would have nothing to do",
            hint="fewer lanes, or another strategy",
        )
    names = trainable(job.model)
    maker = {value: number for number, stage in enumerate(prepared.fit.stages) for value in stage.gives}
    stages = [_stage(number, stage, prepared, cost, names, maker) for number, stage in enumerate(prepared.fit.stages)]
    for lane in range(prepared.fit.lanes):  # workers of a lane add up what they learned once a step, for all of its stages together
        first = next(number for number, stage in enumerate(stages) if stage.lane == lane)
        stages[first] = replace(stages[first], gradients=_gradients(prepared, lane, names))
    holders = {name: len(lanes) for name, lanes in prepared.fit.holders().items() if len(lanes) > 1 and name in names}
    shared = sum((lanes - 1) * _tensor_bytes(training, name) for name, lanes in holders.items())
    by_all = sum(lanes * (lanes - 1) * _tensor_bytes(training, name) for name, lanes in holders.items())
    return StagesCost(tuple(stages), prepared.fit.lanes, prepared.batches, shared, by_all, _uneven(job, how, prepared, names))


def _uneven(job: Job, how: Staged, prepared: Prepared, trained: Collection[str]) -> int | None:
    """What all workers hand over in a step, counted one by one: of the last micro-batch less than of the others. None: all are alike."""
    rows = min(job.recipe.batch, len(job.data.train))
    if rows == prepared.rows * prepared.batches:
        return None
    places = [dict(zip(how.mesh, at, strict=True)) for at in itertools.product(*map(range, how.mesh.values()))]
    lanes = range(prepared.fit.lanes)
    return sum(lane_traffic(prepared, lane, at, rows, how.parts, lambda name: name in trained).step for lane in lanes for at in places)


def _gradients(prepared: Prepared, lane: int, trained: Collection[str]) -> tuple[Exchange, ...]:
    """That the workers of a lane's mesh add up, as their team does."""
    placed = prepared.training
    own = [number for number, stage in enumerate(prepared.fit.stages) if stage.lane == lane]
    sent = stages_traffic(prepared, own, last_place(placed.mesh), prepared.rows, lambda name: name in trained)
    return tuple(Exchange("sum", axis, size) for axes, size, _ in buckets(placed, sent, trained) for axis in axes)


def _stage(
    number: int, stage: Stage, prepared: Prepared, cost: ModelCost, trained: Collection[str], maker: Mapping[Value, int]
) -> StageCost:
    placed = prepared.training
    some = [cost.operators[i] for i in stage.operations]
    if number == prepared.fit.last:
        some += cost.operators[len(placed.operations) :]
    takes = tuple(Taken(maker[value], _bytes(placed, value, prepared.rows), value in prepared.fit.learns) for value in stage.takes)
    own = {name: _tensor_bytes(placed, name) for name in stage.tensors if name in placed.layouts}
    paths = [one.path for one in some if one.path]
    ends = list(dict.fromkeys([paths[0], paths[-1]])) if paths else []
    return StageCost(
        lane=stage.lane,
        forward=sum(one.forward for one in some),
        inputs=sum(one.inputs for one in some),
        weights=sum(one.weights for one in some),
        takes=takes,
        there=tuple(exchange for one in some for exchange in (*one.before, *one.after)),
        back=tuple(exchange for one in some for exchange in one.back),
        kept=sum(one.kept for one in some),
        trained=sum(size for name, size in own.items() if name in trained),
        untrained=sum(size for name, size in own.items() if name not in trained),
        modules=" .. ".join(ends),
    )


def _bytes(placed: Placed, value: Value, rows: int) -> int:
    at = dict.fromkeys(placed.mesh, 0)
    return math.prod(local_sizes(placed.values[value][0], at, placed.mesh, rows)) * placed.traced.dtypes[value][0].itemsize


def _tensor_bytes(placed: Placed, name: str) -> int:
    at = dict.fromkeys(placed.mesh, 0)
    return 4 * math.prod(local_sizes(placed.layouts[name], at, placed.mesh, 1)) if name in placed.layouts else 0
