"""Are strategies put into the right order for links that are slow? Linux, root.

    LAMINAR_DATA=… python benchmarks/plan_links.py [--rates 100e6,1e9] [--jobs mlp,wide]

Two hosts (network namespaces of this machine, laminar/testing/slow_link.py) with a worker on each. A machine file says what is between
them; `laminar plan` prices sync, sync with compression, averaging and downpour for it, from what was measured on this machine without any
slow link; then each is run over the real one. Wanted: the order of measured times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from one_build import Told
from plan_jobs import JOBS, project
from slow_network import OURS, PORT

from laminar.core.events import read
from laminar.testing.slow_link import SlowLink

MACHINE = """\
name = "two hosts"

[[node]]
name = "host"
count = 2
cores = 1
memory = "12GB"

[link]
bandwidth = "{rate:.0f}Mbit/s"
latency = "{delay:g}ms"
"""
STRATEGIES = {
    "sync": {"kind": "sync", "link": "gloo"},
    "sync fp16": {"kind": "sync", "link": "gloo", "compress": "fp16"},
    "sync int8": {"kind": "sync", "link": "gloo", "compress": "int8"},
    "averaging 32": {"kind": "averaging", "every": 32},
    "averaging 128": {"kind": "averaging", "every": 128},
    "downpour 16": {"kind": "downpour", "n_push": 16, "n_fetch": 16},
}


def predicted(folder: Path, rate: float, delay: float) -> dict[str, float]:
    (folder / "hosts.toml").write_text(MACHINE.format(rate=rate / 1e6, delay=1e3 * delay))
    words = ["plan", "base", "--machine", "hosts.toml", "--workers", "2", "--top", "1000", "--json", "-q", "--budget", "600"]
    told = json.loads(subprocess.run([sys.executable, "-m", "laminar", *words], cwd=folder, check=True, capture_output=True).stdout)
    found = {}
    for name, settings in STRATEGIES.items():
        for plan in told["plans"]:
            given = {key: value for key, value in plan["strategy"].items() if key not in ("workers", "shards")}
            if given == settings and plan["strategy"].get("shards", 1) == 1 and plan["workers"] == 2:
                found.setdefault(name, plan["step_seconds"])
    return found


def measured(folder: Path, link: SlowLink, settings: dict[str, object], batch: int) -> float:
    """Seconds of a step, of the epochs but the first."""
    said = ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    text = (folder / "laminar.toml").read_text()
    apart = settings["kind"] != "sync"
    where = f', host = "{link.hosts[0]}", port = {PORT}' if apart else ""
    (folder / "laminar.toml").write_text(text.replace("threads = 1", f"threads = 1, strategy = {{ {said}, workers = 2{where} }}"))
    before = set(folder.glob(".laminar/runs/*/events.jsonl"))
    (_by_servers if apart else _by_ranks)(folder, link)
    (events,) = set(folder.glob(".laminar/runs/*/events.jsonl")) - before
    (folder / "laminar.toml").write_text(text)
    return batch / Told(list(read(events))).samples_per_second


def _by_servers(folder: Path, link: SlowLink) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    code = textwrap.dedent(OURS).format(elsewhere=repr(link.inside(1)))
    subprocess.run([*link.inside(0), sys.executable, "-c", code], cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)


def _by_ranks(folder: Path, link: SlowLink) -> None:
    """As torchrun starts them: one on each host."""
    ranks = []
    for rank in range(2):
        told = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank}
        told |= {"MASTER_ADDR": link.hosts[0], "MASTER_PORT": PORT + 1, "GLOO_SOCKET_IFNAME": link.device, "LAMINAR_TOKEN": "0" * 32}
        environment = os.environ | {key: str(value) for key, value in told.items()}
        command = [*link.inside(rank), sys.executable, "-m", "laminar", "build", "-q", "--on", "env"]
        ranks.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL))
    if any(one.wait(timeout=300) for one in ranks):
        raise SystemExit("a rank failed")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="100e6,1e9")
    parser.add_argument("--delay", type=float, default=0.001, help="one way, in seconds")
    parser.add_argument("--jobs", default="mlp,wide")
    parser.add_argument("--samples", type=int, default=12_800)
    args = parser.parse_args()
    for job in args.jobs.split(","):
        for rate in map(float, args.rates.split(",")):
            with project(job, epochs=3, samples=args.samples) as folder, SlowLink(rate=rate, delay=args.delay) as link:
                told = predicted(folder, rate, args.delay)
                rows = [(name, told[name], measured(folder, link, STRATEGIES[name], JOBS[job][2])) for name in told]
            pairs = [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :]]
            right = sum((a[1] - b[1]) * (a[2] - b[2]) > 0 for a, b in pairs)
            for name, guess, seen in sorted(rows, key=lambda row: row[2]):
                print(
                    f"{job} {rate / 1e6:5.0f} Mbit/s  {name:14} {1e3 * guess:>9.2f} ms predicted {1e3 * seen:>9.2f} ms measured", flush=True
                )
            print(f"{job} {rate / 1e6:5.0f} Mbit/s: {right} of {len(pairs)} pairs in the right order", flush=True)


if __name__ == "__main__":
    main()
