"""An experiment whose trials are made up: four widths, five repeats, one of them failed."""

from __future__ import annotations

import random

from laminar.experiments.files import append_trial, write_description
from laminar.experiments.record import Axis, Description, Point, Published, Trial, Variant
from laminar.store.store import Store

WIDTHS = (32, 64, 128, 256)


def make(store: Store, name: str = "width", *, done: int = 5, title: str = "How wide should it be?") -> None:
    variants = tuple(Variant(id=f"v{width}", label=f"{width} neurons", settings={"neurons": width}) for width in WIDTHS)
    published = (Published(variant="v128", measure="seconds", value=118.0, percent=True, source="a paper"),)
    description = Description(
        name=name,
        title=title,
        question="Do more neurons learn more?",
        stack="digits",
        layer="strokes",
        axes=(Axis(name="neurons", values=WIDTHS),),
        variants=variants,
        benchmark="v64",
        measures=("seconds", "accuracy", "loss"),
        repeats=5,
        published=published,
        machine={"cores": 2},
        created=1_700_000_000.0,
    )
    write_description(store, description)
    noise = random.Random(3)
    for repeat in range(done):
        for place, width in enumerate(WIDTHS):
            append_trial(store, name, _trial(width, place, repeat, title, noise))


def _trial(width: int, place: int, repeat: int, words: str, noise: random.Random) -> Trial:
    started = 1_700_000_000.0 + 100 * repeat + place
    if (repeat, width) == (1, 256):
        error = {"code": "L601", "message": f"the loss is not finite: {words}", "hint": "a smaller lr"}
        return Trial(variant="v256", repeat=repeat, outcome="failed", started=started, wall=1.0, error=error)
    seconds, accuracy = 2 * (1 + 0.4 * place) * noise.uniform(0.95, 1.05), 0.8 + 0.03 * place + noise.uniform(-0.005, 0.005)
    curve = tuple(
        Point(epoch=e + 1, seconds=seconds * (e + 1) / 6, step=40 * (e + 1), loss=2 * 0.7**e, test_accuracy=accuracy - 0.12 * 0.6**e)
        for e in range(6)
    )
    figures = {"accuracy": accuracy, "loss": 0.5 - 0.05 * place + noise.uniform(-0.01, 0.01)}
    return Trial(
        variant=f"v{width}", repeat=repeat, outcome="done", started=started, wall=seconds + 1, seconds=seconds, metrics=figures, curve=curve
    )
