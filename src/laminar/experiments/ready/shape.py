"""Width against depth at equal size: networks with as many parameters, from one wide hidden module to eight narrow ones.

Khamkar takes wide networks, parts of which can be trained in parallel, for cheaper to compute than deep ones. In `neurons` and
`depth` the size changes with the shape; here it does not, so what differs is the shape.
"""

from __future__ import annotations

import math
from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import ENVIRONMENT

DEPTHS: Final = (1, 2, 4, 8)
WIDEST, QUICK_WIDEST = 512, 256
INPUTS: Final = {"fashion-mnist": 784, "mnist": 784, "digits": 64}
CLASSES: Final = 10


def parameters(inputs: int, depth: int, width: int) -> int:
    """Weights and biases of `depth` hidden modules and the head."""
    return inputs * width + width + (depth - 1) * (width * width + width) + width * CLASSES + CLASSES


def width_of(inputs: int, depth: int, size: int) -> int:
    """With which so many hidden modules come closest to so many parameters: the root of a quadratic, or its neighbour."""
    a, b, c = depth - 1, inputs + depth + CLASSES, CLASSES - size
    root = -c / b if not a else (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    return min((math.floor(root), math.ceil(root)), key=lambda width: abs(parameters(inputs, depth, width) - size))


def _label(depth: int, width: int) -> str:
    return f"{depth} x {width}"


def ready(ask: Ask) -> Ready:
    data = ask.data or stacks.USUAL
    if data not in INPUTS:
        raise LaminarError(
            "L008",
            f"--data {data}: networks of one size need to know how large a sample is; {did_you_mean(data, INPUTS)}",
            hint="--data " + " | ".join(INPUTS),
        )
    inputs = INPUTS[data]
    size = parameters(inputs, 1, QUICK_WIDEST if ask.quick else WIDEST)
    depths = (1, 4, 8) if ask.quick else DEPTHS
    shapes = [(depth, width_of(inputs, depth, size)) for depth in depths]
    wide, deep = _label(*shapes[0]), _label(*shapes[-1])
    return Ready(
        name="shape",
        title="Wide or deep, at one size",
        question="Of networks with as many parameters, is a wide one cheaper to train than a deep one, and as good?",
        choices=tuple(Choice(label=_label(depth, width), settings={"depth": depth, "neurons": width}) for depth, width in shapes),
        measures=("seconds_per_epoch", "parameters", "accuracy", "loss", "samples_per_second", "overfit"),
        statements=(
            above("The deep network takes longer than the wide one.", "seconds_per_epoch", deep, wide, claim="3.c"),
            below("They have as many parameters: the deep one no more than two hundredths more.", "parameters", deep, wide, 102.0),
            above("… and no more than two hundredths less.", "parameters", deep, wide, 98.0),
            below("The deep network is less accurate than the wide one.", "accuracy", deep, wide),
            above("The deep network has the higher loss.", "loss", deep, wide),
        ),
        study=ENVIRONMENT,
        stack=stacks.mlp(ask),
        own={"epochs": 5, "batch": 32 if ask.quick else 128},
        notes=(f"Hidden modules x neurons of each; about {size:,} parameters each, with {inputs} numbers a sample.",),
    )
