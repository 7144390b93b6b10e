"""A worker of a mesh: keeps its parts of the model, and runs the loop of one process with its team."""

from __future__ import annotations

from typing import Any

from laminar.parallel.split.grid import Grid
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.lines import join
from laminar.parallel.split.module import split_model
from laminar.parallel.split.place import Placed
from laminar.parallel.split.team import SplitTeam
from laminar.parallel.team_member import be_member, leave
from laminar.train.job import Job, Route
from laminar.train.snapshot import frozen_state
from laminar.train.splitting import Mesh
from laminar.train.strategies import strategy
from laminar.train.team import Team


def _join(job: Job, told: dict[str, Any], rank: int) -> Team:
    how = strategy(job.recipe.strategy)
    assert isinstance(how, Mesh)
    grid = Grid(how.mesh)
    training, judging = Placed.from_json(told["training"]), Placed.from_json(told["judging"])
    job.frozen_told = frozen_state(job)  # of whole tensors, before they are parts
    lines = join(told["link"], grid, rank, told["timeout"]).lines
    module, parts, partial = split_model(job.model, training, judging, Here(grid.mesh, grid.at(rank), lines))
    if job.frozen is not None:
        job.frozen.compare_from_now_on()
    job.fit, job.test = Route(module, job.fit_route.inputs), Route(module, job.test_route.inputs)
    return SplitTeam(grid, rank, lines, module, parts, partial, how.split.get("batch"))


def main() -> int:
    return be_member(_join)


if __name__ == "__main__":
    leave(main())
