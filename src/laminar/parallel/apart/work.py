"""Work: which batches are done by whom. Pure: names and times in, batches out, and all of it is JSON.

Units     downpour: whoever asks gets the next few batches; those of a worker that is lost are given to another
Rounds    quorum: each worker a part of the batch; averaging: each worker some batches of its own
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

from laminar.train.shares import Speed, apportion, least_of, rebalanced

AHEAD: Final = 1  # epochs of downpour that may wait for their test: a target that is reached is not to be found out long after


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Batches `first` to `last` of an epoch, or these rows of a batch. `last` None: the `part[0]`-th of `part[1]` parts of all epochs."""

    number: int
    epoch: int = 0
    first: int = 0
    last: int | None = None
    rows: tuple[int, int] | None = None
    round: tuple[int, int] = (0, 0)  # averaging: the batches of all workers in this round
    part: tuple[int, int] = (0, 1)


class Given(msgspec.Struct):
    task: Task
    worker: str
    since: float


class Units(msgspec.Struct, kw_only=True):
    """The batches of all epochs, in order, `size` at a time. Each is done at least once; the first `alone` batches by one worker.

    The number of a unit says which batches it began with, also after a restart from an older state.
    """

    batches: int  # in an epoch
    epochs: int
    size: int
    alone: int = 0
    next: int = 0  # the first batch, counted over all epochs, that was never given
    back: list[Task] = []  # given, and lost with its worker; what is left of them
    given: dict[int, Given] = {}
    left: dict[int, int] = {}  # units of each epoch that are not done, for epochs that have begun
    numbers: int = 0
    done: int = 0  # batches
    complete: int = 0  # epochs, without a gap
    first: str = ""  # who works alone in the beginning

    @property
    def total(self) -> int:
        return self.batches * self.epochs

    @property
    def finished(self) -> bool:
        return self.next >= self.total and not self.given and not self.back

    def give(self, worker: str, now: float) -> Task | None:
        """None: there is nothing to do for it now."""
        if self.done < self.alone:
            self.first = self.first or worker
            if worker != self.first:
                return None
        if self.back:
            task = self.back.pop(0)
        elif self.next < self.total:
            task = self._new()
        else:
            return None
        self.given[task.number] = Given(task, worker, now)
        return task

    def _new(self) -> Task:
        epoch, first = divmod(self.next, self.batches)
        last = min(first + self.size, self.batches)
        if not first:
            self.left[epoch] = -(-self.batches // self.size)
        self.next += last - first
        self.numbers += 1
        return Task(number=self.numbers - 1, epoch=epoch, first=first, last=last)

    def advance(self, number: int, worker: str, batches: int) -> None:
        """So many batches of its unit are behind the worker: should it be lost, only the rest is given to another."""
        given = self.given.get(number)
        if given is not None and given.worker == worker:
            task = given.task
            assert task.last is not None
            first = min(task.first + batches, task.last)
            self.done += first - task.first
            given.task = msgspec.structs.replace(task, first=first)

    def finish(self, number: int) -> list[int]:
        """A unit is done. The epochs that are complete with it, in order. A unit that was done before counts no more."""
        given = self.given.pop(number, None)
        task = given.task if given is not None else next((task for task in self.back if task.number == number), None)
        if task is None:
            return []
        if given is None:  # its worker was taken for lost, and had done it
            self.back.remove(task)
        return self._behind(task)

    def lose(self, worker: str) -> list[int]:
        """It is gone. As `reclaim`, and nobody waits for it in the beginning."""
        if self.first == worker:
            self.first = ""
        return self.reclaim(worker)

    def reclaim(self, worker: str) -> list[int]:
        """It is at none of its units any more, so they go to others. The epochs that are complete: of a unit there may be nothing left."""
        found = []
        for number, given in list(self.given.items()):
            if given.worker == worker:
                del self.given[number]
                if given.task.first == given.task.last:
                    found += self._behind(given.task)
                else:
                    self.back.append(given.task)
        self.back.sort(key=lambda task: task.number)
        return found

    def _behind(self, task: Task) -> list[int]:
        assert task.last is not None
        self.done += task.last - task.first
        self.left[task.epoch] -= 1
        if not self.left[task.epoch]:
            del self.left[task.epoch]
        before = self.complete
        while self.complete not in self.left and self.next >= (self.complete + 1) * self.batches:
            self.complete += 1
        return list(range(before, self.complete))


class Rounds(msgspec.Struct, kw_only=True):
    """What each worker does in a round. `every` None: parts of one batch; a number: so many batches each; 0: its part of everything.

    Parts are equal; or, where speeds are kept, as large as their workers are fast, and then `every` is a mean.
    """

    batches: int  # in an epoch
    epochs: int
    batch: int  # samples
    samples: int  # in an epoch
    every: int | None = None
    position: int = 0  # batches behind, over all epochs; the next round begins here
    ahead: int = 0  # batches of the open round
    speeds: dict[str, Speed] | None = None  # of each worker: rows a second, or batches. None: all have equal shares
    shares: dict[str, int] = {}  # measured: of a batch, or of the batches of a round, as they were dealt last

    @property
    def finished(self) -> bool:
        return self.position >= self.batches * self.epochs

    def heard(self, worker: str, *, samples: float, batches: int, seconds: float) -> None:
        """A worker has computed for so long."""
        if self.speeds is not None:
            self.speeds.setdefault(worker, Speed()).observe(samples if self.every is None else batches, seconds)

    def open(self, number: int, workers: Sequence[str]) -> dict[str, Task]:
        """The tasks of a round, by worker. Where there is not enough to share, some have none."""
        epoch, first = divmod(self.position, self.batches)
        count = len(workers)
        if self.every is None:
            self.ahead, rows = 1, min(self.batch, self.samples - first * self.batch)
            if rows < min(self.batch, 2 * count):  # of a short batch fewer take two rows or more each: of one there are no batch statistics
                taking = max(1, rows // 2)
                parts = {worker: (rows * i // taking, rows * (i + 1) // taking) for i, worker in enumerate(workers[:taking])}
            else:
                parts = self._cut(workers, self.batch, rows, least_of(rows, count))
            return {
                worker: Task(number=number, epoch=epoch, first=first, last=first + 1, rows=(a, b))
                for worker, (a, b) in parts.items()
                if a < b
            }
        if not self.every:
            self.ahead = self.batches * self.epochs
            return {worker: Task(number=number, part=(i, count)) for i, worker in enumerate(workers)}
        self.ahead = min(self.every * count, self.batches - first)
        return {
            worker: Task(number=number, epoch=epoch, first=first + a, last=first + b, round=(first, first + self.ahead))
            for worker, (a, b) in self._cut(workers, self.every * count, self.ahead, min(1, self.ahead // count)).items()
            if a < b
        }

    def told_shares(self) -> dict[str, dict[str, float]]:
        """Where they are measured: the share of each worker, as it was dealt last."""
        whole = sum(self.shares.values())
        return {"shares": {worker: round(share / whole, 4) for worker, share in self.shares.items()}} if whole else {}

    def _cut(self, workers: Sequence[str], whole: int, now: int, least: int) -> dict[str, tuple[int, int]]:
        """`now` things, of which there are usually `whole`, for each worker from where to where."""
        count = len(workers)
        bounds = [now * i // count for i in range(count + 1)]
        if self.speeds is not None:
            known = [self.speeds[worker].value if worker in self.speeds else 0.0 for worker in workers]
            before = [self.shares[worker] for worker in workers] if set(workers) == set(self.shares) else apportion(whole, [1] * count)
            shares = rebalanced(before, known, min(1, whole // count))
            self.shares = dict(zip(workers, shares, strict=True))
            bounds = list(itertools.accumulate(apportion(now, shares, least), initial=0))
        return {worker: (a, b) for worker, a, b in zip(workers, bounds, bounds[1:], strict=False)}

    def close(self) -> int | None:
        """The round made its step. The epoch that is complete with it; None: none is."""
        self.position += self.ahead
        self.ahead = 0
        epoch, rest = divmod(self.position, self.batches)
        return epoch - 1 if not rest else None
