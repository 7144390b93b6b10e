"""The chief of a sync training: starts the workers, listens to them, and when one dies goes on from the last checkpoint without it.

The chief itself does not train: whichever worker is killed, something is left that knows what to do.
"""

from __future__ import annotations

import os
import signal

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.parallel.crew import CALLED_OFF, Crew, Member
from laminar.parallel.meeting import FINE
from laminar.parallel.segment import Segment
from laminar.parallel.sync.layout import Layout
from laminar.stack.open_job import Description
from laminar.train import checkpoint
from laminar.train.job import Job, Trained
from laminar.train.optimizers import slots_of
from laminar.train.snapshot import buffers_of, changing, trainable
from laminar.train.strategies import Sync

MODULE = "laminar.parallel.sync.member"
DEATHS = 20  # after which it is no bad luck


def layout_of(job: Job, size: int) -> Layout:
    """The same in the chief and in every worker: all of them open the same job."""
    return Layout.of(
        size,
        {name: tuple(p.shape) for name, p in trainable(job.model).items()},
        {name: tuple(b.shape) for name, b in buffers_of(job).items()},
        [slot for slot in slots_of(job.recipe) if slot != "count"],
    )


def run_sync(job: Job, how: Sync, description: Description, emit: Emit) -> Trained:
    _refuse(job, how)
    size = how.workers
    notes: list[str] = []
    while True:
        trained, dead = _attempt(job, size, description, emit)
        if trained is not None:
            trained.notes[:0] = notes
            _take_over(job)
            return trained
        assert dead is not None
        after = checkpoint.newest(job.folder)[0]
        step = after.state["progress"]["step"] if after is not None else 0
        if not how.elastic:
            size -= 1
        notes.append(f"{dead.name} {dead.how_it_ended()}; training went on from step {step} with {size} worker{'' if size == 1 else 's'}")
        emit({"event": "note", "layer": job.name, "why": notes[-1]})
        if size < 1 or len(notes) > DEATHS:
            raise LaminarError(
                "L608", f"no worker is left: {'; '.join(notes[-3:])}", hint="look at the machine's log, then laminar build again"
            )


def _attempt(job: Job, size: int, description: Description, emit: Emit) -> tuple[Trained | None, Member | None]:
    """One team until it is done (its result) or someone died (who)."""
    layout = layout_of(job, size)
    segment = Segment.create(layout.total)
    threads = job.recipe.threads or max(1, (os.cpu_count() or 1) // size)
    brief = {"job": description.to_json(), "size": size, "segment": segment.fd, "bytes": segment.size, "threads": threads}
    words = segment.words(layout.words, layout.word_count)
    dead: Member | None = None
    asked = False
    try:
        with Crew(threads=threads) as crew:
            for rank in range(size):
                crew.start(MODULE, "worker", rank, brief, files=[segment.fd])
            while crew.alive:
                try:
                    for said in crew.hear():
                        if said.event is not None:
                            emit(said.event)
                        elif said.member.done is None and words[0] == FINE and not asked:
                            words[0] = 1  # whoever waits for it need not
                            dead = dead or (said.member if said.member.process.returncode != CALLED_OFF else None)
                except KeyboardInterrupt:
                    if asked:
                        raise
                    asked = True
                    crew.members[0].process.send_signal(signal.SIGINT)
            if asked:
                raise KeyboardInterrupt
            for member in crew.members:
                if member.error is not None:
                    raise member.error
            done = crew.members[0].done
            return (Trained(**done), None) if done is not None else (None, dead or crew.members[0])
    finally:
        del words
        segment.close()


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
