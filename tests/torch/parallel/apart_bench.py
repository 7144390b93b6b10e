"""A server on a real socket, driven by the test: time stands still, nobody waits, and what each side says is looked at."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

import torch

from laminar.core.clock import FakeClock
from laminar.parallel.apart.messages import Chief, Hello, Parameters, Push, Reply, Round, Unit, Welcome, reply
from laminar.parallel.apart.plan import Plan
from laminar.parallel.apart.report import Report
from laminar.parallel.apart.server import Server
from laminar.parallel.apart.shard import begin
from laminar.parallel.compress.packet import Packet
from laminar.parallel.wire.frames import Gone
from laminar.parallel.wire.hub import Hub
from laminar.parallel.wire.link import Link
from laminar.train.recipe import Recipe
from laminar.train.strategies import AnyStrategy

TOKEN = "token"
SIZE = 4  # numbers in the only tensor


def plan(how: AnyStrategy, *, batches: int = 4, epochs: int = 2, samples: int | None = None, batch: int = 8, **more: Any) -> Plan:
    shapes = more.pop("shapes", {"w": (SIZE,)})
    unit, buffers = more.pop("unit", 1), more.pop("buffers", 0)
    recipe = Recipe(**{"epochs": epochs, "batch": batch, "optimizer": "sgd", "lr": 1.0, "strategy": how, **more})
    return Plan(recipe=recipe, shards=[shapes], buffers=buffers, batches=batches, samples=samples or batches * batch, unit=unit)


class Bench:
    """One server. `crash` is what `kill -9` leaves of it, `restart` what the chief does then."""

    def __init__(self, folder: Path, made: Plan, *, shard: int = 0) -> None:
        self.folder, self.plan, self.shard = folder, made, shard
        self.clock = FakeClock(100.0)
        self.told: list[dict[str, Any]] = []
        self.peers: list[Peer] = []
        folder.mkdir(parents=True, exist_ok=True)
        begin(folder, made, shard, {name: torch.zeros(shape) for name, shape in made.shards[shard].items()})
        self._start(again=False)

    def _start(self, *, again: bool) -> None:
        limit = self.plan.compressor(self.shard).max_nbytes + 8 * self.plan.buffers
        self.hub = Hub(f"unix:{self.folder}/s", TOKEN, payload_limit=limit)
        report = Report(self.told.append, self.hub, self.clock, first=not self.shard)
        self.server = Server(self.plan, self.shard, self.folder, self.hub, report, self.clock, again=again)

    @property
    def decisions(self) -> Any:
        return self.server.decisions

    def crash(self) -> None:
        self.hub.close()

    def restart(self, *, again: bool = True) -> None:
        self._start(again=again)

    def close(self) -> None:
        for peer in self.peers:
            peer.link.close()
        self.hub.close()

    def turn(self, seconds: float = 0.0) -> None:
        """Let so much time pass, and the server do all that it has to."""
        self.clock.advance(seconds)
        quiet = 0
        while quiet < 3:  # a turn may be spent on accepting a call
            quiet = 0 if [self.server.hear(one) for one in self.hub.turn(0.0)] else quiet + 1
        self.server.look(self.clock.monotonic())

    def peer(self, name: str = "", pid: int = 1) -> Peer:
        """A worker that has said hello."""
        made = Peer(self, name, pid)
        made.hello()
        return made

    def chief(self, message: Chief | None = None) -> Parameters:
        link = Link(self.hub.address, TOKEN, timeout=5.0)
        link.send(message or Chief())
        self.turn()
        header, data = link.receive()
        said = reply(header)
        assert isinstance(said, Parameters)
        numbers = self.plan.layout(self.shard).numel
        self.row = torch.frombuffer(bytearray(data), dtype=torch.float32, count=numbers).tolist()
        self.buffers = torch.frombuffer(bytearray(data[4 * numbers :]), dtype=torch.float64).tolist() if said.buffers else None
        link.close()
        self.turn()
        return said

    def weights(self) -> list[float]:
        self.chief()
        return self.row

    def said(self, kind: str) -> list[Any]:
        return [told[kind] for told in self.told if kind in told]


class Peer:
    """A worker, as the server sees it."""

    def __init__(self, bench: Bench, name: str, pid: int) -> None:
        self.bench, self.name, self.pid = bench, name, pid
        self.compressor = bench.plan.compressor(bench.shard)
        self.more: list[Reply] = []
        bench.peers.append(self)

    link: Any = None
    busy: int | None = None

    def hello(self) -> Welcome:
        if self.link is not None:
            self.link.close()
        self.link = Link(self.bench.hub.address, TOKEN, timeout=5.0)
        self.more = []
        self.ask(Hello(worker=self.name, life=f"life {self.pid}", pid=self.pid, host="here", busy=self.busy))
        welcome = self.more.pop(0)
        assert isinstance(welcome, Welcome)
        self.name = welcome.worker
        return welcome

    def ask(self, message: Any, *payload: bytes | memoryview) -> tuple[list[Reply], bytes]:
        """All that the server says to it, and the bytes of the last."""
        self.link.send(message, *payload)
        self.bench.turn()
        return self.heard()

    def heard(self) -> tuple[list[Reply], bytes]:
        found: list[Reply] = []
        data = b""
        while select.select([self.link._socket], [], [], 0)[0]:
            try:
                header, payload = self.link.receive()
            except Gone:
                break
            found.append(reply(header))
            data = bytes(payload)
        self.more += found
        return found, data

    def task(self) -> Round | Unit | None:
        """The newest that it was told to do, since this was last asked."""
        self.heard()
        told, self.more = self.more, []
        return next((said for said in reversed(told) if isinstance(said, Round | Unit)), None)

    def packet(self, *values: float) -> Packet:
        return self.compressor.encode(torch.tensor(values, dtype=torch.float32), epoch_progress=0.0)

    def answer(
        self, round_: Round, *values: float, work: float = 1.0, loss: float = 1.0, seconds: float = 0.0, buffers: bytes = b""
    ) -> list[Reply]:
        packet = self.packet(*values)
        number = round_.task.number
        push = Push(
            sequence=number,
            base=round_.version,
            work=work,
            batches=1,
            seconds=seconds,
            round=number,
            loss=loss,
            packet=packet.nbytes,
        )
        return self.ask(push, packet.data, buffers)[0]

    def push(self, sequence: int, *values: float, base: int = 0, **more: Any) -> list[Reply]:
        packet = self.packet(*values)
        return self.ask(Push(**{"sequence": sequence, "base": base, "work": 1, "batches": 1, "packet": packet.nbytes} | more), packet.data)[
            0
        ]

    def leave(self) -> None:
        self.link.close()
        self.bench.turn()
