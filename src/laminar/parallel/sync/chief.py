"""The chief of a sync training: what it refuses, and how its team is made (team_chief.py does the rest)."""

from __future__ import annotations

from typing import Final

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.parallel.crew import Staff
from laminar.parallel.sync.links import lay
from laminar.parallel.sync.row_facts import RowFacts, by_worker, refuse_mixed
from laminar.parallel.sync.row_probe import row_facts
from laminar.parallel.team_chief import DEATHS, Ways, run_team
from laminar.stack.open_job import Description
from laminar.train.job import Job, Trained
from laminar.train.snapshot import trainable
from laminar.train.strategies import Sync

MODULE: Final = "laminar.parallel.sync.member"


def run_sync(job: Job, how: Sync, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    _refuse(job, how)
    facts = row_facts(job) if how.workers > 1 else RowFacts()
    refuse_mixed(facts, how)
    ways = Ways(
        module=MODULE,
        lay=lambda size: lay(job, how, size, staff),
        workers=how.workers,
        fewest=how.fewest,
        shrinks=not how.elastic,
        doubles=False,
        waits=how.elastic,
        losses=DEATHS,
        timeout=how.timeout,
        told={"facts": facts.to_json() if facts.pooled and how.batch_norm == "exact" else None},
        evaluator=how.evaluator,
    )
    trained = run_team(job, ways, description, emit, staff)
    trained.notes += [note for note in by_worker(facts, how) if note not in trained.notes]
    return trained


def _refuse(job: Job, how: Sync) -> None:
    if job.recipe.batch < how.workers:
        raise LaminarError(
            "L004",
            f"train.batch is {job.recipe.batch}, which {how.workers} workers cannot share",
            hint=f"batch = {how.workers} or more, or workers = {job.recipe.batch}",
        )
    if len(job.data.train) < how.workers:
        raise LaminarError(
            "L004", f"there are {len(job.data.train)} samples for {how.workers} workers", hint=f"workers = {len(job.data.train)} or fewer"
        )
    if job.recipe.dtype != "float32":
        raise LaminarError(
            "L004", f'dtype = "{job.recipe.dtype}" with strategy "sync", which computes in float32', hint='dtype = "float32"'
        )
    odd = [n for n, p in trainable(job.model).items() if p.dtype != torch.float32]
    if odd:
        raise LaminarError("L004", f"'{odd[0]}' is not float32, as sync needs", hint="leave strategy out for this layer")
