"""Is what a plan predicts for a grid what a real grid takes? Three nodes on this machine.

    python benchmarks/plan_grid.py [--nodes 3] [--hidden 1350] [--rounds 20] [--only "20 steps"] [--keep FOLDER]

`laminar grid serve` and so many `laminar grid join --cpu 50%` on loopback, as anybody would start them; `laminar plan --on grid://…` prices
each strategy for the nodes that are there, then `laminar grid train` runs it. Nodes and server share this machine, which the price knows.
A figure is the time from the close of the first round to that of the last, or of asynchronous answers from the first to the last that
was applied, by the server's own record, for each batch that went into it.
All nodes are newcomers in the first case, and known in those after it, as the server tells the price. In pieces of at most two minutes:
`--keep FOLDER` has what was measured before, `--only CASE` runs one case.
Wanted: within a factor of 1.5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from grid_rounds import laminar
from processes import Processes, processes

from laminar.plan.plan import written
from laminar.train.on_grid import Grid

STACK = """\
[stack]
name = "bench"

[data.digits]
source = "digits"

[[layer]]
name = "net"
model = "laminar:mlp"
args = {{ hidden = [{hidden}] }}
data = "digits"
train = {{ epochs = {epochs}, batch = 32, optimizer = "sgd", lr = 0.05, seed = 0, threads = 1, strategy = {strategy} }}
"""
BATCHES = 45  # of an epoch
CASES: dict[str, dict[str, Any]] = {
    "5 steps": {"local_steps": 5},
    "20 steps": {"local_steps": 20},
    "80 steps": {"local_steps": 80},
    "20 steps, int8": {"local_steps": 20, "compress": "int8"},
    "20 steps, async": {"local_steps": 20, "mode": "async"},
}


def strategy(how: dict[str, Any], nodes: int) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in ({"kind": "grid", "workers": nodes} | how).items()) + " }"


def ask(folder: Path, *words: str) -> Any:
    return json.loads(subprocess.run(laminar(*words, "--json"), cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def one_case(running: Processes, url: str, name: str, args: argparse.Namespace) -> dict[str, Any]:
    how, folder = CASES[name], running.folder
    beside = [one for one in running.all if not one.startswith("train ")]  # the cases before have ended
    tasks = args.rounds * (args.nodes if how.get("mode") != "async" else 1)
    epochs = max(1, round(tasks * how["local_steps"] / BATCHES))  # so that the plan is for as long a training as is run
    text = STACK.format(hidden=args.hidden, epochs=epochs, strategy=strategy(how, args.nodes))
    (folder / "laminar.toml").write_text(text)
    more = ["--even-if-busy"] if args.even_if_busy else []
    told = ask(folder, "plan", "net", "--on", url.replace("http", "grid", 1), "--batch", "32", "--top", "10000", "-q", *more)
    wanted = written(Grid(workers=args.nodes, **how))  # that of the recipe is priced as it is
    plan = next(one for one in told["plans"] if one["strategy"] == wanted)
    before = max((one["id"] for one in ask(folder, "grid", "tasks")), default=0)
    running.start(f"train {name}", laminar("grid", "train", "net", "-q", "--rounds", str(args.rounds)))
    running.wait(f"train {name}", beside)
    if how.get("mode") == "async":  # which has no rounds
        done = [one["returned"] for one in ask(folder, "grid", "tasks") if one["id"] > before and one["used"] == "applied"]
        began, ended, answers = min(done), max(done), len(done) - 1
    else:
        every = ask(folder, "grid", "rounds")
        rounds = [one for one in every if one["run"] == every[-1]["run"] and one["closed"] is not None]
        began, ended, answers = rounds[0]["closed"], rounds[-1]["closed"], sum(one["answers"] for one in rounds[1:])
    measured = (ended - began) / (answers * how["local_steps"])
    return {"case": name, "nodes": args.nodes, "predicted": plan["step_seconds"], "measured": measured, "answers": answers}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=1350)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--even-if-busy", action="store_true", help="to see whether it runs: figures mean nothing then")
    args = parser.parse_args()
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        kept = (args.keep or folder).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        os.environ["LAMINAR_PROFILE"], os.environ["LAMINAR_LEDGER"] = str(kept / "profile.sqlite"), str(kept / "ledger.sqlite")
        (folder / "laminar.toml").write_text(STACK.format(hidden=args.hidden, epochs=1, strategy=strategy(CASES["5 steps"], args.nodes)))
        running = held.enter_context(processes(folder))
        server = running.start("server", laminar("grid", "serve", "--port", "0", "--json"), stdout=subprocess.PIPE)
        line = server.stdout.readline() if server.stdout else b""
        if not line:
            raise SystemExit(f"the server did not start. Its last words:\n{running.last_words('server')}")
        told = json.loads(line)
        for i in range(args.nodes):
            how = ["--name", f"n{i}", "--home", str(folder / f"n{i}"), "--cpu", "50%"]
            running.start(f"node-{i}", laminar("grid", "join", told["url"], *how), env={"LAMINAR_JOIN_TOKEN": told["token"]})
        while sum(one["active"] for one in ask(folder, "grid", "nodes")) < args.nodes:
            time.sleep(0.5)
        for name in [name for name in CASES if args.only in (None, name)]:
            row = one_case(running, told["url"], name, args)
            figures = f"{1e3 * row['predicted']:>9.2f} ms predicted {1e3 * row['measured']:>9.2f} ms measured"
            print(f"{name:18}{figures}: {row['measured'] / row['predicted']:.2f} times", flush=True)
            with (kept / "grid.jsonl").open("a") as out:
                print(json.dumps(row), file=out)


if __name__ == "__main__":
    main()
