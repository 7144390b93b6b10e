"""The aggregator: what an arriving gradient does. Pure: events in, actions out, and the same events give the same actions.

Rounds. A round waits for the workers that were there when it opened. One that leaves is waited for no longer, one that joins takes part
from the next round on (or in this one, if it answers). It closes when a share of them has answered, or at its deadline with what has
come. Below the minimum it closes without a step, and nothing is lost: what came is held for the next round, and answers under way still
count, because the parameters are the same. An answer to a round before the last step is late: dropped, or aged into the open round,
where it is no answer of its worker.

Arrival. Each gradient is taken as it comes; a step is made as soon as `buffer` of them are there.

What must be kept. Save `state()` in one transaction with the parameters and the payloads that are held, or save events and replay them
from an older state; acknowledge a gradient after that. Then one that was acknowledged is neither lost nor applied twice, whatever is
killed: the sender of one that was not sends it again, and `Seen` knows whether it had come.

Papers: rules.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, assert_never, final

import msgspec

from laminar.parallel.aggregate.messages import (
    Action,
    Apply,
    CloseRound,
    Drop,
    Event,
    Fetch,
    Finish,
    Gradient,
    Hold,
    Joined,
    Left,
    OpenRound,
    Part,
    Reason,
    Repeat,
    Stall,
    Tick,
    Welcome,
)
from laminar.parallel.aggregate.own import Own
from laminar.parallel.aggregate.rules import Rules
from laminar.parallel.aggregate.seen import Seen
from laminar.parallel.aggregate.state import Held, State, Statistics
from laminar.parallel.aggregate.weights import age, share, weigh


@final
class Aggregator:
    def __init__(self, rules: Rules, *, version: int = 0) -> None:
        self.rules = rules
        self._state = State(version=version)
        self._out: list[Action] = []

    @classmethod
    def load(cls, rules: Rules, saved: Mapping[str, Any]) -> Self:
        """One that goes on where `saved` was taken. Other rules than before hold from the next decision on."""
        made = cls(rules)
        made._state = msgspec.convert(saved, State, str_keys=True)
        return made

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self._state, str_keys=True)
        return found

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def statistics(self) -> Statistics:
        return self._state.statistics

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(self._state.present)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Rounds: who has not answered the open one yet."""
        return tuple(self._state.awaited) if self._state.open else ()

    def next_of(self, worker: str) -> int:
        """The number of its next gradient."""
        return self._state.seen[worker].next

    @property
    def stalled(self) -> str:
        """Why there will be no step unless somebody joins; empty if there will."""
        return self._state.stalled

    @property
    def wakes(self) -> float | None:
        """When a Tick is due, on the clock of the events. None: nothing waits for time."""
        return None if self._state.ends is None else self._state.ends - self._state.skew

    def stood_still(self, now: float) -> None:
        """Nobody worked since the last event: what waits for time has as much of it left as it had then."""
        state = self._state
        if state.clock is not None and now > state.clock:
            state.skew -= now - state.clock
            state.clock = now

    def grant(self, seconds: float) -> None:
        """What waits for time now waits so much longer in all than the rules say. What was granted before is in it."""
        state = self._state
        if state.ends is not None and seconds > state.granted:
            state.ends += seconds - state.granted
            state.granted = seconds

    def on(self, event: Event) -> list[Action]:
        self._out = []
        state = self._state
        if state.clock is not None and event.now < state.clock:
            state.skew += state.clock - event.now
        state.clock = event.now
        if state.ends is not None and self._now >= state.ends:
            self._deadline()  # before the event: a gradient that comes after the deadline is late, even if no Tick came between
        match event:
            case Gradient():
                self._gradient(event)
            case Joined():
                self._joined(event.worker)
            case Left():
                state.present.pop(event.worker, None)
                state.awaited.pop(event.worker, None)
            case Tick():
                pass
            case Finish():
                self._finish()
            case _:
                assert_never(event)
        if not state.finished:
            self._settle()
        return self._out

    # Events

    def _joined(self, worker: str) -> None:
        state = self._state
        seen = state.seen.setdefault(worker, Seen())
        state.present.setdefault(worker)
        self._out.append(Welcome(worker, state.version, seen.next, state.round if state.open else None))

    def _gradient(self, event: Gradient) -> None:
        state, rules, statistics = self._state, self.rules, self._state.statistics
        statistics.received += 1
        seen = state.seen.get(event.worker)
        if seen is None:
            return self._drop(event.payload, event.worker, "unknown")
        if not seen.add(event.sequence):
            statistics.repeated += 1
            self._out.append(Repeat(event.worker, event.sequence))
            return None
        staleness, late = state.version - event.base, False
        if state.finished:
            return self._drop(event.payload, event.worker, "finished")
        if staleness < 0:
            return self._drop(event.payload, event.worker, "future")
        if rules.own != "ages":
            staleness -= state.own.setdefault(event.worker, Own()).since(event.base, rules.own)
        if rules.kind == "rounds":
            if event.round is None or event.round > state.round:
                return self._drop(event.payload, event.worker, "future")
            late = event.round < state.since
            statistics.late += late
            if late and rules.late == "drop":
                return self._drop(event.payload, event.worker, "late")
        if rules.max_staleness is not None and staleness > rules.max_staleness:
            return self._drop(event.payload, event.worker, "stale")
        if rules.kind == "rounds" and not late:
            if rules.answers is None and event.worker in state.answered:
                return self._drop(event.payload, event.worker, "answered")
            state.answered[event.worker] = None
            state.answers += 1
            state.awaited.pop(event.worker, None)
        state.held.append(Held(event.worker, event.sequence, event.payload, float(event.work), staleness, late))
        statistics.accepted += 1
        statistics.staleness[staleness] = statistics.staleness.get(staleness, 0) + 1
        self._out.append(Hold(event.payload))
        return None

    def _drop(self, payload: str, worker: str, reason: Reason) -> None:
        dropped = self._state.statistics.dropped
        dropped[reason] = dropped.get(reason, 0) + 1
        self._out.append(Drop(payload, worker, reason))
        if reason in ("late", "stale", "future"):
            self._out.append(Fetch(worker, self._state.version))

    def _deadline(self) -> None:
        if self.rules.kind == "rounds":
            self._close("deadline")
            self._open_if_due()
        else:
            self._apply()

    def _finish(self) -> None:
        state = self._state
        if state.finished:
            return
        if state.open:
            self._close("end")
        elif len(state.held) >= self.rules.minimum:
            self._apply()
        for held in state.held:
            self._drop(held.payload, held.worker, "too few")
        state.held, state.ends, state.finished, state.stalled = [], None, True, ""

    # What follows from them

    def _settle(self) -> None:
        """Close, step and open whatever is due; then say so if nothing can come any more."""
        state, rules = self._state, self.rules
        if rules.kind == "arrival":
            if len(state.held) >= rules.buffer:
                self._apply()
            elif state.held and state.ends is None and rules.deadline is not None:
                state.ends, state.granted = self._now + rules.deadline, 0.0
        else:
            if state.open and state.answers >= self._wanted() and len(state.held) >= rules.minimum:
                self._close("quorum")
            self._open_if_due()
            if self._in_vain():  # whoever joined since it opened is needed after all
                state.awaited |= {worker: None for worker in state.present if worker not in state.answered}
        self._tell_stall()

    def _wanted(self) -> int:
        """Answers that close the open round. Those who answered are counted also when they have left since."""
        return self.rules.wanted(self.rules.answers or len(self._state.awaited) + len(self._state.answered))

    def _in_vain(self) -> bool:
        """The open round waits for fewer gradients than make a step; or for nobody, and late ones that it holds do not close it."""
        state = self._state
        if not state.open or self.rules.answers is not None:
            return False
        return len(state.held) + len(state.awaited) < self.rules.minimum or not (state.awaited or state.answered)

    def _started(self) -> bool:
        return self._state.round >= 0 or len(self._state.present) >= self.rules.start

    def _open_if_due(self) -> None:
        """The next round, if there is none and this one can come to something."""
        state = self._state
        to_come = self.rules.answers or len(state.present)
        if state.open or not state.present or len(state.held) + to_come < self.rules.minimum or not self._started():
            return
        state.round, state.open, state.opened = state.round + 1, True, self._now
        state.answered, state.answers = {}, 0
        state.awaited = dict.fromkeys(state.present) if self.rules.answers is None else {}
        state.ends, state.granted = None if self.rules.deadline is None else self._now + self.rules.deadline, 0.0
        self._out.append(OpenRound(state.round, state.version, self.wakes, self._wanted()))

    def _close(self, why: Literal["quorum", "deadline", "end"]) -> None:
        state, statistics = self._state, self._state.statistics
        late = sorted({held.worker for held in state.held if held.late})
        stepped = len(state.held) >= self.rules.minimum
        if stepped:
            self._apply()
        state.open, state.ends = False, None
        statistics.rounds += 1
        statistics.stepless += not stepped
        statistics.by_deadline += why == "deadline"
        statistics.round_seconds += self._now - state.opened
        answered, missing = tuple(sorted(state.answered)), tuple(sorted(state.awaited))
        self._out.append(CloseRound(state.round, state.version, answered, missing, tuple(late) if stepped else (), why, stepped))

    def _apply(self) -> None:
        """One step of all that is held."""
        state, statistics = self._state, self._state.statistics
        held = sorted(state.held, key=lambda one: (one.worker, one.sequence))
        weights = weigh([one.work for one in held], [self._age(one) for one in held])
        state.version += 1
        state.since = state.round + 1
        state.held, state.ends = [], None
        statistics.steps += 1
        statistics.applied += len(held)
        if self.rules.own != "ages" and len(workers := {one.worker for one in held}) == 1:
            state.own[workers.pop()].made(state.version)
        parts = tuple(Part(one.payload, one.worker, weight, one.staleness) for one, weight in zip(held, weights, strict=True))
        # What this very event brought need not be kept first.
        self._out = [action for action in self._out if not isinstance(action, Hold)]
        self._out.append(Apply(parts, state.version))

    def _age(self, held: Held) -> float:
        staleness, ageing, among = held.staleness, self.rules.ageing, self.rules.among
        return age(staleness, ageing) if among is None else share(staleness, ageing, max(among, len(self._state.present)))

    def _tell_stall(self) -> None:
        state, rules = self._state, self.rules
        why: Literal["", "no workers", "too few workers"] = ""
        if not state.present:
            why = "no workers"
        elif rules.kind == "rounds" and (not state.open or self._in_vain()):
            why = "too few workers"
        if why and why != state.stalled:
            wanted = rules.minimum if self._started() else max(rules.minimum, rules.start)
            self._out.append(Stall(why, len(state.present), wanted))
        state.stalled = why

    @property
    def _now(self) -> float:
        """The clock of the events, made so that it never goes back."""
        assert self._state.clock is not None
        return self._state.clock + self._state.skew
