"""Report: what a server tells the chief, a few times a second. Lines of JSON on its pipe (../crew.py):

{"steps": [[step, loss, lr, staleness, worker], …], "team": {…}}    since the last time; worker "" where a step has several
{"epoch": n, "train": {…}, "step", "last", "team", "at"}            all batches of epoch n are behind; told again by a server that restarts
{"kept": step}                                                      a snapshot has been written, after this step
{"bytes": [received, sent]}                                         on the wire so far, of a server that is not the first
{"joined": {…}, "at"}   {"gone": worker}   {"lost": worker, "why"}   {"note": …}
{"here": true}                                                      nothing to tell, and not dead

`at` is on the server's clock, which is the chief's: both are of one machine.
The first server speaks for all of them; the others tell of what is theirs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from laminar.core.clock import Clock
from laminar.parallel.aggregate.messages import CloseRound
from laminar.parallel.apart.messages import Hello
from laminar.parallel.wire.hub import Caller, Hub

if TYPE_CHECKING:
    from laminar.parallel.apart.decisions import Decisions

TELL_SECONDS: Final = 0.2
HERE_SECONDS: Final = 1.0


@final
class Report:
    def __init__(self, say: Callable[[dict[str, Any]], None], hub: Hub, clock: Clock, *, first: bool) -> None:
        self._hub = hub
        self._speak, self._first, self._clock = say, first, clock
        self._steps: list[list[Any]] = []
        self._tallies: dict[int, dict[str, float]] = {}
        self._gone_bytes = [0, 0]  # received, sent: of callers that are gone
        self._base = [0, 0]  # of the server that died
        self._told_bytes = (0, 0)
        self.due = clock.monotonic() + TELL_SECONDS
        self._spoke = clock.monotonic()
        self._missing: dict[str, int] = {}
        self._times: dict[str, tuple[float, float]] = {}  # of each worker: seconds of computing, and of waiting

    def _say(self, told: dict[str, Any]) -> None:
        self._spoke = self._clock.monotonic()
        self._speak(told)

    # What happens

    def joined(self, worker: str, said: Hello) -> None:
        if self._first:
            process = {"role": "worker", "rank": int(worker), "pid": said.pid, "host": said.host}
            self._say({"joined": process, "at": self._clock.monotonic()})

    def gone(self, worker: str) -> None:
        if self._first:
            self._say({"gone": worker})

    def lost(self, worker: str, why: str) -> None:
        self._say({"lost": worker, "why": why})

    def left(self, caller: Caller) -> None:
        self._gone_bytes[0] += caller.received
        self._gone_bytes[1] += caller.sent
        caller.received = caller.sent = 0

    def note(self, why: str) -> None:
        if self._first:
            self._say({"note": why})

    def stepped(self, step: int, loss: float, lr: float, staleness: int, worker: str) -> None:
        if self._first:
            self._steps.append([step, loss, lr, staleness, worker])

    def closed(self, action: CloseRound) -> None:
        for worker in action.missing if action.stepped else ():
            self._missing[worker] = self._missing.get(worker, 0) + 1

    def worked(self, worker: str, seconds: float, waited: float) -> None:
        computing, waiting = self._times.get(worker, (0.0, 0.0))
        self._times[worker] = computing + seconds, waiting + waited

    def tally(self, epoch: int, found: dict[str, float]) -> None:
        total = self._tallies.setdefault(epoch, {})
        for name, value in found.items():
            total[name] = total.get(name, 0) + value

    def epoch(self, epoch: int, decisions: Decisions, *, done: bool) -> dict[str, Any]:
        """What was told."""
        self._tell(decisions)
        told = {
            "epoch": epoch,
            "train": self._tallies.pop(epoch, {}),
            "step": decisions.position,
            "last": done,
            "team": self.team(decisions),
        }
        self.epoch_again(told)
        return told

    def epoch_again(self, told: dict[str, Any]) -> None:
        self._say({**told, "at": self._clock.monotonic()})

    def kept(self, step: int) -> None:
        if self._first:
            self._flush_steps()
            self._say({"kept": step})
        else:
            self._tell_bytes()

    # Telling

    def tell_if_due(self, now: float, decisions: Decisions) -> None:
        if now >= self.due:
            self.due = now + TELL_SECONDS
            self._tell(decisions)
            if not self._first:
                self._tell_bytes()
            if now - self._spoke >= HERE_SECONDS:
                self._say({"here": True})

    def _tell(self, decisions: Decisions) -> None:
        if self._steps:
            self._say({"steps": self._steps, "team": self.team(decisions)})
            self._steps = []

    def _tell_bytes(self) -> None:
        if (found := self._bytes()) != self._told_bytes:
            self._told_bytes = found
            self._say({"bytes": list(found)})

    def _flush_steps(self) -> None:
        if self._steps:
            self._say({"steps": self._steps})
            self._steps = []

    def team(self, decisions: Decisions) -> dict[str, Any]:
        """Figures of the whole run: bytes on the wire are those of this server and its callers, and the chief adds the others'."""
        statistics = decisions.aggregator.statistics
        received, sent = self._bytes()
        found: dict[str, Any] = {
            "workers": len(decisions.aggregator.workers),
            "bytes": received + sent,
            "bytes_in": received,
            "bytes_out": sent,
            "staleness": round(statistics.mean_staleness, 3),
            "ages": {str(age): count for age, count in sorted(statistics.staleness.items())},
            "steps": statistics.steps,
            "accepted": statistics.accepted,
            "dropped": dict(statistics.dropped),
            "computing": {worker: round(computing, 3) for worker, (computing, _) in sorted(self._times.items())},
            "waiting": {worker: round(waiting, 3) for worker, (_, waiting) in sorted(self._times.items())},
        }
        if decisions.rounds is not None:
            found |= {"rounds": statistics.rounds, "late": statistics.late, "missing": dict(sorted(self._missing.items()))}
            found |= decisions.rounds.told_shares()
        return found

    def _bytes(self) -> tuple[int, int]:
        callers = self._hub.callers
        return (
            self._base[0] + self._gone_bytes[0] + sum(c.received for c in callers),
            self._base[1] + self._gone_bytes[1] + sum(c.sent for c in callers),
        )

    # Over a restart

    def state(self) -> dict[str, Any]:
        return {
            "tallies": {str(epoch): tally for epoch, tally in self._tallies.items()},
            "missing": self._missing,
            "bytes": self._bytes(),
            "times": self._times,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self._tallies = {int(epoch): dict(tally) for epoch, tally in saved["tallies"].items()}
        self._missing, self._base = dict(saved["missing"]), list(saved["bytes"])
        self._times = {worker: (float(times[0]), float(times[1])) for worker, times in saved.get("times", {}).items()}
