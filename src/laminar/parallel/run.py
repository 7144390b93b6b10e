"""Run a strategy: the one door through which a build reaches this package."""

from __future__ import annotations

from laminar.core.events import Emit
from laminar.parallel.sync.chief import run_sync
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained
from laminar.train.loop import train
from laminar.train.strategies import Sync, strategy


def run(job: Job, description: Description, emit: Emit) -> Trained:
    """Train `job.model` in place by its recipe's strategy."""
    chosen = strategy(job.recipe.strategy)
    if chosen.workers == 1:
        return train(job, emit)  # one worker of any strategy is what one process does
    assert isinstance(chosen, Sync)
    return run_sync(job, chosen, description, emit)
