"""How much memory do all processes of a build take, and how much was predicted? Linux.

    LAMINAR_DATA=… python benchmarks/plan_memory.py [--jobs small,wide,deep] [--only downpour] [--keep FOLDER]

For each strategy with two workers: what `laminar plan` says of the fullest node (node_memory_bytes), and the most that the sum over all
processes of a real build was (proportional set size: what several share counts once), looked at some twenty times a second.
Wanted: predicted within 20 % of it. No figure of time, so others may work on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from one_build import STACK
from stages import MODELS

LOOK = 0.03  # seconds
# arguments of laminar:mlp, batch, samples, optimizer
JOBS = {
    "small": ("{ hidden = [128] }", 256, 12_800, "adam"),
    "wide": ("{ hidden = [6144, 4096] }", 64, 1280, "adam"),
    "wide-sgd": ("{ hidden = [6144, 4096] }", 64, 1280, "sgd"),
    "deep": ("{ hidden = [2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048] }", 64, 1280, "adam"),
}
STRATEGIES = {
    "solo": "",
    "sync": 'kind = "sync", workers = 2',
    "sync gloo": 'kind = "sync", workers = 2, link = "gloo"',
    "averaging": 'kind = "averaging", workers = 2',
    "downpour": 'kind = "downpour", workers = 2',
    "downpour, 2 shards": 'kind = "downpour", workers = 2, shards = 2',
    "quorum": 'kind = "quorum", workers = 2',
    "mesh": 'kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" }',
    "pipeline": 'kind = "pipeline", workers = 2, stages = 2, microbatches = 4',
    "branches": 'kind = "branches", lanes = 2',
}
BRANCHED = ("models:wide", "{ }", 32, 640, "sgd")  # for branches, which a row of modules has not


def stack_of(job: str, name: str) -> str:
    model, (args, batch, samples, optimizer) = "laminar:mlp", JOBS[job]
    if name == "branches":
        model, args, batch, samples, optimizer = BRANCHED
    settings = f", strategy = {{ {STRATEGIES[name]} }}" if STRATEGIES[name] else ""
    train = f'epochs = 2, batch = {batch}, optimizer = "{optimizer}", lr = 0.001, seed = 0, threads = 1{settings}'
    text = STACK.format(source="fashion-mnist", model=model, args=args, train=train)
    return text.replace('source = "fashion-mnist"', f'source = "fashion-mnist"\nlimit = {samples}')


def predicted(folder: Path) -> int:
    """Of the strategy that the stack in this folder asks for."""
    from laminar.plan.machine import this_machine
    from laminar.plan.price import Pricer, Refused
    from laminar.plan.profile.measure import Profile
    from laminar.plan.steps_needed import StepsModel
    from laminar.plan.trials.open_layer import open_layer
    from laminar.stack.project import open_project
    from laminar.train.strategies import strategy

    os.chdir(folder)
    project = open_project()
    with open_layer(project.need_file(), project.open_store(), "base") as (job, _), Profile.open(job, even_if_busy=True) as profile:
        machine, recipe = this_machine(profile.machine(2)), job.recipe
        pricer = Pricer(profile, machine, StepsModel.same(), base_batch=recipe.batch, threads=1)
        plan = pricer.price(strategy(recipe.strategy), recipe.batch)
        if isinstance(plan, Refused):
            raise SystemExit(plan.why)
        return plan.node_memory_bytes


def measured(folder: Path) -> tuple[int, str]:
    """Bytes, and what each process had then."""
    build = subprocess.Popen([sys.executable, "-m", "laminar", "build", "-q"], cwd=folder, stdout=subprocess.DEVNULL)
    chief, most, told = psutil.Process(build.pid), 0, ""
    while build.poll() is None:
        sizes = []
        with contextlib.suppress(psutil.Error):
            for one in (chief, *chief.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    sizes.append(one.memory_full_info().pss)
        if sum(sizes) > most:
            most, told = sum(sizes), " + ".join(f"{size / 1e6:.0f}" for size in sizes)
        time.sleep(LOOK)
    if build.returncode:
        raise SystemExit(f"laminar build ended with {build.returncode}")
    return most, told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", default="small,wide,deep")
    parser.add_argument("--only", metavar="STRATEGY", help=", ".join(STRATEGIES))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="what was measured before")
    args = parser.parse_args()
    errors = []
    with contextlib.ExitStack() as held:
        kept = (args.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))).absolute()
        os.environ["LAMINAR_PROFILE"] = str(kept / "profile.sqlite")
        for job in args.jobs.split(","):
            for name in [name for name in STRATEGIES if args.only in (None, name)]:
                with tempfile.TemporaryDirectory() as folder:
                    (Path(folder) / "laminar.toml").write_text(stack_of(job, name))
                    (Path(folder) / "models.py").write_text(MODELS)
                    guess, (seen, parts) = predicted(Path(folder)), measured(Path(folder))
                    os.chdir(tempfile.gettempdir())
                errors.append(guess / seen - 1)
                print(f"{job:9}{name:20}{guess / 1e6:7.0f} MB predicted {seen / 1e6:7.0f} measured {errors[-1]:+5.0%}  {parts}", flush=True)
    print(f"wrong by {max(map(abs, errors)):.0%} at most, over {len(errors)} builds")


if __name__ == "__main__":
    main()
