"""Run a strategy: the one door through which a build reaches this package."""

from __future__ import annotations

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.parallel.apart.chief import run_apart
from laminar.parallel.crew import Staff
from laminar.parallel.split.chief import run_mesh
from laminar.parallel.stages.chief import run_staged
from laminar.parallel.sync.chief import run_sync
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained
from laminar.train.loop import train
from laminar.train.on_grid import Grid
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import Averaging, Downpour, Quorum, Sync, carried_out, strategy


def run(job: Job, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    """Train `job.model` in place by its recipe's strategy; on other machines where there is a staff for that."""
    how = carried_out(job.recipe.strategy)
    if how != strategy(job.recipe.strategy):
        job.recipe = msgspec.structs.replace(job.recipe, strategy=how)
        description = description.with_recipe(job.recipe)  # workers read it there
    match how:
        case Downpour():  # also with one worker: its servers' steps are not those of one process
            return run_apart(job, how, description, emit, staff)
        case Sync() if how.workers > 1 or staff is not None or how.evaluator:
            return run_sync(job, how, description, emit, staff)
        case Mesh() if how.workers > 1 or staff is not None:
            return run_mesh(job, how, description, emit, staff)
        case Pipeline() | Branches() if how.workers > 1 or staff is not None:
            return run_staged(job, how, description, emit, staff)
        case Averaging() | Quorum():
            return run_apart(job, how, description, emit, staff)
        case Grid():
            raise LaminarError("L501", "it is to be trained on a grid, and none was named", hint="laminar build --on grid://HOST:8787")
        case _:
            return train(job, emit)  # one worker is what one process does
