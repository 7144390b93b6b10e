"""Speed-up and batch size: two workers and more against one, for every batch.

The proposal asks for a relation of both that holds on any machine, and says that batches above 1,024 stop to pay. Workers share each batch,
so what they exchange is the same whatever its size, and what they compute grows with it. Only time is looked at: all batches have one
rate, and what batches do to learning is the question of batch.py.
"""

from __future__ import annotations

from typing import Final

from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, at_least, below, rising
from laminar.experiments.ready.studies import GRADIENTS

BATCHES: Final = (32, 128, 512, 1024, 2048, 4096, 8192)
QUICK_BATCHES: Final = (50, 250, 500)
LINE: Final = 1024  # above which the proposal says that a batch does not pay


def label(workers: int, batch: int) -> str:
    return f"batch {batch:,}, {workers} worker{'s' if workers > 1 else ''}"


def ready(ask: Ask) -> Ready:
    samples = ask.samples or stacks.SAMPLES.get(ask.data or stacks.USUAL)
    known = QUICK_BATCHES if ask.quick else BATCHES
    batches = tuple(one for one in known if samples is None or ask.at_hand or one <= samples) or known[:1]
    counts = (1, 2) if ask.quick else tuple(sorted({1, 2, *((4,) if ask.cores >= 4 else ())}))
    last, above_line = batches[-1], [one for one in batches if one > LINE]
    return Ready(
        name="speedup",
        title="Speed-up and batch size",
        question="How much faster are more workers, for each batch size, and where does a larger batch stop to pay?",
        choices=tuple(
            Choice(label=label(workers, batch), settings={"workers": workers, "batch": batch}) for batch in batches for workers in counts
        ),
        measures=("speedup", "efficiency", "samples_per_second", "utilization", "seconds_per_epoch"),
        statements=(
            *(
                (
                    rising(
                        "The speed-up of two workers rises with the batch, all the way.", "speedup", "batch", {"workers": 2}, claim="4.e"
                    ),
                    above(
                        f"The speed-up of two workers is larger at batch {last:,} than at {batches[0]:,}.",
                        "speedup",
                        label(2, last),
                        label(2, batches[0]),
                        claim="4.e",
                    ),
                )
                if len(batches) > 1
                else ()
            ),
            at_least(f"At batch {last:,} two workers reach nine tenths of twice the rate of one.", "efficiency", label(2, last), 0.9),
            *(
                below(
                    f"Above {LINE:,} a batch stops to pay: two workers gain less than a tenth in samples per second at {batch:,}.",
                    "samples_per_second",
                    label(2, batch),
                    label(2, LINE),
                    110.0,
                    claim="4.a",
                )
                for batch in above_line[-1:]
                if LINE in batches
            ),
        ),
        study=GRADIENTS,
        repeats=4,  # what is held against a figure needs four
        stack=stacks.mlp(ask),
        own={"epochs": 3, "lr": 0.002},
        notes=("One rate for all batches: their losses are no question here, so they are not shown.",),
    )
