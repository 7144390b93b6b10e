"""Strong and weak scaling: the same batch on more workers, and a batch that grows with them.

Efficiency is the rate in samples per second against that of one worker, divided by the workers; one and the same benchmark serves both.
"""

from __future__ import annotations

from laminar.experiments.extras import STRONG, WEAK
from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above
from laminar.experiments.ready.studies import GRADIENTS

BATCH = 1024
QUICK_SAMPLES = 16 * BATCH


def ready(ask: Ask) -> Ready:
    batch = ask.batch or BATCH
    counts = tuple(sorted({1, 2, *({3, 4} if not ask.quick else set()), ask.cores}))
    one = Choice(label="1 worker", settings={"workers": 1, "batch": batch})
    strong = [Choice(label=f"strong, {n} workers", settings={"workers": n, "batch": batch}, line=STRONG) for n in counts[1:]]
    weak = [Choice(label=f"weak, {n} workers", settings={"workers": n, "batch": n * batch}, line=WEAK) for n in counts[1:]]
    crowded = [n for n in counts if n > ask.cores]
    return Ready(
        name="scaling",
        title="Strong and weak scaling",
        question="How much faster are more workers, with the same batch and with one that grows with them?",
        choices=(one, *strong, *weak),
        measures=("samples_per_second", "seconds_per_epoch", "accuracy", "loss"),
        statements=(
            above(
                "Two workers are faster than one with the same batch (strong scaling).",
                "samples_per_second",
                "strong, 2 workers",
                "1 worker",
            ),
            above(
                "Two workers with twice the batch are faster than one (weak scaling).",
                "samples_per_second",
                "weak, 2 workers",
                "1 worker",
                claim="4.e",
            ),
            above(
                "Strong scaling is efficient: two workers reach nine tenths of twice the rate of one.",
                "samples_per_second",
                "strong, 2 workers",
                "1 worker",
                180.0,
            ),
            above(
                "Speed-up follows the batch: weak scaling is more efficient than strong scaling.",
                "samples_per_second",
                "weak, 2 workers",
                "strong, 2 workers",
                claim="4.e",
            ),
        ),
        study=GRADIENTS,
        stack=stacks.mlp(ask),
        # a thousand samples are one batch: nothing to share out
        own={**({"samples": QUICK_SAMPLES} if ask.quick else {}), "epochs": 3, "lr": 0.004, "scale_lr": "sqrt", "base_batch": batch},
        notes=tuple(f"{n} workers: this machine has {ask.cores} cores, so they take turns on them." for n in crowded),
    )
