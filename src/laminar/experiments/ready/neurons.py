"""Width of the hidden module: 32, 128, 256, 512 neurons."""

from __future__ import annotations

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import PRACTICE


def ready(ask: Ask) -> Ready:
    widths = (32, 128, 512) if ask.quick else tuple(tables.NEURONS)
    return Ready(
        name="neurons",
        title="Neurons in the hidden layer",
        question="What does a wider network win, and what does it cost?",
        choices=tuple(Choice(label=f"{n} neurons", settings={"neurons": n}, published=tables.NEURONS[n]) for n in widths),
        measures=("loss", "accuracy", "seconds"),
        statements=(
            below("A wider network has a lower loss.", "loss", "512 neurons", "32 neurons", claim="2.c"),
            above("A wider network is more accurate.", "accuracy", "512 neurons", "32 neurons"),
            above(
                "Past 128 neurons the loss gains nothing: 512 have 95 % of it or more.",
                "loss",
                "512 neurons",
                "128 neurons",
                95.0,
                claim="2.c",
            ),
            above("Time grows with the neurons: 512 take longer than 32.", "seconds", "512 neurons", "32 neurons", claim="2.c"),
            above("512 neurons take more than four times as long as 32.", "seconds", "512 neurons", "32 neurons", 400.0),
            above("128 neurons take more than half as long again as 32.", "seconds", "128 neurons", "32 neurons", 150.0),
        ),
        study=PRACTICE,
        stack=stacks.mlp(ask),
    )
