"""How many rounds a second does a grid of local nodes make, when there is next to no work to do? Against Flower, in the same run.

    python benchmarks/grid_rounds.py [--nodes 16] [--rounds 60] [--replicate never] [--compress none]
    python benchmarks/grid_rounds.py --peer V/bin/python [--nodes 16] [--repeat 3]

V is a venv for the peer alone: `python3 -m venv V && V/bin/pip install flwr numpy`.
Ours: `laminar grid serve`, so many `laminar grid join` and `laminar grid train`, as anybody would start them, on this machine: a model of
101,260 parameters, one step of 32 samples a task, quorum 1. Every answer is signed, checked and on disk before it is acknowledged. Also the
largest memory of a node's process.
Flower (peers/flower.py) has the same model, float32, the same step, made with numpy, an answer of every node in every round, and FedAvg:
its deployment runtime as documented, and its deprecated gRPC path, with a process for each client and with threads of one process. It is
told to keep its state in memory, which is its default, and nothing of it is durable or signed.
Every contender is started anew, in turns, and ended before the next. Rounds are counted by each server's own record of when it closed them,
without the first quarter; starting is never counted.
Wanted, with 16 nodes: 50 times Flower's deployment runtime, and half of its gRPC path, whichever way that is faster.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
from figures import record
from peers import flower
from processes import processes

from laminar.grid.node.home import Home
from laminar.grid.node.join import join
from laminar.grid.node.limits import Limits
from laminar.grid.node.machine import facts

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
OURS = "laminar grid"
WANTED = {"deployment": 50.0, "in memory": 0.5}


def laminar(*words: str) -> list[str]:
    return [sys.executable, "-m", "laminar", *words]


Found = tuple[list[float], list[tuple[float, float]]]  # when each of the newest rounds was closed; and Processes.used


def ours(nodes: int, rounds: int, replicate: str, compress: str) -> Found:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(STACK)
        with processes(folder) as running:
            server = running.start("server", laminar("grid", "serve", "--port", "0", "--json"), stdout=subprocess.PIPE)
            line = server.stdout.readline() if server.stdout else b""
            if not line:
                raise SystemExit(f"the server did not start. Its last words:\n{running.last_words('server')}")
            told = json.loads(line)
            for i in range(nodes):
                home = folder / f"n{i}"
                join(Home(home), told["url"], told["token"], told["key"], facts(f"n{i}", Limits(cpu=0.5))).close()
                running.start(f"node-{i}", laminar("grid", "join", "--home", str(home), "--name", f"n{i}", "--cpu", "50%"))
            beside = list(running.all)
            how = ["--workers", str(nodes), "--rounds", str(rounds), "--quorum", "1", "--local-steps", "1"]
            how += ["--replicate", replicate, "--compress", compress]
            running.start("train", laminar("grid", "train", "net", "-q", *how))
            running.wait("train", beside)
            found = json.loads(subprocess.check_output(laminar("grid", "rounds", "--json"), cwd=folder))
            if any(one["answers"] != nodes for one in found):
                raise SystemExit(f"rounds were closed with {[one['answers'] for one in found]} answers, not with {nodes} each")
            members = [psutil.Process(running.all[f"node-{i}"].pid) for i in range(nodes)]
            memory = max(p.memory_info().rss for member in members for p in [member, *member.children()])
            own = psutil.Process(server.pid).memory_info().rss
            print(f"{OURS}: a node's process {memory / 1e6:.0f} MB, the server {own / 1e6:.0f} MB", flush=True)
            return [one["closed"] for one in found], running.used


def processor_ms(counted: list[float], used: list[tuple[float, float]]) -> float:
    """A round's, of all processes together, by looks at them while rounds were counted."""
    first, last = (min(used, key=lambda one: abs(one[0] - when)) for when in (counted[0], counted[-1]))
    rounds = sum(first[0] <= when <= last[0] for when in counted)
    return 1000 * (last[1] - first[1]) / rounds if rounds and last[0] > first[0] else float("nan")


def measured(name: str, found: Found) -> float:
    """Rounds a second, told at once: the whole may take long."""
    closed, used = found
    counted = closed[len(closed) // 4 :]
    took = sorted(1000 * (b - a) for a, b in itertools.pairwise(counted))
    rate = (len(counted) - 1) / (counted[-1] - counted[0])
    spread = f"{statistics.median(took):,.0f} ms, {took[0]:,.0f} to {took[-1]:,.0f}"
    print(f"{name}: {rate:.3g} rounds/s (a round {spread}; {processor_ms(counted, used):,.0f} ms of processors)", flush=True)
    return rate


def middle(values: list[float], form: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}}" + (f" ({low:{form}} to {high:{form}})" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=60, help="of ours and of the gRPC path; the newest 100 are known")
    parser.add_argument("--replicate", default="never")
    parser.add_argument("--compress", default="none")
    parser.add_argument("--repeat", type=int, default=None, help="how often each is measured (3 with a peer, else 1)")
    parser.add_argument("--peer", type=Path, help="a Python that has flwr")
    parser.add_argument("--peer-rounds", type=int, default=5, help="of Flower's deployment runtime; 0 leaves it out")
    parser.add_argument("--peer-poll", default="1", help="seconds between two looks of a SuperExec; several with commas")
    args = parser.parse_args()

    contenders: dict[str, Callable[[], Found]] = {OURS: lambda: ours(args.nodes, args.rounds, args.replicate, args.compress)}
    if args.peer is not None:
        peer = args.peer.absolute()  # not resolved: the link is what makes it the venv's
        version = flower.version(peer)
        for poll in map(float, args.peer_poll.split(",")) if args.peer_rounds else ():
            name = f"flwr {version}, deployment, looks every {poll:g} s"
            contenders[name] = lambda poll=poll: flower.deployment(peer, args.nodes, args.peer_rounds, poll)  # type: ignore[misc]
        for threads, who in ((False, "processes"), (True, "threads")):
            name = f"flwr {version}, in memory, {who}"
            contenders[name] = lambda threads=threads: flower.in_memory(peer, args.nodes, args.rounds, threads)  # type: ignore[misc]
    repeat = args.repeat or (3 if args.peer else 1)
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeat):
        for name, run in contenders.items():
            rates[name].append(measured(name, run()))
            record(name, rates[name][-1])

    how = f"{args.nodes} nodes, 101,260 parameters, {args.compress}, replicate {args.replicate}"
    print(f"\n{how}; {repeat} of each, in turns: the middle (lowest to highest)")
    print(f"{'':44}{'rounds/s':>28}{'ours against it':>28}  durable")
    for name, found in rates.items():
        ratio = "" if name == OURS else middle([a / b for a, b in zip(rates[OURS], found, strict=True)], ".2f")
        print(f"{name:44}{middle(found, '.3g'):>28}{ratio:>28}  {'every answer' if name == OURS else 'nothing'}")
    for kind, wanted in WANTED.items() if args.peer and args.nodes == 16 else ():
        if not any(kind in name for name in rates):
            continue
        ratios = [min(a / rates[name][i] for name in rates if kind in name) for i, a in enumerate(rates[OURS])]
        reached = statistics.median(ratios)
        print(f"{kind}: {reached:.2f} of its fastest, wanted {wanted:g}: {'met' if reached >= wanted else 'missed'}")


if __name__ == "__main__":
    main()
