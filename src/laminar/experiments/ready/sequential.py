"""One process, one hidden module of 128, five epochs of Fashion-MNIST: accuracy and time of each epoch. The study's baseline.

The study printed one training, with a constant rate. So trained, another seed changes the test accuracy by as much as a point, and the
median is what the study has; so there are five repeats. The second choice begins at the same rate, which falls to nothing along a cosine:
a network is tested where it has come to rest. Nothing of it was chosen by the test images.
"""

from __future__ import annotations

import statistics
from typing import Final

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import at_least, at_most
from laminar.experiments.ready.studies import PRACTICE

LABEL, FALLING = "one process", "one process, falling rate"
ALONE: Final = {"workers": 1, "threads": 1}


def ready(ask: Ask) -> Ready:
    whole = not ask.quick and (ask.epochs or 5) == 5 and ask.samples is None and (ask.data or stacks.USUAL) == stacks.USUAL
    wanted, _ = tables.SEQUENTIAL_TEST
    usual = statistics.mean(seconds for _, seconds in tables.SEQUENTIAL)
    published = {
        "accuracy": wanted,
        "train_accuracy": tables.SEQUENTIAL[-1][0],
        "seconds_per_epoch": usual,
        "test_seconds": tables.SEQUENTIAL_TEST[1],
    }
    return Ready(
        name="sequential",
        title="Sequential training",
        question="How accurate is one hidden layer of 128 after five epochs, and how long does an epoch take?",
        choices=(
            Choice(label=LABEL, settings=ALONE | {"schedule": "constant", "lr": 0.001}, published=published if whole else {}),
            Choice(label=FALLING, settings=ALONE | {"schedule": "cosine", "lr": 0.001}),
        ),
        measures=("accuracy", "train_accuracy", "overfit", "seconds_per_epoch", "test_seconds", "loss"),
        statements=(
            at_least(f"After five epochs the accuracy on the test images is {wanted} or more.", "accuracy", LABEL, wanted),
            at_least("So it is with a rate that falls.", "accuracy", FALLING, wanted),
            at_most(f"An epoch takes {usual:.2f} s or less.", "seconds_per_epoch", LABEL, usual),
        )
        if whole
        else (),
        study=PRACTICE,
        percent=False,
        repeats=5,
        stack=stacks.mlp(ask),
        epochs=tuple({"train_accuracy": accuracy, "seconds": seconds} for accuracy, seconds in tables.SEQUENTIAL),
    )
