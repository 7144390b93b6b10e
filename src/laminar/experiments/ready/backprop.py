"""Back-propagation in parallel: a network's layers, or parts of them, on two workers, against one process.

The proposal asks whether that improves speed. Pipelines differ in the order in which a worker sends micro-batches there and back: all there
and then all back (GPipe, Huang et al., arXiv 1811.06965), one there and one back (1F1B, Narayanan et al., arXiv 1806.03377), and with the
gradients of weights put off to where a worker would wait (zero bubble, Qi et al., arXiv 2401.10241). A mesh splits every hidden module
(Shazeer et al., arXiv 1811.02084). All learn what one process learns, so loss and accuracy are no question of it.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above
from laminar.experiments.ready.studies import GRADIENTS

ALONE: Final = "one process"
MESH: Final = "mesh"
SCHEDULES: Final = ("gpipe", "1f1b", "zero-bubble")
DEPTH, NEURONS, BATCH = 4, 512, 512  # deep enough to be cut, and wide enough for a split to pay
QUICK_NEURONS, QUICK_BATCH = 256, 250


def ready(ask: Ask) -> Ready:
    ways: dict[str, dict[str, Any]] = {one: {"kind": "pipeline", "stages": 2, "schedule": one} for one in SCHEDULES}
    ways[MESH] = {"kind": "mesh", "mesh": {"cols": 2}, "split": {"hidden": "cols"}}
    batch = ask.batch or (QUICK_BATCH if ask.quick else BATCH)
    crowded = (f"This machine has {ask.cores} core, on which two workers take turns.",) if ask.cores < 2 else ()
    return Ready(
        name="backprop",
        title="Back-propagation in parallel",
        question="Is training faster where two workers have parts of the network, and which way to share it out is best?",
        choices=(
            Choice(label=ALONE, settings={"strategy": "solo"}),
            *(Choice(label=label, settings={"strategy": how}) for label, how in ways.items()),
        ),
        measures=("samples_per_second", "speedup", "efficiency", "utilization", "seconds_per_epoch", "loss", "accuracy"),
        statements=(
            *(
                above(
                    f"Back-propagation on two workers ({label}) is faster than in one process.",
                    "samples_per_second",
                    label,
                    ALONE,
                    claim="4.b",
                )
                for label in ways
            ),
            above("1F1B is faster than GPipe.", "samples_per_second", "1f1b", "gpipe"),
            above("Zero bubble keeps workers busier than GPipe.", "utilization", "zero-bubble", "gpipe"),
        ),
        study=GRADIENTS,
        stack=stacks.mlp(ask),
        own={
            "epochs": 2,
            "batch": batch,
            "lr": 0.002,
            "depth": DEPTH,
            "neurons": QUICK_NEURONS if ask.quick else NEURONS,
        },
        notes=(
            "All of them learn what one process learns, up to rounding: loss and accuracy are shown as proof, and not judged.",
            *crowded,
        ),
    )
