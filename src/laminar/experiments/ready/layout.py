"""The layout of training data in memory: how fast batches are fetched, by the form and the order of samples.

The proposal says that the way data lie in memory decides about fetches. Here nothing is trained: batches are made, as a model is given
them, float32 and one sample after the other, out of the same data in several forms. layout_run.py measures it.

    bytes or float32      a pixel takes one byte and is divided by 255 on its way, or four bytes
    by sample or feature  the numbers of a sample lie side by side, or those of a pixel over all samples
    shuffled or in turn   a batch takes samples from all over, as training does, or one after the other
    laminar               bytes by sample, shuffled, by the code that trains: a few batches at once
"""

from __future__ import annotations

from typing import Final

from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import GRADIENTS

BYTES, FLOATS = "bytes", "float32"
SAMPLE, FEATURE = "by sample", "by feature"
SHUFFLED, IN_TURN = "shuffled", "in turn"
LAMINAR: Final = "laminar"
BATCH: Final = 128


def label(form: str, by: str, order: str) -> str:
    return f"{form} {by}, {order}"


USUAL: Final = label(BYTES, SAMPLE, SHUFFLED)


def ready(ask: Ask) -> Ready:
    choices = [
        Choice(label=label(form, by, order), settings={"form": form, "by": by, "order": order})
        for by in (SAMPLE, FEATURE)
        for form in (BYTES, FLOATS)
        for order in (SHUFFLED, IN_TURN)
    ]
    return Ready(
        name="layout",
        title="Training data in memory",
        question="How fast are batches fetched, by the form and the order in which samples lie in memory?",
        choices=(*choices, Choice(label=LAMINAR, settings={"form": LAMINAR})),
        measures=("batches_per_second", "bytes_touched"),
        statements=(
            below(
                "How samples lie in memory decides about fetches: shuffled batches take longer where data lie by feature.",
                "batches_per_second",
                label(BYTES, FEATURE, SHUFFLED),
                USUAL,
                claim="4.c",
            ),
            above("… and touch more memory.", "bytes_touched", label(BYTES, FEATURE, SHUFFLED), USUAL, claim="4.c"),
            above(
                "Samples in turn are fetched faster than shuffled ones.",
                "batches_per_second",
                label(BYTES, SAMPLE, IN_TURN),
                USUAL,
                claim="4.c",
            ),
            below(
                "Data kept as float32 are fetched no faster than bytes, although nothing is divided.",
                "batches_per_second",
                label(FLOATS, SAMPLE, SHUFFLED),
                USUAL,
            ),
            above(
                "Laminar fetches shuffled bytes as fast as plain NumPy does, within a tenth.", "batches_per_second", LAMINAR, USUAL, 90.0
            ),
        ),
        study=GRADIENTS,
        repeats=5,
        warm_up=1,
        notes=(
            f"Batches of {ask.batch or BATCH:,}, made by one thread; the time has drawing the order in it. Bytes touched are whole cache "
            "lines of the data that a batch reads.",
            *(("A thousand samples fit in a cache: a quick look says little of shuffled or in turn.",) if ask.quick else ()),
        ),
    )
