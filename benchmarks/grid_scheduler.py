"""How many tasks can a grid's server hand out and take back in a second, each of them on disk before it is acknowledged?

    python benchmarks/grid_scheduler.py [--seconds 10] [--nodes 10000] [--postgres] [--http]

10,000 nodes are known; some hundreds of them at a time ask for a task and answer it, without doing any work: a model of a hundred numbers,
so that the figure is of the server. The real service, daemons and database: SQLite in a file (every commit flushed), or with `--postgres`
a server of its own (fsync on). Whoever asks is in the same process, so the figure is what is left beside it. `--http`: over HTTP on the
loopback device, signed, from another process.
Wanted: 1,000 a second on SQLite, 1,500 on PostgreSQL, with 500 MB of memory. BOINC's published server: about 100.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from figures import record

from laminar.core.seeds import derive
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import nodes
from laminar.grid.desk import ThreadDesk, Wants
from laminar.grid.population.behaviour import pack
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server.batch import Batch
from laminar.grid.server.serve import settle
from laminar.grid.wire.messages import Ask, Facts
from laminar.grid.wire.sketch import Sketcher
from laminar.testing.postgres import postgres
from laminar.train.on_grid import Grid


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=400)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--load", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.load:
        load(*args.load)
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        url = held.enter_context(postgres()) if args.postgres else f"sqlite:///{folder}/grid.db"
        rate = over_http(args, url, Path(folder)) if args.http else in_process(args, url)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        where = "PostgreSQL" if args.postgres else "SQLite"
        record(f"tasks a second, {where}{', HTTP' if args.http else ''}", rate)
        print(
            f"{where}{', HTTP' if args.http else ''}: {rate:,.0f} tasks/s handed out and answered, {args.nodes:,} nodes, {memory:,.0f} MB"
        )


def settings_of() -> Any:
    grid = Grid(workers=2000, rounds=1_000_000, local_steps=1, deadline=3600.0, lease=3600.0, replicate="never", quorum=0.5)
    return Clouds.settings(grid)


def in_process(args: argparse.Namespace, url: str) -> float:
    hall = Hall(TorchLearner(), database=url, start=time.time())
    settings = settings_of()
    run = hall.begin("bench", settings, Clouds.first())
    ids = enrol(hall, args.nodes)
    desk = ThreadDesk(hall.book)
    hall.desk = desk  # type: ignore[assignment]
    hall.office._desk = desk
    desk.together = Batch(hall.office)
    hall.clock = time.time  # type: ignore[method-assign]
    hall.service._clock = hall.office._clock = time.time
    hall.office.start()
    sketcher = Sketcher(settings.layout.numel, derive(0, "grid sketch"))
    change = Clouds(0).work(hall.version(run, 0), 1, 1, settings)
    ready: queue.SimpleQueue[tuple[str, str, Future[Any]]] = queue.SimpleQueue()

    def send(node: str, what: str, operation: Any, wants: Wants) -> None:
        desk.submit(operation, wants).add_done_callback(lambda done: ready.put((node, what, done)))

    def ask(node: str) -> None:
        send(node, "ask", lambda tx: hall.service.ask(tx, node, Ask(want=1)), Wants(node, asks=True))

    waiting = list(ids)
    settle()
    for _ in range(args.at_once):
        ask(waiting.pop())
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < args.seconds:
        node, what, future = ready.get()
        found = future.result()
        if what == "ask" and found.tasks:
            task = found.tasks[0]
            data = pack(task, change, settings.layout, sketcher)

            def put(tx: Any, node: str = node, result: int = task.result, data: bytes = data) -> Any:
                return hall.service.deliver(tx, node, result, data, 1 << 20)

            send(node, "answer", put, Wants(node, task.result))
            continue
        if what == "answer":
            assert found.state == "returned", found
            done += 1
            hall.office.wake()
        waiting.insert(0, node)
        ask(waiting.pop())
    rate = done / (time.perf_counter() - began)
    hall.office.close()
    desk.close()
    print(f"  {desk.operations / max(1, desk.commits):.0f} operations a commit, {hall.book.engine.dialect.name}")
    hall.book.close()
    return rate


def enrol(hall: Hall, count: int) -> list[str]:
    token = hall.token()
    facts = Facts(name="bench", cores=1, memory=1 << 30, platform="bench", laminar="0")

    def all_of_them(tx: Any) -> list[str]:
        number, _ = nodes.use_token(tx, token, hall.now, known=True)
        assert number is not None
        keys = [base64.b64encode(hashlib.sha256(str(i).encode()).digest()).decode() for i in range(count)]
        return [nodes.enrol(tx, key, number, facts, hall.now) for key in keys]

    return hall.desk.do(all_of_them)


def over_http(args: argparse.Namespace, url: str, folder: Path) -> float:
    from laminar.grid.server.serve import GridServer, Options

    settle()
    server = GridServer(Options(folder / "grid", "bench", port=0, database=url), TorchLearner())
    server.gate.unlimited = True
    hall = Hall.__new__(Hall)
    hall.now, hall.desk, hall.learner, hall._tokens = time.time(), server.desk, TorchLearner(), {}  # type: ignore[assignment]
    hall.feeder, hall.office = server.service._scheduler.feeder, server.office
    enrol(hall, args.nodes)
    hall.begin("bench", settings_of(), Clouds.first())
    told: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    thread = threading.Thread(target=server.run, args=(told.put,))
    thread.start()
    address = told.get()["url"]
    words = [sys.executable, __file__, "--load", address, server.secrets.join, str(args.seconds)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    server.stop()
    thread.join()
    return float(printed)


def load(url: str, token: str, seconds: str) -> None:
    """Some nodes, each on a connection of its own, in one process."""
    import asyncio

    import httpx
    import msgspec

    from laminar.grid.wire import signing
    from laminar.grid.wire.messages import PROTOCOL, Enrol, Work

    settings = settings_of()
    sketcher = Sketcher(settings.layout.numel, derive(0, "grid sketch"))
    change = Clouds(0).work(torch.zeros(settings.layout.numel).numpy(), 1, 1, settings)
    count = [0]

    async def node(number: int, client: httpx.AsyncClient, until: float) -> None:
        own = signing.Key.make()
        id = signing.node_id(own.public)

        async def send(method: str, path: str, body: bytes) -> bytes:
            stamp, nonce = f"{time.time():.3f}", signing.nonce()
            message = signing.of_request(method, path, stamp, nonce, hashlib.sha256(body).hexdigest())
            head = {signing.NODE: id, signing.TIME: stamp, signing.NONCE: nonce, signing.SIGNATURE: own.sign(message)}
            found = await client.request(method, path, content=body, headers=head)
            assert found.status_code == 200, found.text
            return found.content

        facts = Facts(name=f"n{number}", cores=1, memory=1 << 30, platform="bench", laminar="0")
        await send("POST", "/v1/enrol", msgspec.json.encode(Enrol(protocol=PROTOCOL, token=token, key=own.public, facts=facts)))
        while time.perf_counter() < until:
            work = msgspec.json.decode(await send("POST", "/v1/work", msgspec.json.encode(Ask(want=8, wait=1.0))), type=Work)
            for task in work.tasks:
                await send("PUT", f"/v1/results/{task.result}", pack(task, change, settings.layout, sketcher))
                count[0] += 1

    async def everybody() -> None:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
            began = time.perf_counter()
            await asyncio.gather(*[node(i, client, began + float(seconds)) for i in range(32)])
            print(count[0] / (time.perf_counter() - began))

    asyncio.run(everybody())


if __name__ == "__main__":
    main()
