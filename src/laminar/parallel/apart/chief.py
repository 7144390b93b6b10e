"""The chief of a training apart: starts servers and workers, hears what happens, has every epoch tested, and says when it is over.

It does not train, and no gradient passes through it. A worker that dies is missed by nobody, or started again (`elastic`); a server is
started again from its snapshot.
"""

from __future__ import annotations

import shutil
import signal
import socket
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.core.interrupts import Interrupts
from laminar.parallel.apart import invitation, keep
from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.after_ctrl_c import CtrlC
from laminar.parallel.apart.brief import addresses, make_brief
from laminar.parallel.apart.deaths import MOST, WITHIN, Deaths
from laminar.parallel.apart.decisions import INTERRUPTED
from laminar.parallel.apart.judge import Judge, Judgement
from laminar.parallel.apart.messages import Chief
from laminar.parallel.apart.prepare import make_plan
from laminar.parallel.apart.progress import Told
from laminar.parallel.apart.shard import begin
from laminar.parallel.apart.watch import Watch
from laminar.parallel.crew import Crew, LocalMember, Member, Said, Staff
from laminar.parallel.evaluation.desk import Desk
from laminar.parallel.evaluation.hire import ROLE, Hire
from laminar.parallel.threads import threads_each
from laminar.parallel.wire.addresses import lines_folder
from laminar.parallel.wire.frames import Gone
from laminar.stack.open_job import Description
from laminar.train.checkpoint import APART
from laminar.train.history import History
from laminar.train.job import Job, Trained
from laminar.train.losses import guessing, loss_name
from laminar.train.metrics import check_target
from laminar.train.misgivings import misgivings
from laminar.train.snapshot import ALL_DONE, trainable
from laminar.train.strategies import Averaging, Downpour, Quorum

WORKER, SERVER = "laminar.parallel.apart.worker_process", "laminar.parallel.apart.server_process"
LOOK: Final = 0.01  # seconds between looks for a judgement that is under way
IDLE: Final = 0.25  # and for anything else that nobody says: Ctrl-C, silence


def run_apart(job: Job, how: Averaging | Downpour | Quorum, description: Description, emit: Emit, staff: Staff | None = None) -> Trained:
    """Train `job.model` in place."""
    check_target(job.recipe.target, job.data.task)
    plan, folder = make_plan(job, how), job.folder / APART
    told = Told(job, plan, folder)
    resumes = told.load() and all(keep.file_of(folder, shard).exists() for shard in range(len(plan.shards)))
    if not resumes:
        told = Told(job, plan, folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        params = trainable(job.model)
        for shard in range(len(plan.shards)):
            begin(folder, plan, shard, params)
    if staff is not None:
        staff.room(how.workers, how.fewest if how.elastic else None)
        staff.ship(description.to_json())
    with ExitStack() as held:
        interrupts = held.enter_context(Interrupts())
        history = History(job.folder, job.name, emit, job.clock, tensorboard=job.tensorboard, rewind=told.events if resumes else None)
        told.history = held.enter_context(history)
        threads = threads_each(job.recipe.threads, how.workers)
        crew = held.enter_context(Crew(threads=threads, staff=staff))
        held.enter_context(invitation.kept(folder))
        short = lines_folder()
        held.callback(shutil.rmtree, short, ignore_errors=True)
        chief = _Chief(job, plan, description, told, crew, interrupts, folder, short, threads, staff, begins=not resumes)
        held.callback(chief.close)
        return chief.run(resumes)


@final
class _Chief:
    def __init__(
        self,
        job: Job,
        plan: plans.Plan,
        description: Description,
        told: Told,
        crew: Crew,
        interrupts: Interrupts,
        folder: Path,
        short: Path,
        threads: int,
        staff: Staff | None,
        *,
        begins: bool,
    ) -> None:
        self.job, self.plan, self.how, self.told, self.crew, self.interrupts = job, plan, plan.how, told, crew, interrupts
        self.folder, self.now = folder, job.clock.monotonic
        self.brief = make_brief(plan, description, told.attempt, folder, threads, addresses(plan, short, staff))
        self.desk: Desk | None = None
        self.hire: Hire | None = None
        if self.how.evaluator:
            near = staff is None or staff.one_machine
            address = f"unix:{short / 'desk'}" if near or staff is None else f"{staff.host}:0"
            self.desk = Desk(address, self.brief["token"], self.how.timeout)
            self.hire = Hire(crew, self.brief["job"], self.brief["token"], threads, told.note, job.clock, "the chief tests by itself")
        self.judge = Judge(job, plan, self.brief["addresses"], self.brief["token"], self.how.timeout, self.desk, begins=begins)
        self.judging: tuple[dict[str, Any], Future[Judgement]] | None = None
        self.to_judge: list[dict[str, Any]] = []
        self.deaths = Deaths()
        self.watch = Watch(self.how.timeout, self.now)
        self.absent: set[str] = set()  # our workers that died and will not come back
        self.guests: set[str] = set()  # workers that someone else has started
        self.fewer = 0  # workers that have gone since it was last asked whether there are enough
        self.leaving: set[Member] = set()  # workers whose machine is about to end
        self.looked: set[str] = set()  # what the layer's code looked at in workers (core/observe.py)
        self.unsaid: set[int] = set()  # servers that are to hear how things are
        self.behind = -1  # the newest epoch that is being tested elsewhere: rounds go on
        self.stopping = ""  # why it is over
        self.over = False  # nobody is needed any more
        self.ctrl_c = CtrlC(crew, len(plan.shards), self.how.timeout, self.now, meanwhile=self._meanwhile)

    def close(self) -> None:
        if self.desk is not None:
            self.desk.close()
        self.crew.end()
        self.judge.close()

    def run(self, resumes: bool) -> Trained:
        self._start(resumes)
        try:
            return self._train()
        except LaminarError as error:  # whoever it was of: workers and servers have no history
            self.told.failed(error)
            raise

    def _train(self) -> Trained:
        while self._busy():
            self._hear(LOOK if self.judging is not None else IDLE)
            self._judged()
            self._judge_next()
            self._let_go_on()
            while self.unsaid and not self.ctrl_c.pressed:  # after it all that matters was told
                self._tell(self.unsaid.pop())
            self._end_silent()
            if self.interrupts.asked and not self.ctrl_c.pressed:
                self._interrupt()
        if self.ctrl_c.pressed:
            self._keep()
            raise KeyboardInterrupt
        return self._end()

    def _busy(self) -> bool:
        judging = self.judging is not None
        if self.ctrl_c.pressed:
            return self.ctrl_c.has_time and (bool(self.crew.workers) or judging)
        return bool(self.crew.workers or self.guests or judging or self.to_judge)

    def _start(self, resumes: bool) -> None:
        told, plan = self.told, self.plan
        assert told.history is not None
        for shard in range(len(plan.shards)):
            self._start_server(shard, again=False)
        while len(self.ctrl_c.listening) < len(plan.shards):
            self._hear(IDLE)
            if self.interrupts.asked:
                raise KeyboardInterrupt
        fields = {"step": told.at.step, "steps": plan.steps, "epoch": told.at.epoch, "epochs": self.job.recipe.epochs}
        if resumes:
            told.resumed = told.at.step = fields["step"] = self.ctrl_c.patiently(self.judge.fetch)
            told.history.tell("resume", **fields, why=f"goes on after step {told.resumed} of {plan.steps}")
        else:
            samples, threads = len(self.job.data.train), self.brief["threads"]
            told.history.tell("start", **fields, samples=samples, threads=threads, dtype=self.job.recipe.dtype)
        told.begin()
        for member in self.crew.alive:
            self._announce_server(member)
        told.save()
        invitation.write(self.folder, self.brief)
        for rank in range(self.how.workers):
            self._start_worker(rank)
        if self.desk is not None and self.hire is not None:
            self.hire.start(self.desk.address)

    def _start_server(self, shard: int, *, again: bool) -> None:
        member = self.crew.start(SERVER, "server", shard, {**self.brief, "address": self.brief["addresses"][shard], "again": again})
        self.watch.started(member)

    def _start_worker(self, rank: int) -> None:
        self.watch.started(self.crew.start_worker(WORKER, rank, self.brief))

    def _announce_server(self, member: Member) -> None:
        assert isinstance(member, LocalMember)
        self._announce("server", member.rank, member.pid, socket.gethostname())

    def _announce(self, role: str, rank: int, pid: int, host: str) -> None:
        if (role, rank, pid) not in self.told.announced:  # a worker says hello again to a server that was restarted
            assert self.told.history is not None
            self.told.announced.add((role, rank, pid))
            self.told.history.tell("worker", role=role, rank=rank, pid=pid, host=host)

    # Hearing

    def _hear(self, timeout: float) -> None:
        for process in self.desk.arrived() if self.desk is not None else []:
            self._announce(**process)
        for said in list(self.crew.hear(timeout)):
            self.watch.heard(said.member)
            if said.event is None:
                self._ended(said.member)
            else:
                self._event(said)
        if self.fewer:  # not before all who died at once are told
            self._stop_if_too_few()
            self.fewer = 0

    def _event(self, said: Said) -> None:
        told, event = self.told, said.event
        assert told.history is not None and event is not None
        match event:
            case {"looked": tag}:
                self.looked.add(tag)
            case {"listening": address}:
                self.ctrl_c.listening.add(said.member.rank)
                self.brief["addresses"][said.member.rank] = address
                if told.announced:  # it takes the place of one that died
                    self._announce_server(said.member)
                    self.unsaid.add(said.member.rank)
            case {"steps": _}:
                told.steps(event)
            case {"bytes": [received, sent]}:
                told.others[said.member.rank] = received, sent
            case {"epoch": epoch}:
                waiting = [one["epoch"] for one in self.to_judge] + ([self.judging[0]["epoch"]] if self.judging is not None else [])
                if epoch <= told.judged:
                    self.unsaid.add(0)  # the server was restarted, and does not know
                elif epoch not in waiting:
                    self.to_judge.append(event)
                if event["last"]:
                    self.over = True
                    self.unsaid.update(range(len(self.plan.shards)))
            case {"kept": step}:
                told.at.step = max(told.at.step, step)
                told.save()
            case {"joined": worker, "at": at}:
                if not self.watch.first_hello:
                    told.trains_from(min(self.now(), at))  # opening the data is no training
                ours = next((member for member in self.crew.workers if member.rank == worker["rank"]), None)
                if ours is None:
                    self.guests.add(str(worker["rank"]))
                self.watch.said_hello(ours)
                self._announce(**worker)
            case {"gone": worker}:
                if worker in self.guests:
                    self.guests.discard(worker)
                    if not (self.over or self.stopping):
                        told.note(f"worker {worker}, which had joined, left at step {told.at.step}{self._go_on}")
                        self.fewer += 1
            case {"lost": worker, "why": why}:
                members = [member for member in self.crew.workers if str(member.rank) == worker]
                told.note(f"worker {worker} {why}, and {'was ended' if members else 'was left behind'}")
                for member in members:
                    member.kill()
            case {"leaving": why}:
                if said.member.role == "worker":
                    told.note(f"{said.member.name} {why}, and hands in what it has")
                    self.leaving.add(said.member)
                    said.member.send(signal.SIGUSR1)
            case {"note": why}:
                told.history.tell("note", why=why)
            case _:
                pass

    def _meanwhile(self) -> None:
        """While a server does not answer."""
        self._hear(LOOK)
        self._end_silent()

    def _end_silent(self) -> None:
        now = self.now()
        self._hear(0)  # after the look at the clock: this process may have been stopped itself
        for member, why in self.watch.silent(self.crew.alive, now):
            self.told.note(f"{member.name} {why}, and was ended")
            member.kill()

    def _ended(self, member: Member) -> None:
        self.watch.ended(member)
        if member.role == "server":
            self.ctrl_c.listening.discard(member.rank)
        if self.ctrl_c.pressed:
            return
        if member.role == ROLE:
            if self.hire is not None:
                self.hire.ended(member)
            return
        if member.error is not None:
            raise member.error
        if (member.done is not None and member not in self.leaving) or (member.role == "worker" and (self.over or self.stopping)):
            return
        luck = self.deaths.add(f"{member.role} {member.rank}", self.now())
        again = luck and (member.role == "server" or self.how.elastic)
        what = "; it was started again" + (" from its snapshot" if member.role == "server" else "") if again else self._go_on
        if not luck:
            what = f"; that is {MOST} times within {WITHIN:g} s"
        self.told.note(f"{member.name} {member.how_it_ended()} at step {self.told.at.step}{what}")
        if again:
            self._start_server(member.rank, again=True) if member.role == "server" else self._start_worker(member.rank)
            return
        if member.role == "server":
            raise self._nobody("no server is")
        self.fewer += 1
        self.absent.add(str(member.rank))
        self.unsaid.update(range(len(self.plan.shards)))

    @property
    def _too_few(self) -> bool:
        return len(self.crew.workers) + len(self.guests) < self.how.fewest

    @property
    def _go_on(self) -> str:
        """For a note on a worker that is gone."""
        return "" if self._too_few else "; the others go on"

    def _stop_if_too_few(self) -> None:
        if self._too_few:
            raise self._nobody("no worker is" if self.how.fewest == 1 else "too few workers are")

    def _nobody(self, who: str) -> LaminarError:
        why = "; ".join(self.told.notes[-max(3, self.fewer) :])
        return LaminarError("L608", f"{who} left: {why}", hint="look at the machine's log, then laminar build again")

    # Judging

    def _judge_next(self) -> None:
        if self.judging is None and self.to_judge and not self.ctrl_c.pressed and 0 in self.ctrl_c.listening:
            told = self.to_judge.pop(0)
            self.judging = told, self.judge.judge(told)

    def _judged(self) -> None:
        """What follows from the test of an epoch, once it is known."""
        if self.judging is None or not self.judging[1].done():
            return
        (asked, future), self.judging = self.judging, None
        try:
            found = future.result()
        except Gone:  # a server died meanwhile, and is being started again
            self.to_judge.insert(0, asked)
            return
        told = self.told
        if wrong := told.finite(found):
            raise LaminarError("L601", f"{wrong} after epoch {found.epoch}", hint=f"lower lr in train (it is {self.job.recipe.rate:g})")
        # Where rounds wait for the test, it is in no epoch.
        told.epoch(found, found.at if isinstance(self.how, Downpour) or self._goes_on else self.now())
        if not self.stopping:
            self.stopping = told.at.reason_to_stop(self.job.recipe)
        self.unsaid.update(range(len(self.plan.shards)) if self.stopping and not found.done else [0])
        told.save()

    @property
    def _goes_on(self) -> bool:
        """May rounds go on while an epoch is tested? Nothing that is learned depends on it, and another process tests."""
        recipe = self.job.recipe
        return self.desk is not None and self.desk.here and recipe.target is None and recipe.patience is None

    def _let_go_on(self) -> None:
        if self.judging is not None and not self.judging[0]["last"] and self.judge.fetched > self.behind and self._goes_on:
            self.behind = self.judge.fetched
            self.unsaid.add(0)

    # Speaking

    def _tell(self, shard: int) -> None:
        """How things are: to a server for which something is new, or which is new itself."""
        message = Chief(tested=max(self.told.judged, self.behind), stop=self.stopping, absent=sorted(self.absent), keep=self.over)
        self.ctrl_c.patiently(lambda: self.judge.say(shard, message))

    # The end

    def _interrupt(self) -> None:
        self.stopping = INTERRUPTED
        self.ctrl_c.press(self._tell)

    def _say_keep(self, shard: int) -> None:
        self.ctrl_c.patiently(lambda: self.judge.say(shard, Chief(keep=True)))

    def _keep(self) -> None:
        assert self.told.history is not None
        self.ctrl_c.keep(self._say_keep)
        if self.ctrl_c.whole:
            self._hear(IDLE)
        self.told.history.tell("checkpoint", step=self.told.at.step, epoch=self.told.at.epoch, why="interrupted")
        self.told.save()

    def _end(self) -> Trained:
        told, at = self.told, self.told.at
        history = told.history
        assert history is not None
        step = self.ctrl_c.patiently(self.judge.fetch)
        if not at.metrics or step != at.step or self.stopping != ALL_DONE:
            at.metrics = self.judge.metrics()
        at.step = step
        at.stopped = self.stopping or ALL_DONE
        at.metrics = {**at.metrics, "samples_per_second": at.samples / max(at.fit_seconds, 1e-9)}
        for shard in range(len(self.plan.shards)):
            self._say_keep(shard)
        self._hear(0)  # how many bytes it was in the end: told before the answer
        told.save()
        history.tell("end", step=at.step, epoch=at.epoch, why=at.stopped, metrics=at.metrics, seconds=at.seconds, team=told.whole)
        notes = list(told.notes)
        if said := self.plan.servers_note():
            notes.append(said)
        job = self.job
        objective = loss_name(job.recipe, job.data.task)
        classes = len(job.data.classes) if job.data.classes is not None else None
        guess = guessing(objective, job.data.train.y, job.data.test.y, classes=classes)
        if early := at.early_end(job.recipe):
            notes.append(early)
        if said := misgivings(loss=at.metrics["loss"], guess=guess, first=at.first, lr=job.recipe.rate):
            notes.append(said)
        self.crew.tell_all(signal.SIGTERM)
        return Trained(
            metrics=dict(at.metrics),
            seconds=at.seconds,
            epochs=at.epoch,
            steps=at.step,
            resumed_from=told.resumed,
            notes=notes,
            looked=sorted(self.looked),
        )
