"""Describe: how a layer's model would be cut into stages, as plain data for `laminar show --split`. Operators are timed for it."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from laminar.parallel.split.chief import refuse
from laminar.parallel.split.describe import describe_module, own_numbers
from laminar.parallel.split.traffic import Sent, Traffic
from laminar.parallel.stages.orders import every_lane
from laminar.parallel.stages.plan import Stage
from laminar.parallel.stages.prepare import Prepared, Staged, prepare
from laminar.parallel.stages.schedules import Cost, Kind, play
from laminar.parallel.stages.traffic import LaneTraffic, lane_traffic
from laminar.train.job import Job
from laminar.train.snapshot import trainable
from laminar.train.splitting import Pipeline


def describe_staged(job: Job, how: Staged) -> dict[str, Any]:
    """Bytes are those of the worker of a lane that sends most, for a whole batch."""
    refuse(job, how)
    prepared, trained = prepare(job, how), trainable(job.model)
    rows = min(job.recipe.batch, len(job.data.train))
    parts = how.parts
    places = [dict(zip(how.mesh, at, strict=True)) for at in product(*map(range, how.mesh.values()))]
    most = [
        max((lane_traffic(prepared, lane, at, rows, parts, lambda one: one in trained) for at in places), key=lambda one: one.step)
        for lane in range(prepared.fit.lanes)
    ]
    stages = [_stage(job, prepared, how, number, stage, most[stage.lane]) for number, stage in enumerate(prepared.fit.stages)]
    whole = {name: tensor.numel() for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]}
    holders = prepared.holders()
    kept = [0.0] * prepared.fit.lanes
    for name, size in whole.items():
        for lane in holders.get(name, (0,)):
            kept[lane] += own_numbers(prepared.training.layouts.get(name), size, how)
    inside = [one.inside for lane in most for one in lane.stages.values()]
    sent = Traffic(
        [op for one in inside for op in one.operators],
        {k: v for one in inside for k, v in one.gradients.items()},
        Sent("", "output", 0, 0, ""),
    )
    modules = []
    for path, module in job.model.named_modules():
        numbers = [
            n
            for n, stage in enumerate(prepared.fit.stages)
            if any(prepared.training.operations[i].call.path == path for i in stage.operations)
        ]
        modules.append({**describe_module(path, module, prepared.training, sent, rows), "stages": numbers})
    return {
        "layer": job.name,
        "mesh": dict(how.mesh),
        "workers": how.workers,
        "batch": rows,
        "modules": modules,
        "output": sum(one.output.forward + one.output.backward for one in inside),
        "sent_per_step": max(lane.step for lane in most),
        "kept": round(max(kept) / max(1, sum(whole.values())), 4),  # of the model's numbers, by the worker that has most
        "kind": how.kind,
        "schedule": how.schedule if isinstance(how, Pipeline) else "",
        "microbatches": prepared.batches,
        "stages": stages,
        "idle": round(_idle(prepared, how), 4),
    }


def _stage(job: Job, prepared: Prepared, how: Staged, number: int, stage: Stage, sent: LaneTraffic) -> dict[str, Any]:
    operations = [prepared.training.operations[i] for i in stage.operations]
    tensors = {name: tensor.numel() for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]}
    own = sent.stages[number]
    return {
        "stage": number,
        "lane": stage.lane,
        "workers": [stage.lane * prod(how.mesh.values()) + k for k in range(prod(how.mesh.values()))],
        "modules": list(dict.fromkeys(op.call.path for op in operations if op.call.path)),
        "operators": len(operations),
        "numbers": int(sum(own_numbers(prepared.training.layouts.get(name), tensors.get(name, 0), how) for name in stage.tensors)),
        "forward_ms": round(1000 * sum(prepared.costs[i].forward for i in stage.operations), 3),
        "backward_ms": round(1000 * sum(prepared.costs[i].backward for i in stage.operations), 3),
        "values": own.values,
        "gradients": own.gradients,
        "inside": own.inside.step,
    }


def _idle(prepared: Prepared, how: Staged) -> float:
    """The share of a step in which a lane has nothing to do, if operators take as long as measured."""
    plan = prepared.fit
    times: dict[tuple[Any, int], float] = {}
    for number, stage in enumerate(plan.stages):
        kinds: tuple[Kind, ...] = ("forward", "backward", "inputs", "weights")
        times |= {(kind, number): sum(getattr(prepared.costs[i], kind) for i in stage.operations) for kind in kinds}
    cost: Cost = times
    needs = (
        None if isinstance(how, Pipeline) else {n: sorted({e.source for e in plan.edges if e.taker == n}) for n in range(len(plan.stages))}
    )
    played = play(every_lane(how, plan, prepared.batches), len(plan.stages), cost, needs)
    end = max((one.end for one in played), default=0.0)
    return 1 - sum(one.end - one.begin for one in played) / (end * plan.lanes) if end else 0.0
