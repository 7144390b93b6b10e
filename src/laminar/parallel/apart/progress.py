"""Progress of a training apart: what the chief knows, tells (train/history.py) and writes down, so that a build that was killed goes on."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
from pathlib import Path
from typing import Any, final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.parallel.apart.judge import Judgement
from laminar.parallel.apart.own_state import Attempt
from laminar.parallel.apart.plan import Plan
from laminar.train.history import History
from laminar.train.job import Job
from laminar.train.metrics import Tally
from laminar.train.snapshot import Progress, frozen_state, recipe_digest

FILE = "chief.json"
FORMAT = 3
TOGETHER = 0.01  # of the time of the epoch before: one that took less says nothing of the rate by itself


@final
class Told:
    """Everything the chief has heard, in one place."""

    def __init__(self, job: Job, plan: Plan, folder: Path) -> None:
        self.job, self.plan, self.path = job, plan, folder / FILE
        self.at = Progress()
        self.attempt = Attempt(training=secrets.token_hex(8), number=1)
        self.next = 0  # the first step that was not told: a server that goes back to its snapshot makes some of them again
        self.notes: list[str] = []
        self.announced: set[tuple[str, int, int]] = set()  # role, rank and process
        self.judged = -1  # the newest epoch that was tested
        self.resumed: int | None = None
        self.events: tuple[int, int] | None = None  # bytes of events.jsonl, and the step that they reach
        self.first: dict[str, Any] = {}  # figures of the whole run, with the bytes of the first server
        self.others: dict[int, tuple[int, int]] = {}  # bytes that the other servers have received and sent
        self.history: History | None = None
        self._last = 0, 0.0  # samples and seconds that the last epoch's rate was told of
        self.began = self.tick = job.clock.monotonic()
        self._epoch_began: float | None = None  # None: nobody trains yet
        self._epoch_before = 0.0  # seconds of it in an earlier build
        self.before = 0.0
        self._rates = (self.tick, 0)
        self._rate = job.recipe.rate  # of the newest step

    def begin(self) -> None:
        """Workers can begin: starting the servers is no training."""
        self.began = self.job.clock.monotonic()

    # Over a restart

    def load(self) -> bool:
        """Go on with what an earlier build of the same training has left. False: there is nothing, or it is of another."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
            found = json.loads(self.path.read_bytes())
            if found["format"] == FORMAT and found["belongs"] == self._belongs():
                self.at = msgspec.convert(found["progress"], Progress)
                self.notes, self.judged, self.events = found["notes"], found["judged"], tuple(found["events"])
                before = msgspec.convert(found["attempt"], Attempt)
                self.attempt = Attempt(training=before.training, number=before.number + 1)
                self.next = found["next"]
                self.before = self.at.seconds
                self._epoch_before = float(found["epoch_seconds"])
                return True
        return False

    def save(self) -> None:
        assert self.history is not None
        self.at.seconds = self.before + self.job.clock.monotonic() - self.began
        self.events = (self.history.flush(), self.at.step)
        record = {
            "format": FORMAT,
            "belongs": self._belongs(),
            "progress": msgspec.to_builtins(self.at),
            "notes": self.notes,
            "judged": self.judged,
            "events": self.events,
            "attempt": msgspec.to_builtins(self.attempt),
            "next": self.next,
            "epoch_seconds": self._epoch_seconds(self.job.clock.monotonic()),
        }
        atomic.write_bytes(self.path, json.dumps(record).encode())

    def _belongs(self) -> dict[str, Any]:
        """As JSON gives it back."""
        return {
            "recipe": recipe_digest(self.job),
            "samples": len(self.job.data.train),
            "shards": [{name: list(shape) for name, shape in shard.items()} for shard in self.plan.shards],
            "frozen": frozen_state(self.job),
        }

    # Hearing

    @property
    def team(self) -> dict[str, Any]:
        """Figures of the whole run, with the bytes of all servers."""
        if not self.first or not self.others:
            return self.first
        received, sent = (sum(counts) for counts in zip(*self.others.values(), strict=True))
        more = {"bytes": received + sent, "bytes_in": received, "bytes_out": sent}
        return self.first | {name: self.first[name] + count for name, count in more.items()}

    @property
    def whole(self) -> dict[str, Any]:
        """The same at the end, when some have left and some may have come too late: of the workers, those that took part."""
        team = self.team
        return team | {"workers": len(team["computing"]), "wanted": self.plan.how.workers} if team else team

    def steps(self, told: dict[str, Any]) -> None:
        """[step, loss, lr, staleness, worker] of each step since the last time."""
        assert self.history is not None
        at, rows = self.at, told["steps"]
        self.first = told.get("team", self.first)
        last = self.job.recipe.epochs - 1
        for step, loss, lr, staleness, worker in rows:
            if step >= self.next:
                more = {"worker": worker} if worker else {}
                self.history.step(step, min(step // self.plan.batches, last), loss, lr, staleness=staleness, **more)
                self.next = step + 1
            if at.first is None and loss:
                at.first = loss
        step, loss, lr = rows[-1][:3]
        self._rate = lr
        at.step = max(at.step, step + 1)
        now, team = self.job.clock.monotonic(), self.team
        since, before = self._rates
        per_second = (at.step - before) / max(now - since, 1e-9)
        self._rates = (now, at.step)
        shown = {key: team.get(key) for key in ("workers", "bytes", "staleness")}
        shown |= {"steps_per_second": per_second, "samples_per_second": per_second * self.job.recipe.batch}
        epoch = min(step // self.plan.batches, last)
        self.history.listen(step=step, steps=self.plan.steps, epoch=epoch, epochs=self.job.recipe.epochs, loss=loss, lr=lr, team=shown)

    def trains_from(self, now: float) -> None:
        """The epoch begins, or goes on."""
        self._epoch_began = now - self._epoch_before

    def _epoch_seconds(self, now: float) -> float:
        return self._epoch_before if self._epoch_began is None else max(0.0, now - self._epoch_began)

    def epoch(self, found: Judgement, next_from: float) -> None:
        """An epoch was tested. `next_from`: when the next one began."""
        assert self.history is not None
        at, seconds = self.at, self._epoch_seconds(found.at)
        self._epoch_before = 0.0
        self.trains_from(next_from)
        at.epoch = found.epoch + 1
        at.tested(at.epoch, found.metrics)
        at.change = found.change
        at.step = max(at.step, found.step)
        samples = self.plan.samples * (found.epoch - self.judged)
        at.samples += samples
        at.fit_seconds += seconds
        self.judged = found.epoch
        taken = samples, seconds
        if seconds < TOGETHER * self._last[1]:  # it ended with the one before, whose workers had done most of it by then
            taken = samples + self._last[0], seconds + self._last[1]
        self._last = taken
        tally = Tally(classes=self.job.data.classes is not None)
        tally.load({"seen": 0, "loss": 0.0, "hits": 0} | found.train)
        self.first = found.team
        self.history.epoch(
            epoch=found.epoch,
            epochs=self.job.recipe.epochs,
            step=at.step,
            train=tally.metrics(),
            test=at.metrics,
            seconds=seconds,
            samples_per_second=taken[0] / max(taken[1], 1e-9),
            change=at.change,
            team=self.team,
            **({"by": found.by} if found.by else {}),
        )

    def note(self, why: str) -> None:
        assert self.history is not None
        self.notes.append(why)
        self.history.tell("note", why=why)

    def failed(self, error: LaminarError) -> None:
        assert self.history is not None
        at = self.at
        self.history.tell("failed", step=at.step, epoch=at.epoch, lr=self._rate, why=error.message)

    def finite(self, found: Judgement) -> str:
        """What is wrong with what the epoch led to; empty: nothing."""
        if found.finite:
            return f"'{found.finite}' is no longer finite"
        if not all(map(math.isfinite, found.metrics.values())):
            return f"the test split gives {found.metrics}"
        return ""
