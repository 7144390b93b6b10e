"""Workers are killed and join all the time, servers are killed too; what a server has acknowledged is in the parameters once, at the end.

Real servers and real lines; every update is a place of its own in the parameters, so each can be looked up. The short form runs in CI;
the long one takes LAMINAR_SOAK_MINUTES, 30 if it is not set, and runs with `make test-slow`.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
import torch

from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.messages import Chief
from laminar.parallel.apart.shard import begin
from laminar.parallel.crew import Crew, Member
from laminar.parallel.wire.link import Link
from laminar.train.compression import TopK
from laminar.train.recipe import Recipe
from laminar.train.strategies import Downpour
from tests.multi.parallel.downpour_pusher import PLACES

pytestmark = pytest.mark.usefixtures("warm_workers")

SHARDS = 2
PUSHER, SERVER = "tests.multi.parallel.downpour_pusher", "laminar.parallel.apart.server_process"


def make_plan(workers: int) -> plans.Plan:
    how = Downpour(workers=2, shards=SHARDS, ageing=0.0, compress=TopK(sparsity=0.999999, sample=1.0, values="float32"))
    recipe = Recipe(epochs=1_000_000, batch=1, optimizer="sgd", lr=1.0, strategy=how)
    places = workers * PLACES
    return plans.Plan(recipe=recipe, shards=[{f"t{i}": (places,)} for i in range(SHARDS)], buffers=0, batches=1_000_000, samples=1_000_000)


class Soak:
    """The crew of the test, and what is done to it."""

    def __init__(self, folder: Path, crew: Crew, workers: int, pause: float) -> None:
        self.crew, self.folder, self.plan = crew, folder, make_plan(workers)
        self.random = random.Random(0)
        self.brief = {
            "plan": plans.to_json(self.plan),
            "token": "soak",
            "addresses": [f"unix:{folder / str(shard)}" for shard in range(SHARDS)],
            "folder": str(folder),
            "pause": pause,
        }
        self.joined = 0
        for shard in range(SHARDS):
            begin(folder, self.plan, shard, {f"t{shard}": torch.zeros(workers * PLACES)})
            self.start_server(shard, again=False)

    def start_server(self, shard: int, *, again: bool) -> None:
        self.crew.start(SERVER, "server", shard, {**self.brief, "address": self.brief["addresses"][shard], "again": again})

    def join(self) -> None:
        self.crew.start(PUSHER, "worker", self.joined, self.brief)
        self.joined += 1

    def alive(self, role: str) -> list[Member]:
        return [member for member in self.crew.alive if member.role == role]

    def kill(self, role: str) -> None:
        self.random.choice(self.alive(role)).kill()

    def listen(self, seconds: float) -> None:
        """A server that died is started again, as the chief does."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for said in self.crew.hear(left):
                if said.event is None and said.member.role == "server":
                    self.start_server(said.member.rank, again=True)
                assert said.member.error is None, said.member.error

    def acknowledged(self, worker: int, shard: int) -> int:
        """The highest number that a worker has written down; -1: none."""
        path = self.folder / f"acknowledged-{worker}"
        lines = path.read_text().splitlines() if path.exists() else []
        return max((int(line.split()[1]) for line in lines if len(line.split()) == 2 and line.split()[0] == str(shard)), default=-1)

    def parameters(self, shard: int) -> torch.Tensor:
        link = Link(self.brief["addresses"][shard], "soak")
        _, data = link.ask(Chief())
        found = torch.frombuffer(bytearray(data), dtype=torch.float32)
        link.close()
        return found

    def check(self) -> int:
        """Every acknowledged update is there once, and none twice; how many were acknowledged."""
        total = 0
        for shard in range(SHARDS):
            found = self.parameters(shard)
            assert set(found.unique().tolist()) <= {0.0, 1.0}, "an update was applied twice"
            for worker in range(self.joined):
                last = self.acknowledged(worker, shard)
                mine = found[worker * PLACES : worker * PLACES + last + 1]
                assert bool((mine == 1.0).all()), (
                    f"worker {worker}, server {shard}: {int((mine == 0).sum())} of {last + 1} acknowledged are lost"
                )
                total += last + 1
        return total


def test_no_acknowledged_update_is_lost_when_workers_and_servers_are_killed(tmp_path: Path) -> None:
    with Crew() as crew:
        soak = Soak(tmp_path, crew, workers=5, pause=0.0)
        soak.join()
        soak.join()
        while soak.acknowledged(0, 0) < 0 or soak.acknowledged(1, 1) < 0:
            soak.listen(0.05)
        soak.kill("server")
        soak.kill("worker")
        soak.join()
        before = soak.acknowledged(2, 0)
        while soak.acknowledged(2, 0) <= before + 100:
            soak.listen(0.05)
        soak.kill("server")
        soak.listen(0.05)
        while len(soak.alive("server")) < SHARDS:
            soak.listen(0.05)
        while soak.alive("worker") and any(soak.acknowledged(m.rank, 0) < 400 for m in soak.alive("worker")):
            soak.listen(0.05)
        for member in soak.alive("worker"):
            member.kill()
        soak.listen(0.2)
        assert soak.check() > 800


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_thirty_minutes_of_joins_and_deaths(tmp_path: Path) -> None:
    minutes = float(os.environ.get("LAMINAR_SOAK_MINUTES", "30"))
    every = 20.0
    with Crew() as crew:
        soak = Soak(tmp_path, crew, workers=int(minutes * 60 / every) + 6, pause=0.03)
        for _ in range(3):
            soak.join()
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            soak.listen(every)
            soak.kill("worker")
            soak.join()
            if soak.joined % 3 == 0:
                soak.kill("server")
        soak.listen(5.0)
        for member in soak.alive("worker"):
            member.kill()
        soak.listen(1.0)
        print(f"{soak.check():,} acknowledged updates of {soak.joined} workers on {SHARDS} servers")
