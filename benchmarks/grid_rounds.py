"""How many rounds a second does a grid of local nodes make, when there is next to no work to do?

    python benchmarks/grid_rounds.py [--nodes 16] [--rounds 60] [--replicate never] [--compress none]

`laminar grid serve`, so many `laminar grid join` and `laminar grid train`, as anybody would start them, on this machine: a model of 101,260
parameters, one step of 32 samples a task, quorum 1. Every answer is signed, checked and on disk before it is acknowledged. The rounds but
the first quarter are counted, by the server's own record of when each was closed. Also the largest memory of a node's process.
Wanted, with 16 nodes: 50 times Flower's deployment runtime (flwr 1.41: 25.8 s a round) and half of its in-memory gRPC path (13 rounds/s).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

STACK = """\
[stack]
name = "bench"

[data.digits]
source = "digits"

[[layer]]
name = "net"
model = "laminar:mlp"
args = { hidden = [1350] }
data = "digits"
train = { epochs = 1000, batch = 32, optimizer = "sgd", lr = 0.05, seed = 0, threads = 1 }
"""


def laminar(*words: str) -> list[str]:
    return [sys.executable, "-m", "laminar", *words]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--replicate", default="never")
    parser.add_argument("--compress", default="none")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(STACK)
        server = subprocess.Popen(laminar("grid", "serve", "--port", "0", "--json"), cwd=folder, stdout=subprocess.PIPE, text=True)
        nodes: list[subprocess.Popen[Any]] = []
        try:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())
            for i in range(args.nodes):
                words = [
                    "grid",
                    "join",
                    told["url"],
                    "--token",
                    told["token"],
                    "--name",
                    f"n{i}",
                    "--home",
                    str(folder / f"n{i}"),
                    "--cpu",
                    "50%",
                ]
                nodes.append(subprocess.Popen(laminar(*words), cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
            how = ["--workers", str(args.nodes), "--rounds", str(args.rounds), "--quorum", "1", "--local-steps", "1"]
            how += ["--replicate", args.replicate, "--compress", args.compress]
            subprocess.run(laminar("grid", "train", "net", "-q", *how), cwd=folder, check=True, stdout=subprocess.DEVNULL)
            rounds = json.loads(subprocess.check_output(laminar("grid", "rounds", "--json"), cwd=folder))
            closed = [one["closed"] for one in rounds][args.rounds // 4 :]
            memory = max(p.memory_info().rss for node in nodes for p in [psutil.Process(node.pid), *psutil.Process(node.pid).children()])
            took = sorted(b - a for a, b in itertools.pairwise(closed))
            rate = (len(closed) - 1) / (closed[-1] - closed[0])
            print(
                f"{args.nodes} nodes, {args.compress}, replicate {args.replicate}: {rate:.1f} rounds/s "
                f"(a round {1000 * statistics.median(took):.0f} ms, {1000 * took[0]:.0f} to {1000 * took[-1]:.0f}); "
                f"a node's process {memory / 1e6:.0f} MB, the server {psutil.Process(server.pid).memory_info().rss / 1e6:.0f} MB"
            )
        finally:
            for process in [*nodes, server]:
                process.terminate()
            until = time.monotonic() + 20
            for process in [*nodes, server]:
                process.wait(max(0.1, until - time.monotonic()))


if __name__ == "__main__":
    main()
