"""A worker of a pipeline or of branches: keeps the tensors of its own stages, and runs the loop of one process with its team."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from laminar.parallel.split.dims import Dims
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.lines import Joined, join
from laminar.parallel.split.program import deferred
from laminar.parallel.split.weight_grads import WeightGradients
from laminar.parallel.split.whole import Parts
from laminar.parallel.stages.holders import Holders
from laminar.parallel.stages.module import StagedModule
from laminar.parallel.stages.orders import judging_order, training_order
from laminar.parallel.stages.picture import MESSAGE
from laminar.parallel.stages.posts import mail, routes
from laminar.parallel.stages.prepare import Prepared, Staged
from laminar.parallel.stages.runner import Runner
from laminar.parallel.stages.team import StagedTeam
from laminar.parallel.team_member import be_member, leave
from laminar.train.job import Job, Route
from laminar.train.snapshot import frozen_state
from laminar.train.splitting import LANES, Branches, Pipeline
from laminar.train.strategies import strategy


def _join(job: Job, told: dict[str, Any], rank: int) -> StagedTeam:
    how = strategy(job.recipe.strategy)
    assert isinstance(how, Pipeline | Branches)
    grid, prepared = Grid(how.grid), Prepared.from_json(told)
    job.frozen_told = frozen_state(job)  # of whole tensors, before they are parts
    specs = [route.spec for route in routes(prepared, grid)]
    joined = join(told["link"], grid, rank, told["timeout"], specs)
    team = make_team(job, how, grid, prepared, joined, rank)
    if job.frozen is not None:
        job.frozen.compare_from_now_on()
    return team


def make_team(job: Job, how: Staged, grid: Grid, prepared: Prepared, joined: Joined, rank: int) -> StagedTeam:
    """The job's model keeps what this worker needs of it, and its routes become the worker's stages."""
    at = grid.at(rank)
    lane = at.pop(LANES)
    apart = isinstance(how, Branches) or how.schedule == "zero-bubble"
    here = Here(how.mesh, at, joined.lines, weights=WeightGradients(apart=apart))
    training, judging = prepared.training, prepared.judging
    layouts: dict[str, Dims] = {**judging.layouts, **training.layouts}
    parts = Parts(layouts, here)
    holders = Holders(prepared.holders(), prepared.fit.holders(), job.model, parts)
    tensors = _keep(job, holders, parts, lane)
    for placed in (training, judging):
        tensors |= {name: parts.own(name, tensor) for name, tensor in placed.traced.constants.items()}
    found = routes(prepared, grid)
    runners = [
        Runner(plan, placed, here, lane, tensors, mail(found, rank, joined.post, fit=fit))
        for plan, placed, fit in ((prepared.fit, training, True), (prepared.test, judging, False))
    ]
    axis = how.split.get("batch")
    module = StagedModule(
        runners[0],
        runners[1],
        (training.traced.inputs, judging.traced.inputs),
        (training_order(how, prepared.fit, lane), judging_order(how, prepared.test, lane)),
        prepared.batches,
        prepared.most,
        joined.lines[axis] if axis is not None else None,
    )
    job.fit, job.test = Route(module, job.fit_route.inputs), Route(module, job.test_route.inputs)
    return StagedTeam(grid, rank, joined.lines, module, parts, deferred(training), axis, holders)


@torch.no_grad()
def _keep(job: Job, holders: Holders, parts: Parts, lane: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]:
        if lane not in holders.of(name):
            tensor.data = tensor.data.new_empty(0)
            continue
        if parts.splits(name):
            tensor.data = parts.own(name, tensor.data).clone()
        found[name] = tensor
    return found


def _told_at_the_end(team: StagedTeam) -> dict[str, Any] | None:
    """What each lane did in the last whole step."""
    every = [json.loads(one) for one in team.gather(json.dumps(team.spans()).encode())]
    if team.rank:
        return None
    return {"event": MESSAGE, "workers": every}


def main() -> int:
    return be_member(_join, _told_at_the_end)


if __name__ == "__main__":
    leave(main())
