"""The chief of a team: starts the workers, listens to them, and when one dies goes on from the last checkpoint.

The chief itself does not train: whichever worker is killed, something is left that knows what to do. Used where all workers wait for each
other at every step: sync/, split/.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import Emit, EventLog, read
from laminar.core.figures import many
from laminar.parallel.crew import CALLED_OFF, GRACE, Crew, Member, NobodyHere, Said, Staff
from laminar.parallel.evaluation.hire import ROLE, Hire
from laminar.parallel.sync.links import Link
from laminar.parallel.threads import threads_each
from laminar.parallel.wire.addresses import lines_folder
from laminar.stack.open_job import Description
from laminar.train import checkpoint
from laminar.train.history import EVENTS, add_notes, notes_in
from laminar.train.job import Job, Trained
from laminar.train.snapshot import belongs, changing


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
    evaluator: bool = False  # does another process test the epochs?


DEATHS: Final = 20


def run_team(job: Job, ways: Ways, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    size = ways.workers
    losses: list[str] = []
    notes = _Notes(job, emit)
    while True:
        if staff is not None:
            room = staff.room(size, 1 if losses and ways.doubles else ways.fewest if ways.waits or losses else None)
            if losses and room < size and not ways.doubles:
                notes.add(f"{many(room, 'worker')} of {size} came back; training goes on with {'it' if room == 1 else 'them'}")
            size = size if ways.doubles else room
        try:
            ended = _Attempt(job, ways, size, description, emit, staff, notes).run()
        except LaminarError as error:
            notes.failed(error)
            raise
        finally:
            notes.write_down()
        if isinstance(ended, Trained):
            ended.notes[:] = dict.fromkeys([*notes.all, *ended.notes])
            _take_over(job)
            return ended
        after = checkpoint.newest(job.folder)[0]
        step = after.state["progress"]["step"] if after is not None else 0
        if ways.shrinks:
            size -= ended.workers
        losses.append(f"{ended.how}; training went on from step {step} with {size} worker{'' if size == 1 else 's'}")
        notes.add(losses[-1])
        notes.write_down()
        if size < ways.fewest or len(losses) > ways.losses:
            left = (
                f"{many(size, 'worker')} of the {ways.fewest} that are needed {'is' if size == 1 else 'are'} left"
                if 0 < size < ways.fewest
                else f"a worker was lost {len(losses)} times"
                if size
                else "no worker is left"
            )
            end = LaminarError("L608", f"{left}: {'; '.join(losses[-3:])}", hint="look at the machine's log, then laminar build again")
            notes.failed(end)
            raise end


@final
class _Notes:
    """Notes of the chief. The history is member 0's, who is told of them, and writes down again those that it has cut off."""

    def __init__(self, job: Job, emit: Emit) -> None:
        self._job, self._emit = job, emit
        saved, _ = checkpoint.newest(job.folder)
        goes_on = saved is not None and belongs(saved, job)
        self.all = notes_in(job.folder / EVENTS) if goes_on else []  # also those of the build that began it, for the layer
        self.has_failed = False  # member 0 has told it

    def add(self, why: str) -> None:
        self.all.append(why)
        self._emit({"event": "note", "layer": self._job.name, "why": why})

    def write_down(self) -> None:
        """While no member has the file open. Where it cannot be written, the layer still gets them."""
        if self.all:
            with contextlib.suppress(OSError), EventLog(self._job.folder / EVENTS) as log:
                log.end_line()
                add_notes(log, self.all, self._job.clock.now())

    def failed(self, error: LaminarError) -> None:
        """Once, and while no member has the file open: of the members only the first has a history."""
        if self.has_failed:
            return
        self.has_failed = True
        self.write_down()
        job, path, step, lr = self._job, self._job.folder / EVENTS, 0, self._job.recipe.rate
        with contextlib.suppress(OSError):
            for event in read(path) if path.exists() else []:
                if event.get("event") == "step":
                    step, lr = event["step"] + 1, event["lr"]
        why = {"step": step, "epoch": step // job.steps_per_epoch, "lr": lr, "why": error.message}
        record = {"event": "failed", **why, "t": job.clock.now()}
        with contextlib.suppress(OSError), EventLog(path) as log:
            log.end_line()
            log(record)
        self._emit({"layer": job.name, **record})


@dataclass(frozen=True)
class _Lost:
    """What a team was lost by: all that died, stalled or left at once are one loss."""

    how: str
    workers: int  # that will not come back by themselves; none, if they only missed each other or were ended because of another


def loss(workers: Sequence[Member], lost: Mapping[Member, str]) -> _Lost:
    """Of a team whose workers have all ended, and the first not because it was done. `lost`: who is known to be, and how."""
    if lost:
        return _Lost("; ".join(lost.values()), len(lost))
    if bystanders := [member for member in workers if member.bystander]:  # of one that did not train, or is told of too late
        return _Lost(f"{bystanders[0].name} {bystanders[0].how_it_ended()}", 0)
    if workers[0].code != CALLED_OFF:  # somebody has interrupted it, and not the build
        return _Lost(f"{workers[0].name} {workers[0].how_it_ended()}", 1)
    # One waited for another for too long, which then came: they are as many as before.
    return _Lost("all workers stopped waiting for each other, and none was lost", 0)


@final
class _Attempt:
    """One team until it is done, or someone died, stalled or was told to leave."""

    def __init__(self, job: Job, ways: Ways, size: int, description: Description, emit: Emit, staff: Staff | None, notes: _Notes) -> None:
        self._job, self._ways, self._size, self._emit, self._staff, self._notes = job, ways, size, emit, staff, notes
        self._threads = threads_each(job.recipe.threads, size)
        self._told = description.to_json()
        self._lost: dict[Member, str] = {}  # who, and how it ended
        self._late: set[Member] = set()  # who was ended because somebody was lost
        self._stopped = False  # member 0 was told to keep a checkpoint and end
        self._looked: set[str] = set()  # at by the layer's code
        self._latest: float | None = None  # by then all have left, once one has

    def run(self) -> Trained | _Lost:
        """What was trained, or who was lost."""
        with ExitStack() as held:
            if self._staff is not None:
                self._staff.ship(self._told)  # with the checkpoint to go on from
            link = self._ways.lay(self._size)
            held.callback(link.close)
            brief = {"job": self._told, "size": self._size, "link": link.told, "timeout": self._ways.timeout, "threads": self._threads}
            brief |= {**self._ways.told, "notes": list(self._notes.all)}
            crew = held.enter_context(Crew(threads=self._threads, staff=self._staff))
            hire = self._hire(crew, brief, held) if self._ways.evaluator else None
            try:
                for rank in range(self._size):
                    crew.start_worker(self._ways.module, rank, brief, files=link.files)
            except NobodyHere as error:  # all were lost since they came
                return _Lost(error.message, 0)
            asked = False
            while crew.workers:
                try:
                    for said in crew.hear(None if self._latest is None else max(0.0, self._latest - time.monotonic())):
                        self._hear(said, crew, link, hire)
                    self._end_late(crew)
                except KeyboardInterrupt:
                    if asked:
                        raise
                    asked = True
                    self._stop(crew)
            if asked:
                raise KeyboardInterrupt
            workers = [member for member in crew.members if member.role == "worker"]
            for member in workers:
                if member.error is not None:
                    raise member.error
            if workers[0].done is not None:
                return Trained(**{**workers[0].done, "looked": sorted(self._looked)})
            return loss(workers, self._lost)

    def _hire(self, crew: Crew, brief: dict[str, Any], held: ExitStack) -> Hire:
        """Member 0 has the desk, and says where."""
        brief["desk"] = {"token": secrets.token_hex(16), "address": None}
        if self._staff is None:
            short = lines_folder()
            held.callback(shutil.rmtree, short, ignore_errors=True)
            brief["desk"]["address"] = f"unix:{short / 'desk'}"
        token, who = brief["desk"]["token"], "the workers test by themselves"
        return Hire(crew, self._told, token, self._threads, self._notes.add, self._job.clock, who)

    def _hear(self, said: Said, crew: Crew, link: Link, hire: Hire | None) -> None:
        member = said.member
        match said.event:
            case {"looked": tag}:
                self._looked.add(tag)
            case {"desk": address}:
                assert hire is not None
                hire.start(address)
            case {"leaving": why} if member.role == "worker":
                self._lost.setdefault(member, f"{member.name} {why}")
                self._stop(crew)
            case {"leaving": _}:
                pass  # it ends with its machine, and another takes its place
            case None if member.role == ROLE:
                if hire is not None and not self._stopped:
                    hire.ended(member)
            case None if member.done is None:
                link.call_off()
                self._latest = self._latest or time.monotonic() + min(GRACE, self._ways.timeout)
                if not member.bystander and member.code not in (CALLED_OFF, 128 + signal.SIGINT) and member not in self._late:
                    self._lost.setdefault(member, f"{member.name} {member.how_it_ended()}")
            case None:
                pass
            case event:
                self._notes.has_failed |= event.get("event") == "failed"
                self._emit(event)

    def _stop(self, crew: Crew) -> None:
        if not self._stopped:  # told twice, it would not finish its step
            self._stopped = True
            crew.members[0].send(signal.SIGINT)

    def _end_late(self, crew: Crew) -> None:
        """Those that are stopped, or compute for too long."""
        if self._latest is not None and time.monotonic() >= self._latest:
            unknown = not self._lost
            for member in crew.workers:
                if unknown:
                    self._lost[member] = f"{member.name} was not heard of for {self._ways.timeout:g} seconds"
                self._late.add(member)
                member.kill()


@torch.no_grad()
def _take_over(job: Job) -> None:
    """The trained tensors, from the checkpoint that member 0 wrote at the end."""
    saved, _ = checkpoint.newest(job.folder)
    assert saved is not None
    for name, tensor in changing(job):
        tensor.copy_(saved.tensors[f"model/{name}"])
