"""The chief of a training on a mesh: what it refuses before any process starts, and how its team is made (team_chief.py does the rest)."""

from __future__ import annotations

from typing import Final

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.parallel.crew import Staff
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.lines import lay
from laminar.parallel.split.prepare import place_job, rules_of
from laminar.parallel.team_chief import Ways, run_team
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained
from laminar.train.snapshot import trainable
from laminar.train.splitting import Mesh, OnMesh

MODULE: Final = "laminar.parallel.split.member"


def run_mesh(job: Job, how: Mesh, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    refuse(job, how)
    training, judging = place_job(job, rules_of(how))
    grid = Grid(how.mesh)
    ways = Ways(
        module=MODULE,
        lay=lambda _: lay(grid, how, staff),
        workers=grid.size,
        fewest=grid.size,
        shrinks=False,  # every worker has parts that nobody else has: a lost one is replaced
        doubles=True,
        waits=False,
        losses=how.restarts,
        timeout=how.timeout,
        told={"training": training.to_json(), "judging": judging.to_json()},
    )
    return run_team(job, ways, description, emit, staff)


def refuse(job: Job, how: OnMesh) -> None:
    parts = how.parts
    for what, size in (("train.batch is", job.recipe.batch), ("the number of samples is", len(job.data.train))):
        if size < parts:
            raise LaminarError(
                "L004",
                f"{what} {size}, which {parts} workers on axis '{how.split['batch']}' cannot share",
                hint=f"batch = {parts} or more, or a shorter axis",
            )
    if job.recipe.dtype != "float32":
        raise LaminarError(
            "L004", f'dtype = "{job.recipe.dtype}" with strategy "{how.kind}", which computes in float32', hint='dtype = "float32"'
        )
    if odd := [name for name, p in trainable(job.model).items() if p.dtype != torch.float32]:
        raise LaminarError("L004", f"'{odd[0]}' is not float32, as strategy '{how.kind}' needs", hint="leave strategy out for this layer")
