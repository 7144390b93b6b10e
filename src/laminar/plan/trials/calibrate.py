"""Calibrate: every kind of strategy, run for some steps on small models of unlike size.

So the ledger can correct what predictions leave out on this machine before any job of the user was run. Asked for by
`laminar plan --calibrate`; it takes a minute or two, once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from laminar.plan.ledger import Ledger
from laminar.plan.plan import Plan
from laminar.plan.profile.measure import Profile
from laminar.plan.search import Tell
from laminar.plan.trials.auto import try_plan
from laminar.plan.trials.open_layer import open_layer
from laminar.plan.trials.planner import Wishes, plan_job
from laminar.stack.read import read
from laminar.store.store import Store

STACK: Final = """\
[stack]
name = "calibration"

[data.digits]
source = "digits"

[[layer]]
name = "{name}"
model = "{model}"
args = {args}
data = "digits"
train = {{ epochs = 1000, batch = {batch}, optimizer = "sgd", lr = 0.001, threads = 1 }}
"""
# small and large products, and convolutions: what a step costs besides computing is the same in all of them
JOBS: Final = (
    ("small", "laminar:mlp", "{ hidden = [128] }", 256),
    ("large", "laminar:mlp", "{ hidden = [1024, 1024, 1024] }", 64),
    ("convolutions", "laminar:convnet", "{ channels = [32, 64], norm = false }", 128),
)


def calibrate(ledger: Ledger, workers: int, *, tell: Tell, even_if_busy: bool = False, only: Collection[str] = ()) -> int:
    """How many plans were run. `only`: of these jobs; all if none are named."""
    count = 0
    jobs = [one for one in JOBS if not only or one[0] in only]
    with tempfile.TemporaryDirectory(prefix="laminar-calibration-") as folder:
        root = Path(folder)
        for number, (name, model, args, batch) in enumerate(jobs):
            (root / "laminar.toml").write_text(STACK.format(name=name, model=model, args=args, batch=batch))
            file, store = read(root / "laminar.toml"), Store.open(root / ".laminar")
            with open_layer(file, store, name) as (job, description), Profile.open(job, even_if_busy=even_if_busy) as profile:
                tell("calibration", number, len(jobs))
                found = plan_job(job, profile, ledger, Wishes(workers=workers, batch=batch)).found
                for plan in best_of_each_kind(found.plans, workers):
                    tell(f"calibration: {name}, {plan.kind}", number, len(jobs))
                    count += try_plan(job, description, profile, ledger, plan, calibration=True) is not None
    return count


def best_of_each_kind(plans: list[Plan], workers: int) -> Iterator[Plan]:
    """With one process, or with all workers."""
    seen: set[str] = set()
    for plan in plans:
        if plan.kind not in seen and plan.workers in (1, workers):
            seen.add(plan.kind)
            yield plan
