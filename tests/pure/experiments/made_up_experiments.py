"""Made-up experiments, with trials whose figures are known: what reports and pictures are tried on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from laminar.experiments.record import Axis, Description, Point, Published, Statement, Trial, Variant

MACHINE = {"cpu": "a made-up processor", "cores": 2, "memory": "8.0 GB", "python": "3.11", "torch": "2.13.0"}


def variants(axes: Sequence[Axis], word: Callable[[str, Any], str] = lambda name, value: f"{value} {name}") -> tuple[Variant, ...]:
    settings: list[dict[str, Any]] = [{}]
    for axis in axes:
        settings = [{**one, axis.name: value} for one in settings for value in axis.values]
    return tuple(
        Variant(id=f"v{place:03d}", label=", ".join(word(name, value) for name, value in one.items()) or "as it stands", settings=one)
        for place, one in enumerate(settings)
    )


def described(axes: Sequence[Axis], **more: Any) -> Description:
    some = more.pop("variants", None) or variants(axes)
    given: dict[str, Any] = {
        "name": "made-up",
        "title": "How many workers?",
        "question": "Is training with several workers faster here, and does it cost accuracy?",
        "stack": "fashion",
        "layer": "head",
        "axes": tuple(axes),
        "variants": some,
        "benchmark": some[0].id,
        "measures": ("seconds", "accuracy", "loss"),
        "repeats": 3,
        "warm_up": 1,
        "machine": MACHINE,
        "created": 1_800_000_000.0,
    }
    return Description(**{**given, **more})


def trial(variant: Variant, repeat: int, *, seconds: float, accuracy: float, epochs: int = 5, seed: int = 0, **more: Any) -> Trial:
    """One that learns as most do: fast at first, and better on what it has seen."""
    rng = random.Random(f"{variant.id}/{repeat}/{seed}")
    seconds *= 1 + rng.uniform(-0.02, 0.02)
    accuracy += rng.uniform(-0.003, 0.003)
    curve = []
    for epoch in range(1, epochs + 1):
        held = accuracy - 0.35 * 0.4 ** (epoch - 1) / (1 + 0.3 * epoch)
        seen = held + 0.012 * epoch - 0.015
        curve.append(
            Point(
                epoch=epoch, seconds=seconds * epoch / epochs, step=epoch * 938, loss=1.2 * (1 - seen), accuracy=seen,
                test_loss=1.25 * (1 - held), test_accuracy=held,
            )
        )  # fmt: skip
    last = curve[-1]
    metrics = {"accuracy": last.test_accuracy, "loss": last.test_loss, "train_accuracy": last.accuracy}
    given: dict[str, Any] = {
        "variant": variant.id, "repeat": repeat, "outcome": "done", "started": 1_800_000_000.0 + 100 * repeat, "wall": seconds + 1.5,
        "seconds": seconds, "metrics": metrics, "curve": tuple(curve), "layer": f"{variant.id}{repeat}".ljust(64, "0"),
    }  # fmt: skip
    return Trial(**{**given, **more})


def cores() -> tuple[Description, list[Trial]]:
    """One to four workers, with the published figures; a warm-up each, one busy trial, one that failed."""
    axis = Axis(name="workers", values=(1, 2, 3, 4), path="layer.head.train.strategy.workers")
    words = {1: "1 worker", 2: "2 workers", 3: "3 workers", 4: "4 workers"}
    some = variants([axis], lambda _, value: words[value])
    percents = {"v001": (103.5, 99.76, 110.3), "v002": (105.0, 99.30, 105.1), "v003": (103.0, 99.74, 102.6)}
    published = tuple(
        Published(variant=id, measure=measure, value=value, percent=True, source="Balmforth, Fu, Kam: Parallel Machine Learning")
        for id, values in percents.items()
        for measure, value in zip(("loss", "accuracy", "seconds"), values, strict=True)
    )
    statement = Statement(
        text="Two cores are slower than one: the cost of communication.",
        rule="more_than",
        arguments={"measure": "seconds", "variant": {"workers": 2}},
    )
    description = described([axis], variants=some, published=published, statements=(statement,), repeats=5)
    times = {"v000": 9.4, "v001": 5.2, "v002": 5.05, "v003": 5.15}
    trials = []
    for one in some:
        trials.append(trial(one, 0, seconds=times[one.id] * 1.3, accuracy=0.87, epochs=1, counted=False, why_not="warm-up"))
    for repeat in range(5):
        for one in some:
            more: dict[str, Any] = {"series": {"bytes": tuple(1e6 * (one.settings["workers"] - 1) * (e + 1) for e in range(5))}}
            if (one.id, repeat) == ("v002", 1):
                trials.append(trial(one, repeat, seconds=8.0, accuracy=0.88, counted=False, busy=0.7, why_not="others took 70 % of a core"))
            if (one.id, repeat) == ("v003", 4):
                error = {"code": "L602", "message": "worker 3 died: killed by signal 9", "hint": "laminar doctor"}
                trials.append(Trial(variant=one.id, repeat=repeat, outcome="failed", started=0, wall=2.0, error=error))
                continue
            trials.append(trial(one, repeat, seconds=times[one.id], accuracy=0.885, busy=0.02, **more))
    return description, trials


def neurons() -> tuple[Description, list[Trial]]:
    """A width that rises by factors, with published figures."""
    axis = Axis(name="neurons", values=(32, 128, 256, 512), path="layer.head.args.hidden")
    percents = {"v001": (87.05, 101.5, 173.9), "v002": (89.17, 101.3, 267.8), "v003": (84.01, 102.2, 503.4)}
    published = tuple(
        Published(variant=id, measure=measure, value=value, percent=True, source="Balmforth, Fu, Kam: Parallel Machine Learning")
        for id, values in percents.items()
        for measure, value in zip(("loss", "accuracy", "seconds"), values, strict=True)
    )
    description = described(
        [axis], name="neurons", title="How wide?", question="What do more neurons cost, and what do they give?", published=published
    )
    figures = {"v000": (3.0, 0.862), "v001": (3.6, 0.879), "v002": (4.9, 0.884), "v003": (8.1, 0.889)}
    trials = [
        trial(one, repeat, seconds=figures[one.id][0], accuracy=figures[one.id][1]) for repeat in range(3) for one in description.variants
    ]
    return description, trials


def batches() -> tuple[Description, list[Trial]]:
    """Steps to a target that follow the law S (1 + B / b) with B = 900, for two optimizers; the largest batch of one never arrives."""
    axes = [Axis(name="optimizer", values=("sgd", "lamb")), Axis(name="batch", values=(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192))]
    description = described(
        axes,
        variants=variants(axes, lambda name, value: str(value) if name == "optimizer" else f"batch {value:,}"),
        name="batches", title="How large a batch?", question="From which batch on does a larger one stop paying?", target=0.85,
        measures=("steps_to_target", "time_to_target", "accuracy"),
    )  # fmt: skip
    trials = []
    for repeat in range(3):
        for one in description.variants:
            batch, critical = one.settings["batch"], 900 if one.settings["optimizer"] == "sgd" else 3000
            steps = round(120 * (1 + critical / batch) * (1 + 0.04 * (repeat - 1)))
            reaches = not (batch == 8192 and critical == 900)
            points = tuple(
                Point(
                    epoch=e,
                    seconds=e * 1.3,
                    step=steps * e // 4,
                    accuracy=0.5 + 0.09 * e,
                    test_accuracy=0.5 + (0.088 if reaches else 0.08) * e,
                )
                for e in range(1, 5)
            )
            trials.append(trial(one, repeat, seconds=5.2, accuracy=0.85, curve=points))
    return description, trials


def strategies() -> tuple[Description, list[Trial]]:
    """Kinds that are no numbers, with staleness and bytes over time, and very different times."""
    kinds: list[Any] = [
        "solo",
        "sync",
        {"kind": "averaging", "every": 16},
        {"kind": "downpour", "workers": 6, "servers": 3, "staleness": 4},
        "quorum",
    ]
    axis = Axis(name="strategy", values=tuple(kinds), path="layer.head.train.strategy")
    words = ["solo", "sync, 2 workers", "averaging every 16", "downpour, 6 workers and 3 servers", "quorum, 4 of 5"]
    some = tuple(
        Variant(id=f"v{i:03d}", label=word, settings={"strategy": kind}) for i, (kind, word) in enumerate(zip(kinds, words, strict=True))
    )
    description = described([axis], variants=some, name="strategies", title="Which strategy?",
        question="Which strategy reaches 0.86 first?", target=0.86,
                            measures=("time_to_target", "seconds", "accuracy", "loss", "bytes"))  # fmt: skip
    times = (9.4, 5.4, 5.9, 4.4, 150.0)
    trials = []
    for repeat in range(5):
        for place, one in enumerate(some):
            rng = random.Random(f"{place}/{repeat}")
            series = {} if place == 0 else {"bytes": tuple(2e6 * place * (e + 1) for e in range(5))}
            if place in (3, 4):
                series["staleness"] = tuple(1 + place + rng.uniform(-1, 1) for _ in range(400))
            made = trial(one, repeat, seconds=times[place], accuracy=0.885 - 0.004 * place, series=series)
            trials.append(Trial(**{name: getattr(made, name) for name in made.__struct_fields__ if name != "metrics"},
                                metrics={**made.metrics, **({"bytes": 1e7 * place} if place else {})}))  # fmt: skip
    return description, trials


def many_variants(count: int = 200) -> tuple[Description, list[Trial]]:
    values = tuple(round(0.0001 * 1.05**place, 6) for place in range(count))
    description = described(
        [Axis(name="lr", values=values)],
        name="many",
        title="Two hundred",
        repeats=2,
        variants=variants([Axis(name="lr", values=values)], lambda name, value: f"{name} {value}"),
    )
    trials = [
        trial(one, repeat, seconds=3.0, accuracy=0.88 - 0.0004 * abs(place - 90), epochs=3)
        for repeat in range(2)
        for place, one in enumerate(description.variants)
    ]
    return description, trials


NASTY = "<script>alert(1)</script> $x_1$ **bold** \\frac & \"quotes\" 'and' \x00\x1b[31m 日本語 🚀 " + "long" * 60


def nasty() -> tuple[Description, list[Trial]]:
    """Text that would do harm, or cannot be drawn, wherever a user may write some; and metrics that are no numbers."""
    some = tuple(Variant(id=f"v{i}", label=f"{i} {NASTY}", settings={NASTY: i}) for i in range(3))
    description = described(
        [Axis(name=NASTY, values=(0, 1, 2), path=NASTY, unit="<b>")], variants=some, name="nasty", title=NASTY,
        question=NASTY, stack=NASTY, layer=NASTY,
        machine={NASTY: NASTY}, notes=(NASTY,), statements=(Statement(text=NASTY, rule=NASTY),),
        published=(Published(variant="v1", measure="loss", value=1.0, percent=True, source=NASTY),),
    )  # fmt: skip
    nan = float("nan")
    trials = [
        trial(some[0], 0, seconds=2.0, accuracy=0.8, layer=NASTY, series={NASTY: (1.0, 2.0, 3.0)}),
        trial(some[0], 1, seconds=2.0, accuracy=0.8),
        trial(some[1], 0, seconds=2.0, accuracy=nan),
        trial(some[1], 1, seconds=2.0, accuracy=nan, metrics={"accuracy": nan, "loss": float("inf")}),
        Trial(variant="v2", repeat=0, outcome="failed", started=0.0, wall=1.0, error={"code": "L603", "message": NASTY, "hint": NASTY}),
        Trial(variant="v2", repeat=1, outcome="stopped", started=0.0, wall=1.0, why_not=NASTY),
    ]
    return description, trials


def empty() -> tuple[Description, list[Trial]]:
    return cores()[0], []


def only_failed() -> tuple[Description, list[Trial]]:
    description, _ = cores()
    error = {"code": "L601", "message": "loss is nan after 12 steps", "hint": "lower lr"}
    return description, [
        Trial(variant=one.id, repeat=0, outcome="failed", started=0.0, wall=1.0, error=error) for one in description.variants
    ]


def one_variant() -> tuple[Description, list[Trial]]:
    description = described([], name="one", repeats=3)
    return description, [trial(description.variants[0], repeat, seconds=4.0, accuracy=0.88) for repeat in range(3)]
