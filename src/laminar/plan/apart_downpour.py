"""Downpour on a virtual clock: what parallel/apart/worker_downpour.py, line.py and server.py do, without the numbers. No torch here.

A worker has a line to every server, with one exchange under way at most. What came is taken before a batch; a push is told the version
that was taken then, so with overlap a gradient of a worker that is alone is one version old. At the end of a unit everything is waited for;
a server that is the only one gives the next with its answer, several are asked. The chief tests epochs meanwhile; where it does not keep
up, workers wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

from laminar.parallel.aggregate.own import Own
from laminar.parallel.apart.work import AHEAD
from laminar.plan.apart_scene import Scene, Stage, Tally

UNITS: Final = 8  # of an epoch for each worker, as in parallel/apart/prepare.py


@dataclass(frozen=True)
class How:
    n_push: int
    n_fetch: int
    shards: int
    overlap: bool
    max_staleness: int | None
    unit: int | None  # batches that a worker is given at once; None: all
    epoch: int | None = None  # batches, after which the chief tests; None: it does not
    test: float = 0.0  # seconds of one core that this takes


def unit_of(batches: int, workers: int, n_push: int) -> int:
    """Batches that a worker is given at once, of so many in an epoch."""
    return max(1, batches // (UNITS * workers) // n_push) * n_push


@dataclass
class _Worker:
    base: list[int]  # by server: the version of what it has
    inbox: list[int | None]  # by server: of what has come and was not taken
    open: list[bool]  # lines with an exchange under way
    own: list[Own]  # by server
    pending: int = 0
    batches: int = 0
    left: int = 0  # of its unit
    waits: Literal["", "line", "all"] = ""
    line: int = 0  # that it waits for, or that is next
    push: bool = False
    fetch: bool = False


@final
class DownpourRun:
    def __init__(self, scene: Scene, how: How, seed: int, *, settle: int, batches: int) -> None:
        """Counts `batches` batches of all workers, after the first `settle`."""
        self.scene, self.how, self.stage = scene, how, Stage(scene, how.shards, seed)
        self.version = [0] * how.shards
        shards = range(how.shards)
        self.workers = [
            _Worker([0 for _ in shards], [None for _ in shards], [False for _ in shards], [Own() for _ in shards]) for _ in scene.workers
        ]
        self.done, self._settle, self._end = 0, settle, settle + batches
        self._before: float | None = None  # batches when counting began
        self._epochs = self._untested = 0  # that are done; of these, whose tests are not
        self._testing = 0  # threads of the test under way
        self._held: list[int] = []  # workers that get nothing to do before an epoch is tested

    def run(self) -> Tally:
        for worker in range(len(self.workers)):
            self._ask(worker)
        self.stage.clock.run()
        return self.stage.tally

    def _count(self) -> None:
        stage = self.stage
        if self._before is None and self.done >= self._settle:
            stage.count_from_here()
            self._before = self.done + stage.under_way()
        elif self._before is not None and self.done >= self._end:
            stage.tally.batches = self.done + stage.under_way() - self._before
            stage.count_until_here()

    # Of a worker

    def _ask(self, worker: int) -> None:
        """For a unit, of the first server."""
        me = self.workers[worker]
        if self.how.unit is None:
            me.left = -1
            self._batch(worker)
            return
        me.left = self.how.unit
        self.stage.send(worker, self.scene.word_seconds, 0, self._asked, worker)

    def _asked(self, worker: int) -> None:
        self.stage.servers[0].do(self.scene.word_seconds, self._given, worker)

    def _given(self, worker: int) -> None:
        if self._untested > AHEAD:
            self._held.append(worker)
            return
        self.stage.reply(worker, self.scene.word_seconds, 0, self._batch, worker)

    def _batch(self, worker: int) -> None:
        """The next batch; or all up to the last before it has something to say, of which nobody else hears anything."""
        me, how = self.workers[worker], self.how
        self._take(me)
        silent = min(how.n_push - me.pending, how.n_fetch - me.batches % how.n_fetch, me.left if me.left > 0 else how.n_push) - 1
        if silent:
            self.stage.compute(worker, silent, self._went_on)
        else:
            self.stage.compute(worker, 1, self._computed)

    def _went_on(self, worker: int) -> None:
        self._done(worker)
        if not self.stage.clock.over:
            self._take(self.workers[worker])
            self.stage.compute(worker, 1, self._computed)

    def _done(self, worker: int) -> None:
        me, batches = self.workers[worker], self.stage.computed(worker)
        self.done += batches
        me.batches += batches
        me.pending += batches
        me.left -= batches
        self._test()
        self._count()

    def _take(self, me: _Worker) -> None:
        for shard, version in enumerate(me.inbox):
            if version is not None:
                me.base[shard], me.inbox[shard] = version, None

    def _computed(self, worker: int) -> None:
        me, how = self.workers[worker], self.how
        self._done(worker)
        if self.stage.clock.over:
            return
        me.fetch = me.batches % how.n_fetch == 0
        me.push = me.pending >= how.n_push or me.left == 0
        if me.push:
            me.pending = 0
        me.line = 0 if me.push or me.fetch else how.shards
        self._speak(worker)

    def _speak(self, worker: int) -> None:
        """To every server in turn; each line must be free before."""
        me = self.workers[worker]
        while me.line < self.how.shards:
            if me.open[me.line]:
                me.waits = "line"
                return
            self._exchange(worker, me.line)
            me.line += 1
        if (not self.how.overlap or me.left == 0) and any(me.open):
            me.waits = "all"
            return
        me.waits = ""
        self._on(worker)

    def _on(self, worker: int) -> None:
        me = self.workers[worker]
        if me.left == 0 and self.how.shards == 1 and self.how.unit is not None and self._untested <= AHEAD:
            me.left = self.how.unit
        if me.left == 0:
            self._ask(worker)
        else:
            self._batch(worker)

    # Of the chief, which tests an epoch while workers go on with the next, on the cores of the first node

    def _test(self) -> None:
        how = self.how
        if how.epoch is None or not how.test:
            return
        while self._epochs < self.done // how.epoch:
            self._epochs += 1
            self._untested += 1
        if self._untested and not self._testing:
            self._testing = len(self.stage.chief)
            for thread in self.stage.chief:
                thread.do(how.test / self._testing, self._tested, None)

    def _tested(self, _: None) -> None:
        self._testing -= 1
        if self._testing:
            return
        self._untested -= 1
        held, self._held = self._held, []
        for worker in held:
            self._given(worker)
        self._test()

    # An exchange with a server

    def _exchange(self, worker: int, shard: int) -> None:
        me, scene = self.workers[worker], self.scene
        me.open[shard] = True
        said = (worker, shard, me.push, me.fetch, me.base[shard])
        seconds, size = (scene.push_seconds, scene.push) if me.push else (scene.word_seconds, 0)
        self.stage.send(worker, seconds, size, self._arrived, said)

    def _arrived(self, said: tuple[int, int, bool, bool, int]) -> None:
        _, shard, push, fetch, _ = said
        scene = self.scene
        seconds = (scene.push_seconds if push else scene.word_seconds) / 2 + (scene.apply if push else 0.0)
        seconds += (scene.parameters_seconds if fetch else scene.word_seconds) / 2
        self.stage.servers[shard].do(seconds, self._served, said)

    def _served(self, said: tuple[int, int, bool, bool, int]) -> None:
        worker, shard, push, fetch, base = said
        scene, tally, limit = self.scene, self.stage.tally, self.how.max_staleness
        if push:
            own = self.workers[worker].own[shard]
            age = self.version[shard] - base - own.since(base, "ahead")
            tally.answers += not shard
            if limit is not None and age > limit:
                tally.dropped += not shard
                fetch = True  # what it was computed on is too old: it is to have something newer
            else:
                self.version[shard] += 1
                own.made(self.version[shard])
                tally.staleness[age] += not shard
        seconds, size = (scene.parameters_seconds, scene.parameters) if fetch else (scene.word_seconds, 0)
        self.stage.reply(worker, seconds, size, self._replied, (worker, shard, self.version[shard] if fetch else None))

    def _replied(self, said: tuple[int, int, int | None]) -> None:
        worker, shard, version = said
        me = self.workers[worker]
        me.open[shard] = False
        if version is not None:
            me.inbox[shard] = version
        if me.waits == "line" and me.line == shard:
            self._speak(worker)
        elif me.waits == "all" and not any(me.open):
            me.waits = ""
            self._on(worker)
