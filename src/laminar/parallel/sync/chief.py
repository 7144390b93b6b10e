"""The chief of a sync training: starts the workers, listens to them, and when one dies goes on from the last checkpoint without it.

The chief itself does not train: whichever worker is killed, something is left that knows what to do.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.core.figures import many
from laminar.parallel.crew import CALLED_OFF, GRACE, Crew, Staff
from laminar.parallel.sync.links import lay
from laminar.stack.open_job import Description
from laminar.train import checkpoint
from laminar.train.job import Job, Trained
from laminar.train.snapshot import changing, trainable
from laminar.train.strategies import Sync

MODULE: Final = "laminar.parallel.sync.member"
DEATHS: Final = 20  # after which it is no bad luck


def run_sync(job: Job, how: Sync, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    _refuse(job, how)
    size = how.workers
    notes: list[str] = []
    while True:
        if staff is not None:
            size = staff.room(size, how.fewest if how.elastic or notes else None)
        ended = _attempt(job, how, size, description, emit, staff)
        if isinstance(ended, Trained):
            ended.notes[:0] = notes
            _take_over(job)
            return ended
        after = checkpoint.newest(job.folder)[0]
        step = after.state["progress"]["step"] if after is not None else 0
        if not how.elastic:
            size -= 1
        notes.append(f"{ended}; training went on from step {step} with {size} worker{'' if size == 1 else 's'}")
        emit({"event": "note", "layer": job.name, "why": notes[-1]})
        if size < how.fewest or len(notes) > DEATHS:
            left = (
                f"{many(size, 'worker')} of the {how.fewest} that are needed {'is' if size == 1 else 'are'} left"
                if size
                else "no worker is left"
            )
            raise LaminarError("L608", f"{left}: {'; '.join(notes[-3:])}", hint="look at the machine's log, then laminar build again")


def _attempt(job: Job, how: Sync, size: int, description: Description, emit: Emit, staff: Staff | None) -> Trained | str:
    """One team until it is done, or someone died or stalled: who, and how it ended."""
    threads = job.recipe.threads or max(1, (os.cpu_count() or 1) // size)
    told = description.to_json()
    if staff is not None:
        staff.ship(told)  # with the checkpoint to go on from
    link = lay(job, how, size, staff)
    brief = {"job": told, "size": size, "link": link.told, "timeout": how.timeout, "threads": threads}
    lost: str | None = None
    asked = False
    latest: float | None = None  # by then all have left, once one has
    try:
        with Crew(threads=threads, staff=staff) as crew:
            for rank in range(size):
                crew.start_worker(MODULE, rank, brief, files=link.files)
            while crew.alive:
                try:
                    for said in crew.hear(None if latest is None else max(0.0, latest - time.monotonic())):
                        if said.event is not None:
                            emit(said.event)
                        elif said.member.done is None:
                            link.call_off()
                            latest = latest or time.monotonic() + min(GRACE, how.timeout)
                            if said.member.code not in (CALLED_OFF, 128 + signal.SIGINT):
                                lost = lost or f"{said.member.name} {said.member.how_it_ended()}"
                    if latest is not None and time.monotonic() >= latest:
                        for member in crew.alive:  # stopped, or computing for too long
                            lost = lost or f"{member.name} was not heard of for {how.timeout:g} seconds"
                            member.kill()
                except KeyboardInterrupt:
                    if asked:
                        raise
                    asked = True
                    crew.members[0].send(signal.SIGINT)
            if asked:
                raise KeyboardInterrupt
            for member in crew.members:
                if member.error is not None:
                    raise member.error
            first = crew.members[0]
            return Trained(**first.done) if first.done is not None else lost or f"{first.name} {first.how_it_ended()}"
    finally:
        link.close()


@torch.no_grad()
def _take_over(job: Job) -> None:
    """The trained tensors, from the checkpoint that member 0 wrote at the end."""
    saved, _ = checkpoint.newest(job.folder)
    assert saved is not None
    for name, tensor in changing(job):
        tensor.copy_(saved.tensors[f"model/{name}"])


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
