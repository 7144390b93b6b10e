"""Are large answers over slow lines lost, and are the nodes that bring them marked for it?

    python benchmarks/grid_slow_lines.py [--nodes 10] [--rounds 4] [--values 4000000] [--rate 200000]

A server, and so many nodes, each behind a proxy of its own on loopback that lets through so many bytes a second each way. The server is the
real one, and so are the nodes' keepers, with their folders, their connections and what they do when these fail. Only the work itself is
made up: random numbers by the task's seed, the same on every node, so that answers can be compared. Every task is done by two nodes, as
those of newcomers are. Wanted: no lease ends without an answer, no answer is late, and no node has a worse record for its line.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import nodes as node_rows
from laminar.grid.db import runs, versions
from laminar.grid.db.book import Tx
from laminar.grid.node.home import Home
from laminar.grid.node.join import join
from laminar.grid.node.keeper import Keeper
from laminar.grid.node.limits import Limits
from laminar.grid.node.machine import facts
from laminar.grid.population.behaviour import pack
from laminar.grid.server import commands
from laminar.grid.server.serve import GridServer, Options
from laminar.grid.settings import Settings
from laminar.grid.wire.messages import About, Task
from laminar.grid.wire.sketch import Sketcher
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

BLOCK = 8 << 10
WORK = 5.0  # seconds that a task takes


class Throttle:
    """Proxies, each of which lets through so many bytes a second, up and down."""

    def __init__(self, port: int, rate: float) -> None:
        self.port, self.rate = port, rate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self) -> int:
        return asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> int:
        free = {"up": 0.0, "down": 0.0}  # when each way of this node's line is free again, whatever the connection

        async def carry(way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while block := await reader.read(BLOCK):
                    now = self._loop.time()
                    free[way] = max(now, free[way]) + len(block) / self.rate
                    await asyncio.sleep(free[way] - now)
                    writer.write(block)
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", self.port, limit=BLOCK)
            await asyncio.gather(carry("up", reader, there[1]), carry("down", there[0], writer))

        server = await asyncio.start_server(connect, "127.0.0.1", 0, limit=BLOCK)
        return int(server.sockets[0].getsockname()[1])


class MadeUp:
    """In the place of the process that computes."""

    torch, pid = "", None

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home, self._settings = home, settings
        self._said: dict[str, Any] = {}

    def ask(self, asked: dict[str, Any]) -> None:
        task: Task = asked.get("do") or asked["whole"]
        change = np.random.default_rng(task.seed).standard_normal(self._settings.layout.numel).astype(np.float32)
        sketcher = Sketcher(self._settings.layout.numel, derive(0, "grid sketch"))
        self._home.answer_path(task.result).write_bytes(pack(task, change, self._settings.layout, sketcher))
        time.sleep(WORK)
        self._said = {"result": task.result, "samples": task.steps * self._settings.recipe.batch, "seconds": WORK, "whole": True}

    def answer(self, timeout: float) -> dict[str, Any]:  # noqa: ARG002
        return self._said

    def rest(self, resting: bool) -> None:
        pass

    def memory(self) -> int:
        return 0

    def end(self, *_: str) -> None:
        pass


def settings_of(args: argparse.Namespace) -> Settings:
    grid = Grid(workers=args.nodes // 2, rounds=args.rounds, local_steps=2, quorum=1.0, replicate="always")
    return Settings(
        recipe=Recipe(epochs=1, batch=4, optimizer="sgd", lr=0.1, seed=0, strategy=grid),
        rounds=args.rounds,
        batches=100,
        epoch_samples=400,
        local=False,
        parameters={"w": (args.values,)},
        buffers=0,
        gradients=False,
    )


def begin(server: GridServer, settings: Settings) -> None:
    made = About(
        run="slow",
        graphs={},
        parameters=settings.parameters,
        buffers={},
        fixed=None,
        aliases={},
        frozen=[],
        recipe={},
        data={},
        compress={"kind": "none"},
        gradients=False,
        classes=None,
        sketch=0,
    )
    first = np.random.default_rng(1).standard_normal(settings.layout.numel).astype(np.float32).tobytes()

    def do(tx: Tx) -> None:
        told, start = versions.put_file(tx, time.time(), msgspec.json.encode(made)), versions.put_file(tx, time.time(), first)
        asked = commands.Begin(name="slow", layer="net", settings=settings, about=told, version=start)
        commands.begin(tx, asked, TorchLearner(), time.time())

    server.desk.do(do)
    server.office.wake()


def tell_of(said: list[str], name: str, text: str) -> None:
    said.append(f"{name}: {text}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--values", type=int, default=4_000_000)
    parser.add_argument("--rate", type=float, default=200_000.0, help="bytes a second, each way, of each node")
    args = parser.parse_args()
    settings, began = settings_of(args), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = GridServer(Options(folder / "grid", "slow", port=0), TorchLearner())
        told: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        serving = threading.Thread(target=server.run, args=(told.put,))
        serving.start()
        throttle = Throttle(int(told.get(timeout=60)["url"].rpartition(":")[2]), args.rate)
        begin(server, settings)
        stop, threads, said = threading.Event(), [], []
        for number in range(args.nodes):
            home = Home(folder / f"n{number}")
            client = join(home, f"http://127.0.0.1:{throttle.open()}", server.secrets.join, None, facts(f"n{number}", Limits(battery=True)))
            keeper = Keeper(
                home, client, Limits(battery=True), f"n{number}", lambda text, n=number: said.append(f"n{n}: {text}"), stop=stop
            )
            keeper._computer = MadeUp(home, settings)  # type: ignore[assignment]
            threads.append(threading.Thread(target=keeper.run))
            threads[-1].start()
        shown = 0
        while (run := server.desk.do(lambda tx: runs.named(tx, "slow"))) is not None and run.state == "open":
            time.sleep(2)
            for line in said[shown:]:
                print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)
            shown = len(said)
        seconds = time.monotonic() - began
        counts, everyone = server.desk.do(lambda tx: (runs.counts_of(tx, run.id), node_rows.everyone(tx)))
        closed = [row["why"] for row in server.desk.do(lambda tx: runs.rounds_of(tx, run.id))]
        stop.set()
        for thread in threads:
            thread.join(60)
        server.stop()
        serving.join()
    size = 4 * args.values / 1e6
    print(f"{counts.get('answers', 0)} answers of {size:g} MB over {args.rate / 1e3:g} kB/s each way: {args.nodes} nodes, {seconds:.0f} s")
    print(f"leases lost {counts.get('lost', 0)}, late {counts.get('late', 0)}, given back {counts.get('given back', 0)}; rounds {closed}")
    marked = [row["name"] for row in everyone if row["lost"] or row["invalid"] or row["banned"]]
    print(f"nodes marked: {', '.join(marked) or 'none'}")
    print(", ".join(f"{row.get('up', 0) / 1e3:.0f}/{row.get('down', 0) / 1e3:.0f}" for row in everyone), "kB/s up/down as measured")


if __name__ == "__main__":
    main()
