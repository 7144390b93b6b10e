"""The chief of a team: starts the workers, listens to them, and when one dies goes on from the last checkpoint.

The chief itself does not train: whichever worker is killed, something is left that knows what to do. Used where all workers wait for each
other at every step: sync/, split/.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.core.figures import many
from laminar.parallel.crew import CALLED_OFF, GRACE, Crew, Staff
from laminar.parallel.sync.links import Link
from laminar.stack.open_job import Description
from laminar.train import checkpoint
from laminar.train.job import Job, Trained
from laminar.train.snapshot import changing


@dataclass(frozen=True)
class Ways:
    """How a strategy's team is made, and what it does about losses."""

    module: str  # that a worker runs
    lay: Callable[[int], Link]  # what lies between so many workers
    workers: int
    fewest: int  # without which it does not go on
    shrinks: bool  # does it go on with those that are left? Else with as many as before
    doubles: bool  # are as many started on fewer machines, after one was lost?
    waits: bool  # for as many as `fewest` only, from the first
    losses: int  # after which it is no bad luck
    timeout: float
    told: Mapping[str, Any] = field(default_factory=dict)  # to each worker, beside the job


DEATHS: Final = 20


def run_team(job: Job, ways: Ways, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    size = ways.workers
    notes: list[str] = []
    while True:
        if staff is not None:
            room = staff.room(size, 1 if notes and ways.doubles else ways.fewest if ways.waits or notes else None)
            size = size if ways.doubles else room
        ended = _attempt(job, ways, size, description, emit, staff)
        if isinstance(ended, Trained):
            ended.notes[:0] = notes
            _take_over(job)
            return ended
        after = checkpoint.newest(job.folder)[0]
        step = after.state["progress"]["step"] if after is not None else 0
        if ways.shrinks:
            size -= 1
        notes.append(f"{ended}; training went on from step {step} with {size} worker{'' if size == 1 else 's'}")
        emit({"event": "note", "layer": job.name, "why": notes[-1]})
        if size < ways.fewest or len(notes) > ways.losses:
            left = (
                f"{many(size, 'worker')} of the {ways.fewest} that are needed {'is' if size == 1 else 'are'} left"
                if 0 < size < ways.fewest
                else f"a worker was lost {len(notes)} times"
                if size
                else "no worker is left"
            )
            raise LaminarError("L608", f"{left}: {'; '.join(notes[-3:])}", hint="look at the machine's log, then laminar build again")


def _attempt(job: Job, ways: Ways, size: int, description: Description, emit: Emit, staff: Staff | None) -> Trained | str:
    """One team until it is done, or someone died or stalled: who, and how it ended."""
    threads = job.recipe.threads or max(1, (os.cpu_count() or 1) // size)
    told = description.to_json()
    if staff is not None:
        staff.ship(told)  # with the checkpoint to go on from
    link = ways.lay(size)
    brief = {"job": told, "size": size, "link": link.told, "timeout": ways.timeout, "threads": threads, **ways.told}
    lost: str | None = None
    asked = False
    latest: float | None = None  # by then all have left, once one has
    try:
        with Crew(threads=threads, staff=staff) as crew:
            for rank in range(size):
                crew.start_worker(ways.module, rank, brief, files=link.files)
            while crew.alive:
                try:
                    for said in crew.hear(None if latest is None else max(0.0, latest - time.monotonic())):
                        if said.event is not None:
                            emit(said.event)
                        elif said.member.done is None:
                            link.call_off()
                            latest = latest or time.monotonic() + min(GRACE, ways.timeout)
                            if said.member.code not in (CALLED_OFF, 128 + signal.SIGINT):
                                lost = lost or f"{said.member.name} {said.member.how_it_ended()}"
                    if latest is not None and time.monotonic() >= latest:
                        for member in crew.alive:  # stopped, or computing for too long
                            lost = lost or f"{member.name} was not heard of for {ways.timeout:g} seconds"
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
