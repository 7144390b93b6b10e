"""The chief of a pipeline or of branches: cuts the model, and how its team is made (team_chief.py does the rest)."""

from __future__ import annotations

from typing import Final

from laminar.core.events import Emit
from laminar.parallel.crew import Staff
from laminar.parallel.split.chief import refuse
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.lines import lay
from laminar.parallel.stages.posts import routes
from laminar.parallel.stages.prepare import Staged, prepare
from laminar.parallel.team_chief import Ways, run_team
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained

MODULE: Final = "laminar.parallel.stages.member"


def run_staged(job: Job, how: Staged, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    refuse(job, how)
    prepared = prepare(job, how)
    grid = Grid(how.grid)
    posts = [route.spec for route in routes(prepared, grid)]
    ways = Ways(
        module=MODULE,
        lay=lambda _: lay(grid, how, staff, posts),
        workers=grid.size,
        fewest=grid.size,
        shrinks=False,  # every worker has stages that nobody else has: a lost one is replaced
        waits=False,
        losses=how.restarts,
        timeout=how.timeout,
        told=prepared.to_json(),
    )
    return run_team(job, ways, description, emit, staff)
