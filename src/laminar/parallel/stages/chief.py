"""The chief of a pipeline or of branches: cuts the model, and how its team is made (team_chief.py does the rest)."""

from __future__ import annotations

from typing import Any, Final

from laminar.core import atomic
from laminar.core.events import Emit
from laminar.parallel.crew import Staff
from laminar.parallel.split.chief import refuse
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.lines import lay
from laminar.parallel.stages.picture import MESSAGE, idle, picture
from laminar.parallel.stages.posts import routes
from laminar.parallel.stages.prepare import Staged, prepare
from laminar.parallel.team_chief import Ways, run_team
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained
from laminar.train.splitting import Pipeline

MODULE: Final = "laminar.parallel.stages.member"
PICTURE: Final = "stages.svg"


def run_staged(job: Job, how: Staged, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    refuse(job, how)
    prepared = prepare(job, how, begins=True)
    grid = Grid(how.grid)
    posts = [route.spec for route in routes(prepared, grid)]
    ways = Ways(
        module=MODULE,
        lay=lambda _: lay(grid, how, staff, posts),
        workers=grid.size,
        fewest=grid.size,
        shrinks=False,  # every worker has stages that nobody else has: a lost one is replaced
        doubles=True,
        waits=False,
        losses=how.restarts,
        timeout=how.timeout,
        told=prepared.to_json(),
    )
    drawn: list[str] = []

    def listen(event: dict[str, Any]) -> None:
        if event.get("event") == MESSAGE:
            drawn.append(draw(job, how, event["workers"]))
        else:
            emit(event)

    trained = run_team(job, ways, description, listen, staff)
    trained.notes += drawn
    return trained


def draw(job: Job, how: Staged, workers: list[dict[str, Any]]) -> str:
    """A picture of the last whole step in the run's folder; what there is to say of it."""
    lanes = {f"worker {one['rank']}": one["spans"] for one in workers}
    share = idle(lanes)
    title = f"{job.name}: one step of a {how.schedule} pipeline" if isinstance(how, Pipeline) else f"{job.name}: one step of branches"
    path = job.folder / PICTURE
    atomic.write_text(path, picture(lanes, f"{title}, idle {100 * share:.0f} % of the time"))
    return f"workers were idle {100 * share:.0f} % of a step: {path}"
