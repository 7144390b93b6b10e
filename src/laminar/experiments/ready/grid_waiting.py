"""Waiting: how much of their time nodes compute what is used, where a round waits for all answers, for 80 % of them, and where none does.

Five nodes on this machine, one of which has a quarter of the processor time of each other. They need two thirds of two cores, so none waits
for a processor. The tasks are alike, and nobody's answer is compared. Times are what nodes report (grid/utilization.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

from laminar.experiments.ready.form import Choice, Ready
from laminar.experiments.ready.judged import above
from laminar.experiments.ready.studies import GRID

SPEEDS: Final = (4.0, 4.0, 4.0, 4.0, 1.0)
NODES: Final = len(SPEEDS)
QUORUM: Final = 0.8
STACK: Final = """\
[stack]
name = "waiting"

[data.samples]
source = "digits"
sample = { per_class = 100, seed = 1 }

[[layer]]
name = "net"
model = "laminar:mlp"
args = { hidden = [256, 256] }
data = "samples"
train = { epochs = 1000, batch = 64, optimizer = "sgd", momentum = 0.9, lr = 0.02, seed = 0, threads = 1 }
"""
TASK: Final = {"kind": "grid", "workers": NODES, "local_steps": 250, "replicate": "never"}
ALL, MOST, CUT, NOBODY = "waits for all", "waits for 80 %", "80 %, late ones dropped", "async"
# So many versions that each is at it for about as long: a round that waits for all takes what four tasks of a fast node take. And long
# enough that what is under way when a run ends, and is late, is a small part of it.
STRATEGIES: Final[dict[str, dict[str, Any]]] = {
    ALL: {**TASK, "quorum": 1.0, "rounds": 12},
    MOST: {**TASK, "quorum": QUORUM, "rounds": 30},
    CUT: {**TASK, "quorum": QUORUM, "rounds": 30, "late": "drop"},
    NOBODY: {**TASK, "mode": "async", "rounds": 150},
}


def ready() -> Ready:
    return Ready(
        name="grid-waiting",
        title="Where the time of nodes goes",
        question="How much of their time do nodes compute what is used, when a round waits for all of them, for most, and for none?",
        choices=tuple(Choice(label=label, settings={"strategy": strategy}) for label, strategy in STRATEGIES.items()),
        measures=("computing", "waiting", "wasted", "accuracy", "seconds"),
        statements=(
            above(
                "Closing a round at 80 % of its answers has nodes compute more than waiting for all of them.",
                "computing",
                MOST,
                ALL,
                claim="5.a",
            ),
            above("So it has where what comes later is dropped.", "computing", CUT, ALL, claim="5.a"),
            above("Asynchronously nodes compute more than with rounds that close at 80 %.", "computing", NOBODY, MOST, claim="5.b"),
        ),
        study=GRID,
        repeats=4,
        timed=False,
        warm_up=1,  # the processes that compute are started by it
        stack=STACK,
        speeds=SPEEDS,
        notes=(
            "Five nodes on this machine; the last is four times as slow.",
            f"{QUORUM:.0%} of {NODES} tasks are {wanted(NODES)} answers; of four tasks and fewer they would be all of them.",
            "Computing has the sleep in it by which a node keeps to its share of the processors. Figures are what nodes report.",
        ),
    )


def wanted(tasks: int) -> int:
    """Answers that close a round of so many tasks."""
    return math.ceil(QUORUM * tasks - 1e-9)
