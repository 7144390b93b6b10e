"""Are strategies put into the right order for links that are slow? Linux, root.

    LAMINAR_DATA=… python benchmarks/plan_links.py [--rates 100e6,1e9] [--jobs mlp,wide] [--only "sync fp16"] [--rounds 3]

Two hosts (network namespaces of this machine, laminar/testing/slow_link.py) with a worker and a core on each, to which all that runs there
is bound; the chief and the server are on the first. A machine file says what is between
them; `laminar plan` prices sync, sync with compression, averaging and downpour for it, from what was measured on this machine without any
slow link; then each is run over the real one, with as many samples as it gets through in some seconds. In pieces of at most two minutes:
`--keep FOLDER` has what was measured before, `--only STRATEGY` runs one of them, and `--only none` sums up what is in the folder.
Wanted: the order of measured times, in all pairs. Each is run `--rounds` times, and the median counts. Two strategies of which the slowest
round of one is not below the fastest of the other are no pair: the machine does not tell them apart. With one round all are pairs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from one_build import Told
from plan_jobs import JOBS, project
from slow_network import PORT, by_ranks, by_servers

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
BUDGET = 60  # seconds of measuring and searching
EPOCH = 15.0  # seconds that one may take, as predicted
Known = dict[tuple[str, float, int], dict[str, float]]  # seconds of a step by strategy, where job, rate and samples are these
STRATEGIES: dict[str, dict[str, object]] = {
    "sync": {"kind": "sync", "link": "gloo"},
    "sync fp16": {"kind": "sync", "link": "gloo", "compress": "fp16"},
    "sync int8": {"kind": "sync", "link": "gloo", "compress": "int8"},
    "averaging 8": {"kind": "averaging", "every": 8},
    "averaging 32": {"kind": "averaging"},  # the default: a plan says only what is not
    "downpour 16": {"kind": "downpour", "n_push": 16, "n_fetch": 16},
}


def predicted(folder: Path, job: str, rate: float, delay: float, samples: int, more: list[str]) -> dict[str, float]:
    """Seconds of a step, where an epoch has so many samples."""
    (folder / "hosts.toml").write_text(MACHINE.format(rate=rate / 1e6, delay=1e3 * delay))
    text = (folder / "laminar.toml").read_text()
    (folder / "laminar.toml").write_text(re.sub(r"limit = \d+", f"limit = {samples}", text))
    words = ["plan", "base", "--machine", "hosts.toml", "--workers", "2", "--batch", str(JOBS[job][2]), "--budget", str(BUDGET)]
    command = [sys.executable, "-m", "laminar", *words, *more, "--top", "1000", "--json", "-q"]
    told = json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
    found = {}
    for name, settings in STRATEGIES.items():
        for plan in told["plans"]:
            given = {key: value for key, value in plan["strategy"].items() if key not in ("workers", "shards")}
            if given == settings and plan["strategy"].get("shards", 1) == 1 and plan["workers"] == 2:
                found.setdefault(name, plan["step_seconds"])
    return found


def one_case(job: str, rate: float, delay: float, name: str, samples: int, more: list[str], known: Known) -> dict[str, object]:
    """One strategy over one link: predicted, then run for two epochs, the second of which counts."""
    batch = JOBS[job][2]
    with project(job, epochs=2, samples=samples) as folder:

        def guess_for(samples: int) -> float:
            case = job, rate, samples
            if case not in known:  # a plan has all of them
                known[case] = predicted(folder, job, rate, delay, samples, more)
            (folder / "laminar.toml").write_text(re.sub(r"limit = \d+", f"limit = {samples}", (folder / "laminar.toml").read_text()))
            return known[case][name]

        guess = guess_for(samples)
        fits = max(8, int(EPOCH / guess)) * batch
        if fits < samples:
            samples = fits
            guess = guess_for(samples)
        with SlowLink(rate=rate, delay=delay) as link:
            seen = measured(folder, link, STRATEGIES[name], batch)
    return {"job": job, "rate": rate, "strategy": name, "samples": samples, "predicted": guess, "measured": seen}


def measured(folder: Path, link: SlowLink, settings: dict[str, object], batch: int) -> float:
    """Seconds of a step, of the epochs but the first."""
    said = ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    text = (folder / "laminar.toml").read_text()
    apart = settings["kind"] != "sync"
    where = f', host = "{link.hosts[0]}", port = {PORT}' if apart else ""
    (folder / "laminar.toml").write_text(text.replace("threads = 1", f"threads = 1, strategy = {{ {said}, workers = 2{where} }}"))
    before = set(folder.glob(".laminar/runs/*/events.jsonl"))
    (by_servers if apart else by_ranks)(folder, link)
    (events,) = set(folder.glob(".laminar/runs/*/events.jsonl")) - before
    (folder / "laminar.toml").write_text(text)
    return batch / Told(list(read(events))).samples_per_second


def tell(job: str, rate: float, rows: list[dict[str, Any]]) -> None:
    told: dict[str, dict[str, Any]] = {}
    for row in rows:  # of each what was predicted last, and all rounds of it
        if (row["job"], row["rate"]) == (job, rate):
            before = told[row["strategy"]]["rounds"] if row["strategy"] in told else []
            told[row["strategy"]] = row | {"rounds": [*before, row["measured"]]}
    for row in told.values():
        row["measured"] = statistics.median(row["rounds"])
    where = f"{job} {rate / 1e6:5.0f} Mbit/s"
    for name, row in sorted(told.items(), key=lambda one: one[1]["measured"]):
        rounds = f"{1e3 * min(row['rounds']):.2f}-{1e3 * max(row['rounds']):.2f} in {len(row['rounds'])}"
        figures = f"{1e3 * row['predicted']:>9.2f} ms predicted {1e3 * row['measured']:>9.2f} ms measured ({rounds})"
        print(f"{where}  {name:14} {figures}  ({row['samples']} samples)", flush=True)
    both = list(itertools.combinations(told.values(), 2))
    pairs = [(a, b) for a, b in both if max(a["rounds"]) < min(b["rounds"]) or max(b["rounds"]) < min(a["rounds"])]
    right = sum((a["predicted"] - b["predicted"]) * (a["measured"] - b["measured"]) > 0 for a, b in pairs)
    print(f"{where}: {right} of {len(pairs)} pairs in the right order; {len(both) - len(pairs)} more cannot be told apart", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="100e6,1e9")
    parser.add_argument("--delay", type=float, default=0.001, help="one way, in seconds")
    parser.add_argument("--jobs", default="mlp,wide")
    parser.add_argument("--samples", type=int, default=12_800)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", metavar="STRATEGY", help=", ".join(STRATEGIES))
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--even-if-busy", action="store_true", help="to see whether it runs: figures mean nothing then")
    args = parser.parse_args()
    with ExitStack() as held:
        kept = (args.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        os.environ["LAMINAR_PROFILE"], os.environ["LAMINAR_LEDGER"] = str(kept / "profile.sqlite"), str(kept / "ledger.sqlite")
        file, known = kept / "links.jsonl", Known()
        for job, rate in itertools.product(args.jobs.split(","), map(float, args.rates.split(","))):
            for name in [name for name in STRATEGIES if args.only in (None, name)] * args.rounds:
                row = one_case(job, rate, args.delay, name, args.samples, ["--even-if-busy"] if args.even_if_busy else [], known)
                with file.open("a") as out:
                    print(json.dumps(row), file=out)
            tell(job, rate, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else [])


if __name__ == "__main__":
    main()
