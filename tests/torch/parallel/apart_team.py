"""Servers and workers of one training as threads of this process: real sockets, real steps, and no time lost on starting processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laminar.core.clock import SYSTEM, FakeClock
from laminar.data.dataset import Dataset, Split
from laminar.parallel.apart import keep
from laminar.parallel.apart.calls import Server as Call
from laminar.parallel.apart.decisions import INTERRUPTED
from laminar.parallel.apart.judge import Judge
from laminar.parallel.apart.line import Line
from laminar.parallel.apart.messages import Chief
from laminar.parallel.apart.own_state import Attempt, OwnState
from laminar.parallel.apart.prepare import make_plan
from laminar.parallel.apart.report import Report
from laminar.parallel.apart.server import Server
from laminar.parallel.apart.shard import begin
from laminar.parallel.apart.trainer import Trainer
from laminar.parallel.apart.worker_downpour import DownpourWorker
from laminar.parallel.apart.worker_rounds import RoundsWorker
from laminar.parallel.wire.hub import Hub
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.snapshot import trainable
from laminar.train.strategies import Downpour, strategy

TOKEN = "token"


def data(train: int = 96, test: int = 48) -> Dataset:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((train + test, 6)).astype(np.float32)
    y = (x @ rng.standard_normal((6, 3))).argmax(1).astype(np.int64)
    return Dataset(Split(x[:train], y[:train]), Split(x[train:], y[train:]), ("a", "b", "c"))


def net() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def job(folder: Path, *, model: Callable[[], nn.Module] = net, dataset: Dataset | None = None, **recipe: Any) -> Job:
    made = Recipe(**{"epochs": 3, "batch": 8, "optimizer": "sgd", "lr": 0.1, **recipe})
    return Job(name="layer", model=model(), data=dataset or data(), recipe=made, frozen=None, folder=folder, tensorboard=False)


@dataclass
class Outcome:
    job: Job
    told: list[dict[str, Any]] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    pushes: int = 0  # of all workers
    applied: list[int] = field(default_factory=list)  # pushes, by each server

    @property
    def losses(self) -> list[float]:
        return [row[1] for told in self.told if "steps" in told for row in told["steps"]]

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.job.model.state_dict().items()}

    @property
    def metrics(self) -> dict[str, float]:
        return self._metrics

    _metrics: dict[str, float] = field(default_factory=dict)


def train_apart(
    folder: Path,
    make: Callable[[], Job],
    *,
    attempt: int = 1,
    stop_after: int | None = None,
    crash_after: tuple[int, ...] = (),
    row_seconds: Callable[[str], float] | None = None,
    near: bool = True,
    crash_last: bool = False,
) -> Outcome:
    """Train until it is over. Some moments are counted by how often workers ask whether they shall leave: `stop_after`, when they shall,
    as after Ctrl-C; `crash_after`, when every server dies as by kill -9, and is started again from its snapshot.
    `row_seconds`: what a row takes each worker, by a clock of its own. `near`: messages lie in shared memory, as on one machine.
    `crash_last`: every server dies when the workers have left."""
    first = make()
    outcome = Outcome(first)
    how: Any = strategy(first.recipe.strategy)
    plan = make_plan(first, how)
    folder.mkdir(parents=True, exist_ok=True)
    shards = range(len(plan.shards))
    for shard in shards:
        if not keep.file_of(folder, shard).exists():
            begin(folder, plan, shard, trainable(first.model))
    hubs = [Hub(f"unix:{folder}/s{shard}", TOKEN, payload_limit=1 << 20) for shard in shards]
    reports = [Report(outcome.told.append, hub, SYSTEM, first=not shard) for shard, hub in enumerate(hubs)]
    servers = [Server(plan, shard, folder, hubs[shard], reports[shard], SYSTEM) for shard in shards]
    judge = Judge(first, plan, [hub.address for hub in hubs], TOKEN, 20.0)
    over = threading.Event()
    crashes = [threading.Event() for _ in shards]
    standing = [threading.Event() for _ in shards]  # no crash is on its way
    for stands in standing:
        stands.set()
    errors: list[BaseException] = []
    asked = threading.Lock()
    count = 0

    def crash() -> None:
        for stands, dies in zip(standing, crashes, strict=True):
            stands.clear()
            dies.set()

    def leave() -> bool:
        nonlocal count
        with asked:
            count += 1
            if count in crash_after:
                crash()
            if stop_after is not None and count == stop_after:
                for shard in shards:
                    judge.say(shard, Chief(stop=INTERRUPTED))
        return stop_after is not None and count >= stop_after

    def serve(shard: int) -> None:
        server = servers[shard]
        try:
            while not over.is_set():
                server.turn()
                server.decisions.untested.clear()  # the chief has tested them
                if crashes[shard].is_set():
                    crashes[shard].clear()
                    hubs[shard].close()
                    hubs[shard] = Hub(hubs[shard].address, TOKEN, payload_limit=1 << 20)
                    report = Report(outcome.told.append, hubs[shard], SYSTEM, first=not shard)
                    server = servers[shard] = Server(plan, shard, folder, hubs[shard], report, SYSTEM, again=True)
                    with asked:
                        if not crashes[shard].is_set():
                            standing[shard].set()
        except BaseException as error:
            errors.append(error)

    def work(name: str) -> None:
        try:
            with contextlib.ExitStack() as held:
                trainer, clock = Trainer(make(), plan), SYSTEM
                if row_seconds is not None:
                    clock = own_clock = FakeClock()
                    trainer.job.model.register_forward_pre_hook(lambda _, args: own_clock.advance(len(args[0]) * row_seconds(name)))
                calls = [Call(hubs[i].address, TOKEN, name, 20.0, room=plan.room(i) if near else None) for i in shards]
                for call in calls:
                    held.callback(call.close)
                    call.call()
                    assert call.near == near
                own = OwnState(folder, name, Attempt(training="t", number=attempt))
                if isinstance(how, Downpour):
                    lines = [Line(call, layout.numel) for call, layout in zip(calls, trainer.layouts, strict=True)]
                    for line in lines:
                        held.callback(line.close)
                    worker: DownpourWorker | RoundsWorker = DownpourWorker(trainer, lines, own, clock, leave)
                else:
                    worker = RoundsWorker(trainer, calls[0], own, clock, leave)
                outcome.why.append(worker.run())
                outcome.pushes += worker.pushes
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=serve, args=[shard]) for shard in shards]
    workers = [threading.Thread(target=work, args=[str(i)]) for i in range(how.workers)]
    for thread in [*threads, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    if crash_last:
        with asked:
            crash()
    if not errors:
        for shard in shards:  # a worker may be done before the last crash is; the chief of a build asks again
            assert standing[shard].wait(20.0)
            judge.say(shard, Chief(keep=True))
        judge.fetch()
        outcome._metrics = judge.metrics()
    over.set()
    for thread in threads:
        thread.join()
    outcome.applied = [server.decisions.aggregator.statistics.applied for server in servers]
    judge.close()
    for hub in hubs:
        hub.close()
    if errors:
        raise errors[0]
    return outcome
