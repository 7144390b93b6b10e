"""A server: holds a shard of the parameters, hears what workers push, and tells each of them what to do next.

One thread and no waiting for anybody: callers are answered in the order in which there is something to say. It starts from its snapshot,
always; so one that died and was started again goes on where the snapshot was. What was acknowledged as kept is in it.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Final, final

import msgspec

from laminar.core.clock import Clock
from laminar.parallel.apart import keep
from laminar.parallel.apart.decisions import INTERRUPTED, REPEATED, Decisions
from laminar.parallel.apart.messages import (
    Alive,
    Ask,
    Chief,
    Fetch,
    Finished,
    Hello,
    Here,
    Parameters,
    Push,
    Refused,
    Round,
    Taken,
    Unit,
    Welcome,
    request,
)
from laminar.parallel.apart.plan import Plan
from laminar.parallel.apart.report import Report
from laminar.parallel.apart.work import Task
from laminar.parallel.compress.packet import BadPacket
from laminar.parallel.wire.hub import Caller, Heard, Hub

SNAPSHOT_SECONDS: Final = 2.0
SNAPSHOT_SHARE: Final = 0.05  # of the time, at most, for snapshots of a large model
AWAY: Final = 1.0  # seconds later than it wanted to look at the clock
STALL_SECONDS: Final = 5.0  # in which nothing can happen, before it is told


@final
class Server:
    def __init__(self, plan: Plan, shard: int, folder: Path, hub: Hub, report: Report, clock: Clock, *, again: bool = False) -> None:
        """`again`: started in the place of one that died, so its workers are still there and will call."""
        self.shard, self.how, self.hub, self.report, self.clock = shard, plan.how, hub, report, clock
        self.decisions = Decisions(plan, shard, report, clock)
        self.path = keep.file_of(folder, shard)
        self.decisions.load(*keep.read(self.path))
        self.window = plan.window(shard)
        self.waiting: dict[str, Caller] = {}  # workers that wait for work
        self.kept = self._numbers_so_far()  # the highest number of each worker that is in the snapshot, and all before it
        self._stalled: float | None = None  # since when; infinite: it was told
        self._changed = False  # since the snapshot
        self._end_kept = False
        now = self._turned = clock.monotonic()
        self.snapshot_due = now + SNAPSHOT_SECONDS
        # Workers that were there before this server was, and have not called yet. A new build has to start them first.
        self.missed = set(self.decisions.aggregator.workers)
        self.missed_until = now + self.how.timeout if again else math.inf
        for worker in [] if again else [name for name in sorted(self.missed) if int(name) >= self.how.workers]:
            self.missed.discard(worker)  # someone who had joined: nobody starts it again
            self.decisions.without(worker)

    # The loop

    def serve(self) -> None:
        for told in self.decisions.untested:  # whoever heard of it may be gone
            self.report.epoch_again(told)
        while True:
            self.turn()

    def turn(self) -> None:
        """Whatever there is to hear, and what is due."""
        wakes = self.decisions.wakes
        due = min(self.snapshot_due, self.report.due, math.inf if wakes is None else wakes)
        for heard in self.hub.turn(max(0.0, due - self.clock.monotonic())):
            self.hear(heard)
        now = self.clock.monotonic()
        self.was_away(now - max(self._turned, due))
        self.look(now)
        self._turned = self.clock.monotonic()

    def was_away(self, seconds: float) -> None:
        """It was stopped itself, and continued: whoever has spoken meanwhile was not heard, and was not silent."""
        if seconds > AWAY:
            self.missed_until += seconds
            for caller in self.hub.callers:
                caller.heard += seconds

    def look(self, now: float) -> None:
        """What is due because time has passed."""
        if self.decisions.wakes is not None and now >= self.decisions.wakes:
            self.decisions.tick()
        self._miss(now)
        self._tell_stall(now)
        if now >= self.snapshot_due:
            self.save() if self._changed else self._next_snapshot(now, 0.0)
        self.hand_out()
        self.report.tell_if_due(now, self.decisions)

    def _miss(self, now: float) -> None:
        """Whoever is waited for and says nothing, or does not come back, is waited for no longer."""
        if now >= self.missed_until:
            for worker in sorted(self.missed):
                self.report.gone(worker)  # the chief waits for those who have joined
                self.decisions.without(worker)
            self.missed, self.missed_until = set(), math.inf
        if self.shard:
            return  # the first server knows who has something to do; on the others nobody waits for anybody
        for caller in [c for c in self.hub.callers if c.who and c.who not in self.waiting and now - c.heard > self.how.timeout]:
            self.report.lost(caller.who, f"said nothing for {self.how.timeout:g} s")
            self.hub.drop(caller)
            self._gone(caller)

    def _tell_stall(self, now: float) -> None:
        """Not at once: a worker that is started again is there in a moment. In the beginning and at the end it is no news."""
        decisions = self.decisions
        why = decisions.aggregator.stalled
        if not why or not decisions.position or decisions.finished or decisions.paused:
            self._stalled = None
        elif self._stalled is None:
            self._stalled = now
        elif now - self._stalled >= STALL_SECONDS:
            self.report.note(f"no step can be made: {why}, {len(decisions.aggregator.workers)} there")
            self._stalled = math.inf

    # Messages

    def hear(self, heard: Heard) -> None:
        caller = heard.caller
        caller.heard = self.clock.monotonic()
        self._changed = True
        if heard.header is None:
            self._gone(caller)
            return
        try:
            said = request(heard.header)
        except msgspec.ValidationError as error:
            self._refuse(caller, f"a message that makes no sense: {error}")
            return
        match said:
            case Hello():
                self._hello(caller, said)
            case Push() if caller.who:
                self._push(caller, said, heard.payload)
            case Fetch():
                if said.keep:
                    self.save()
                self._send_parameters(caller, self._row())
            case Ask() if caller.who and self.decisions.units is not None:
                self.decisions.asked(caller.who, said.done)
                self.waiting[caller.who] = caller
            case Alive():
                if said.answer:
                    self.hub.send(caller, Here())
            case Chief():
                self._chief(caller, said)
            case _:
                self._refuse(caller, f"'{heard.header.get('say')}' before hello, or in a strategy without it")
        self.hand_out()

    def _hello(self, caller: Caller, said: Hello) -> None:
        if said.worker and not said.worker.isdecimal():
            self._refuse(caller, f"hello of a worker called {said.worker!r}")
            return
        decisions, name = self.decisions, said.worker or self._free_name()
        for other in [c for c in self.hub.callers if c.who == name and c is not caller]:
            self.report.left(other)
            self.hub.drop(other)
        self.missed.discard(name)
        if self.missed and self.missed_until == math.inf:  # when the first one is there, the others cannot be far
            self.missed_until = caller.heard + self.how.timeout
        caller.who = name
        self.report.joined(name, said)
        decisions.joined(name, said.life)
        version, numbered = decisions.aggregator.version, decisions.aggregator.next_of(name)
        self.hub.send(caller, Welcome(worker=name, version=version, next=numbered, kept=self.kept.get(name, -1)))
        if decisions.rounds is not None and not decisions.at_work(name, said.busy):
            self.waiting[name] = caller

    def _free_name(self) -> str:
        """Those of the chief's own workers are taken, also while they are not there."""
        return next(str(n) for n in itertools.count(self.how.workers) if str(n) not in self.decisions.aggregator.workers)

    def _push(self, caller: Caller, said: Push, payload: memoryview) -> None:
        packet, buffers = payload[: said.packet], payload[said.packet :]
        if said.packet > len(payload) or not self.decisions.numbers.fits(buffers):
            self._refuse(caller, f"a push with {said.packet} bytes of packet and {len(buffers)} of buffers, {len(payload)} in all")
            return
        try:
            why = self.decisions.pushed(caller.who, said, packet, buffers)
        except BadPacket as error:
            self._refuse(caller, f"a packet that is none: {error}")
            return
        if self.decisions.rounds is not None:
            self.waiting[caller.who] = caller
            return
        if said.sequence - self.kept.get(caller.who, -1) >= self.window // 2:
            self.save()
        dropped = "" if why == REPEATED else why
        task = self._next_task(caller, said) if said.ask else None
        taken = Taken(version=self.decisions.aggregator.version, kept=self.kept.get(caller.who, -1), dropped=dropped, task=task)
        # What a stale gradient was computed on is too old: its worker is to have something newer, whether it asked or not.
        self.hub.send(caller, taken, *([self._row()] if said.fetch or dropped == "stale" else []))

    def _next_task(self, caller: Caller, said: Push) -> Task | None:
        """As if it had asked. None: it has to ask, and to wait with the others."""
        if self.decisions.units is None or said.unit is None:
            return None
        self.decisions.asked(caller.who, said.unit)
        return None if self.decisions.finished else self.decisions.work_for(caller.who)

    def _chief(self, caller: Caller, said: Chief) -> None:
        self.decisions.tested(said.tested)
        if said.stop:
            self.decisions.finished = said.stop
        if said.absent:
            for worker in sorted(self.missed.intersection(said.absent)):
                self.missed.discard(worker)
                self.decisions.without(worker)
            self.decisions.start_without(len(said.absent))
        if said.keep:
            self.save(durable=True)
        self._send_parameters(caller, self.decisions.numbers.layer.numpy().data)

    def _gone(self, caller: Caller) -> None:
        worker, caller.who = caller.who, ""
        self.report.left(caller)
        if not worker or any(c.who == worker for c in self.hub.callers):
            return
        self.waiting.pop(worker, None)
        self.report.gone(worker)
        if self.decisions.finished != INTERRUPTED:  # else it will be back, and go on with what it had
            self.decisions.without(worker)

    def _refuse(self, caller: Caller, why: str) -> None:
        self.hub.send(caller, Refused(code="L403", message=why, hint="use the same version of Laminar everywhere"))
        self.report.lost(caller.who or "a caller", f"sent {why}")
        self.hub.drop(caller)
        self._gone(caller)

    def _row(self) -> memoryview:
        return self.decisions.numbers.row.numpy().data

    def _buffers(self) -> list[memoryview]:
        buffers = self.decisions.numbers.mean_buffers()
        return [] if buffers is None else [buffers.numpy().data]

    def _send_parameters(self, caller: Caller, row: memoryview) -> None:
        buffers, version = self._buffers(), self.decisions.aggregator.version
        self.hub.send(caller, Parameters(version=version, step=self.decisions.position, buffers=bool(buffers)), row, *buffers)

    def hand_out(self) -> None:
        """Give work to whoever waits for it, where there is some."""
        decisions = self.decisions
        if self.waiting and decisions.finished and not self._end_kept and decisions.finished != INTERRUPTED:
            self._end_kept = True
            self.save()  # when the workers have left, nobody can push again what is not in a snapshot
        for worker, caller in list(self.waiting.items()):
            if decisions.finished:
                self.hub.send(caller, Finished(why=decisions.finished, again=decisions.finished == INTERRUPTED))
            elif (task := decisions.work_for(worker)) is None:
                continue
            elif decisions.units is not None:
                self.hub.send(caller, Unit(task=task))
            else:
                opening, version = decisions.numbers.opening, decisions.aggregator.version
                buffers = [] if opening is None else [opening.numpy().data]
                self.hub.send(caller, Round(task=task, version=version, buffers=bool(buffers)), self._row(), *buffers)
            caller.heard = self.clock.monotonic()  # it had nothing to say while it waited
            del self.waiting[worker]

    # Snapshots

    def save(self, *, durable: bool = False) -> None:
        began = self.clock.monotonic()
        keep.write(self.path, *self.decisions.state(), durable=durable)
        self.kept, self._changed = self._numbers_so_far(), False
        now = self.clock.monotonic()
        self._next_snapshot(now, now - began)
        self.report.kept(self.decisions.position)

    def _next_snapshot(self, now: float, took: float) -> None:
        self.snapshot_due = now + max(SNAPSHOT_SECONDS, took / SNAPSHOT_SHARE)

    def _numbers_so_far(self) -> dict[str, int]:
        return {worker: seen["floor"] for worker, seen in self.decisions.aggregator.state()["seen"].items()}
