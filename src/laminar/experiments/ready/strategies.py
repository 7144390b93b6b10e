"""Strategies against each other: who reaches the target accuracy first, with two workers."""

from __future__ import annotations

from typing import Any, Final

from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import APART

BATCH: Final = 256
RATE: Final = 0.002
# Asynchronous gradients have a rate of their own: that of one process is applied by every worker (explanation-parallel-training.md).
WAYS: Final[dict[str, dict[str, Any]]] = {
    "solo": {"strategy": "solo"},
    "sync": {"strategy": {"kind": "sync", "workers": 2}},
    "averaging": {"strategy": {"kind": "averaging", "workers": 2, "every": 16}},
    "downpour": {"strategy": {"kind": "downpour", "workers": 2}},
    "quorum": {"strategy": {"kind": "quorum", "workers": 3, "quorum": 0.67}},
    "mesh": {"strategy": {"kind": "mesh", "mesh": {"cols": 2}, "split": {"hidden": "cols"}}},
    "pipeline": {"strategy": {"kind": "pipeline", "stages": 2}},
}


def ready(ask: Ask) -> Ready:
    ways = {name: how for name, how in WAYS.items() if not ask.quick or name in ("solo", "sync", "averaging", "downpour")}
    target = stacks.target_of(ask)
    return Ready(
        name="strategies",
        title=f"Strategies, to an accuracy of {target:g}",
        question="Which strategy reaches the target first on this machine, and what is sent for it?",
        choices=tuple(Choice(label=name, settings=how) for name, how in ways.items()),
        measures=("time_to_target", "steps_to_target", "accuracy", "samples_per_second", "bytes", "staleness"),
        statements=(
            below("Synchronous data parallelism reaches the target sooner than one process.", "time_to_target", "sync", "solo"),
            below(
                "Averaging of models trained apart reaches it sooner than one process.", "time_to_target", "averaging", "solo", claim="3.a"
            ),
            below("Asynchronous gradients (Downpour) reach it sooner than one process.", "time_to_target", "downpour", "solo"),
            above("Asynchronous gradients need more steps than synchronous ones.", "steps_to_target", "downpour", "sync"),
        ),
        study=APART,
        stack=stacks.mlp(ask),
        own={"epochs": 15, "batch": BATCH, "lr": RATE},
        fixed={"target": {"accuracy": target}},
        target=target,
    )
