"""How long does a node wait for a server on which others hold as many connections as they can open?

    python benchmarks/grid_crowd.py [--seconds 8] [--connections 5000] [--reopen 500] [--tls] [--files 1024]

A server as a process of its own, and one that holds connections to it: half of them say nothing, half send a byte of a request or of its
body now and then; of those that are closed `--reopen` are opened again in a second (0: as fast as it can). Its addresses: the nodes' own
(an office has one), another one, or 200 others (on Linux the loopback device has 16 million). A node that is known asks on its connection,
and nodes that have just been started come anew for each request. Printed: the milliseconds that they wait, and who was not heard at all.
Without limits a server takes nobody once some thousands of connections are open.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from laminar.grid.node.client import Client, Unreachable
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask, Facts

FACTS = Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0")
CROWDS = {"nobody else": [], "the nodes' address": ["127.0.0.1"], "one other": ["127.0.0.2"], "200 others": []}
CROWDS["200 others"] = [f"127.0.1.{n}" for n in range(1, 201)]
SAID = (b"", b"POST /v1/work HTTP/1.1\r\nX: ", b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{", b"")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--reopen", type=int, default=500)
    parser.add_argument("--files", type=int)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--crowd", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.crowd:
        crowd(*map(int, args.crowd[:3]), args.crowd[3].split(","))
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "laminar", "init", "--template", "digits"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        told, server = serve(Path(folder), args)
        try:
            for who, addresses in CROWDS.items():
                line = measure(args, told, Path(folder), addresses)
                memory = psutil.Process(server.pid).memory_info().rss >> 20
                print(f"{who:>20}: {line}; server {memory} MB", flush=True)
        finally:
            server.terminate()
            server.wait()


def serve(folder: Path, args: argparse.Namespace) -> tuple[dict[str, str], subprocess.Popen[str]]:
    words = [sys.executable, "-m", "laminar", "grid", "serve", "--port", "0", "--json", *(["--tls"] if args.tls else [])]

    def fewer() -> None:
        if args.files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (args.files, args.files))

    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True, preexec_fn=fewer)
    assert process.stdout is not None
    return json.loads(process.stdout.readline()), process


def measure(args: argparse.Namespace, told: dict[str, str], folder: Path, addresses: list[str]) -> str:
    ca = str(folder / ".laminar" / "grid" / "tls" / "ca.pem") if args.tls else None
    known = Client(told["url"], signing.Key.make(), pinned=told["key"], ca=ca)
    known.enrol(told["token"], FACTS)
    port = told["url"].rpartition(":")[2]
    others = None
    if addresses:
        words = [sys.executable, __file__, "--crowd", port, str(args.connections), str(args.reopen), ",".join(addresses)]
        others = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert others.stdout is not None
        others.stdout.readline()  # it has opened all of them once
    kept, anew, lost = [], [], 0
    until = time.monotonic() + args.seconds
    while time.monotonic() < until:
        for waits, client in ((kept, known), (anew, Client(told["url"], known._key, pinned=told["key"], ca=ca))):
            began = time.perf_counter()
            try:
                client.work(Ask(want=1))
                waits.append(1e3 * (time.perf_counter() - began))
            except Unreachable:
                lost += 1
            if client is not known:
                client.close()
        time.sleep(0.02)
    opened = ""
    if others is not None:
        others.terminate()
        opened = f", {others.communicate()[0].split()[-1]} connections opened"
    known.close()
    return f"known {shown(kept)}; new {shown(anew)}; {lost} not heard{opened}"


def shown(waits: list[float]) -> str:
    if len(waits) < 2:
        return f"{len(waits)} heard"
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return f"{cuts[49]:.1f} ms, 99 %: {cuts[98]:.0f}, most {max(waits):.0f} ({len(waits)})"


def crowd(port: int, count: int, reopen: int, addresses: list[str]) -> None:
    """Until it is ended. Prints once that all were opened, and how many were in the end."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    found, opened, ready = selectors.DefaultSelector(), 0, False
    lines: dict[socket.socket, bytes] = {}
    dribble = time.monotonic() + 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(opened, flush=True)))
    began = time.monotonic()
    while True:
        allowed = int(count + (time.monotonic() - began) * reopen - opened) if reopen else count
        for _ in range(min(200, count - len(lines), allowed)):
            line = socket.socket()
            line.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                line.bind((addresses[opened % len(addresses)], 0))
                line.connect(("127.0.0.1", port))
            said = SAID[opened % len(SAID)]
            opened += 1
            lines[line] = said
            found.register(line, selectors.EVENT_READ | (selectors.EVENT_WRITE if said else 0))
            if opened == count and not ready:
                ready = True
                print("ready", flush=True)
        for key, events in found.select(0.01):
            line = key.fileobj
            assert isinstance(line, socket.socket)
            try:
                if events & selectors.EVENT_WRITE:
                    line.send(lines[line])
                    found.modify(line, selectors.EVENT_READ)
                if events & selectors.EVENT_READ and not line.recv(1000):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                found.unregister(line)
                lines.pop(line)
                line.close()
        if time.monotonic() > dribble:
            dribble = time.monotonic() + 1
            for line, said in lines.items():
                if said:
                    with contextlib.suppress(OSError):
                        line.send(b"x")


if __name__ == "__main__":
    main()
