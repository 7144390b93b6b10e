"""Together: a team's part of the loop. Which rows this member takes, the step that all make at once, and what there is to tell of them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any, final

from torch import Tensor

from laminar.core.clock import Clock
from laminar.train.evaluate import BATCH, SUMS, figures, run_through, sums
from laminar.train.shares import EVERY, WARM, Shares
from laminar.train.snapshot import Run, buffers_of
from laminar.train.strategies import Sync, strategy
from laminar.train.team import Learner, Team, TeamOptimizer, WholeModel, own_rows, rows_of_member

Learn = Callable[[list[Tensor], Tensor, float], tuple[Tensor | None, float]]


@final
class Together:
    def __init__(self, run: Run, team: Team, optimizer: TeamOptimizer, clock: Clock) -> None:
        self._run, self._team, self._optimizer, self._clock = run, team, optimizer, clock
        self._size, self._samples = run.job.recipe.batch, len(run.job.data.train)
        self._heard = (0, 0, 0.0)  # steps, samples and seconds of fitting when listeners last heard of them
        self.shares: Shares | None = None  # None: equal ones
        self._steps, self._busy, self._measured = 0, 0.0, 0  # of this process; seconds since the last look at speeds; samples before it
        self._waited: float | None = None  # seconds until the step under way began; None: none is, or nobody is waited for within one
        self._rested, self._begun = 0, 0  # steps that members rested for in this epoch, all together; steps before it
        self._fit = self._now()  # when this epoch's fitting began, and how long this member had waited by then
        self._fitted = self._fit  # and when it ended

    def begin(self) -> None:
        """The run is where it shall go on from."""
        at, recipe, team = self._run.progress, self._run.job.recipe, self._team
        self._heard = at.step, at.samples, at.fit_seconds
        how = strategy(recipe.strategy)
        if isinstance(how, Sync) and how.shares == "measured" and team.size > 1:
            self.shares = Shares(team.rank, team.size, recipe.batch, at.shares)

    def rows(self, count: int) -> slice[int, int]:
        """Those that this member takes of a batch."""
        taking = self._team.taking
        if not taking:
            return slice(0, 0)
        first = self._rows_of(taking[0], count)
        return first if len(taking) == 1 else slice(first.start, self._rows_of(taking[-1], count).stop)

    def _rows_of(self, part: int, count: int) -> slice[int, int]:
        size = self._team.part[1]
        if isinstance(self._team, WholeModel) and (self.shares is None or count < min(self._size, 2 * size)):
            return rows_of_member(count, part, size, self._size)
        return own_rows(count, part, size) if self.shares is None else self.shares.own(count)

    def stretch(self) -> int | None:
        """The batch of the epoch up to which rows stay as they are, at least. None: to its end."""
        at, recipe = self._run.progress, self._run.job.recipe
        steady = self._team.steady if self.shares is None else EVERY - at.step % EVERY
        return None if steady is None else min(self._run.job.batches_per_epoch, at.batch + steady * recipe.accumulate)

    def batch(self, *, last: bool) -> int:
        """A batch is about to be trained on, the `last` of a step or not. Rows that all members have of it together."""
        if self._waited is None and self._team.pooled is not None:
            self._waited = self._team.waited
        self._team.before_backward(last=last)
        rows = min(self._size, self._samples - self._run.progress.batch * self._size)
        self._team.expect(rows)
        if (pooled := self._team.pooled) is not None:
            pooled.among(self._having_rows(rows))
        return rows

    def _having_rows(self, count: int) -> list[int]:
        """Members that have some of so many."""
        return [rank for rank in range(self._team.size) if (rows := self._rows_of(rank, count)).start < rows.stop]

    def learning(self, learner: Learner) -> Learn:
        """How this member learns from its rows of a batch, of an epoch that begins or goes on now."""
        self._fit, self._rested, self._begun = self._now(), 0, self._run.progress.step
        return lambda inputs, targets, share: self._team.learn(learner, inputs, targets, share)

    def step(self, lr: float, loss: float, *, wish: int, since: float) -> tuple[float, int]:
        """A step of the whole team, which this member has been computing since: the loss, and what member 0 wishes."""
        at, job = self._run.progress, self._run.job
        busy = None if self.shares is None else self._spent(since)
        self._waited = None
        epoch = at.epoch + (at.batch - 1) / job.batches_per_epoch
        self._rested += self._team.resting
        made = self._optimizer.step(lr, loss=loss, epoch=epoch, wish=wish, busy=busy)
        if self.shares is not None and made.busy:
            self.shares.hear(at.samples - self._measured, made.busy)
            at.shares = list(self.shares.rows)
            self._busy, self._measured = 0.0, at.samples
        at.sent += made.sent
        at.epoch_sent += made.sent
        at.epoch_dense += self._optimizer.dense_bytes or 0
        return made.loss, made.wish

    def _spent(self, since: float) -> float | None:
        """Seconds of own computation since all last heard of them, after each EVERY-th step; else nothing is told. What a batch norm waits
        for others is none of it."""
        at = self._run.progress
        self._steps += 1
        if self._steps > WARM:
            waited = 0.0 if self._waited is None else self._team.waited - self._waited
            self._busy += max(0.0, self._clock.monotonic() - since - waited)
        else:
            self._measured = at.samples
        return self._busy if not (at.step + 1) % EVERY else None

    def tested(self, objective: str) -> dict[str, float]:
        """Figures on the test split, which is shared out."""
        job, team = self._run.job, self._team
        route, y, task = job.test_route, job.data.test.y, job.data.task
        added = [0.0] * SUMS
        pooled = team.pooled if team.pooled is not None and team.pooled.judges else None
        # All go through the model at once, so that members may have parts of it; where rows depend on others, as many as in one process.
        chunk = BATCH if pooled is not None else BATCH * team.part[1]
        for begin in range(0, len(y), chunk):
            count = min(chunk, len(y) - begin)
            team.expect(count)
            mine = self._rows_of(team.part[0], count)  # also whoever rests between steps tests
            rows = slice(begin + mine.start, begin + mine.stop)
            if not team.counts:
                run_through(route.module, route.inputs, rows, batch=chunk, dtype=job.recipe.dtype)
                continue
            if pooled is not None:
                pooled.among(self._having_rows(count))
            with contextlib.nullcontext() if pooled is None or mine.start == mine.stop else pooled.together():
                own = sums(route.module, route.inputs, y, rows, task=task, dtype=job.recipe.dtype, loss=objective, batch=chunk)
            added = [a + b for a, b in zip(added, own, strict=True)]
        return figures(team.sum(added), y, task=task)

    def end_epoch(self) -> None:
        """Its fitting is behind: its figures become those of all, and so do running statistics, before anybody tests."""
        self._fitted = self._now()
        tally = self._run.tally
        self._team.share_buffers(buffers_of(self._run.job))
        tally.load(dict(zip(tally.state(), self._team.sum(list(tally.state().values())), strict=True)))

    # What there is to tell

    @property
    def _sends(self) -> bool:
        """Do gradients go from process to process? In shared memory without compression they are just there."""
        return self._optimizer.dense_bytes is not None

    def pace(self) -> dict[str, Any]:
        """Since listeners last heard of it."""
        at, (steps, samples, seconds) = self._run.progress, self._heard
        self._heard = at.step, at.samples, at.fit_seconds
        spent = max(at.fit_seconds - seconds, 1e-9)
        return {
            "workers": self._team.size,
            "steps_per_second": (at.step - steps) / spent,
            "samples_per_second": (at.samples - samples) / spent,
            "bytes": at.sent if self._sends else None,
            "staleness": None,
            **({"resting": resting} if (resting := self._team.resting) else {}),
            **self._told_shares(),
        }

    def figures(self) -> dict[str, Any]:
        """Of an epoch. All members ask at once."""
        at = self._run.progress
        sent = {"bytes": at.epoch_sent, "dense_bytes": at.epoch_dense} if self._sends else {"bytes": None, "dense_bytes": None}
        resting = round(self._rested / max(1, at.step - self._begun), 4)
        return {"workers": self._team.size, **sent, **self._told_shares(), "resting": resting, "busy": self._utilisation()}

    def _utilisation(self) -> list[float]:
        """What part of the epoch's fitting each member was computing rather than waiting, by rank; member 0 gets to know."""
        seconds, waited = (after - before for after, before in zip(self._fitted, self._fit, strict=True))
        own = min(1.0, max(0.0, 1 - waited / seconds)) if seconds > 0 else 1.0
        return [round(struct.unpack("<d", one)[0], 4) for one in self._team.gather(struct.pack("<d", own))]

    def _now(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._team.waited

    def _told_shares(self) -> dict[str, Any]:
        return {} if self.shares is None else {"shares": self.shares.fractions}
