"""Tables that some ready experiments have besides: made of trials whose figures are known."""

from __future__ import annotations

import pytest

from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask, Ready
from laminar.experiments.ready.more import tables
from laminar.experiments.record import Description, Point, Trial, Variant
from laminar.experiments.variants import variant_of


def described(ready: Ready) -> tuple[Description, dict[str, Variant]]:
    variants = tuple(variant_of(one.settings, one.label) for one in ready.choices)
    made = Description(
        name=ready.name,
        title="",
        question="",
        stack="s",
        layer="net",
        axes=(),
        variants=variants,
        benchmark=variants[0].id,
        measures=ready.measures,
        repeats=1,
        target=ready.target,
    )
    return made, {one.label: one for one in variants}


def trial(variant: Variant, repeat: int = 0, **more: object) -> Trial:
    return Trial(variant=variant.id, repeat=repeat, outcome="done", started=0.0, wall=1.0, **more)  # type: ignore[arg-type]


def test_epochs_stand_beside_published_ones() -> None:
    (ready,) = parts("sequential", Ask())
    made, known = described(ready)
    curves = [
        tuple(Point(epoch=n + 1, seconds=2.0 * (n + 1), accuracy=0.8 + 0.01 * r, test_accuracy=0.7) for n in range(6)) for r in range(3)
    ]
    (table,) = tables(ready, made, [trial(known["one process"], r, curve=curve) for r, curve in enumerate(curves)])
    assert table.rows[0] == (1, pytest.approx(0.81), 0.8249, 0.7, 2.0, 1.92)
    assert table.rows[4] == (5, pytest.approx(0.81), 0.8914, 0.7, 2.0, 1.92)
    assert table.rows[5][2] is None  # the study stopped after five


def test_efficiency_of_strong_and_weak_scaling() -> None:
    (ready,) = parts("scaling", Ask())
    made, known = described(ready)
    seconds = {"1 worker": 8.0, "strong, 2 workers": 5.0, "weak, 2 workers": 4.0}
    trials = [trial(known[label], metrics={"seconds_per_epoch": value}) for label, value in seconds.items()]
    (table,) = tables(ready, made, trials)
    assert [row[:2] for row in table.rows] == [("strong", 1), ("strong", 2), ("weak", 1), ("weak", 2)]
    assert table.rows[1][2:] == (pytest.approx(1.6), pytest.approx(0.8))
    assert table.rows[3][2:] == (pytest.approx(2.0), pytest.approx(1.0))  # half the time of an epoch with twice the batch: ideal


def test_the_critical_batch_is_found_again() -> None:
    (ready,) = parts("batch", Ask())
    made, known = described(ready)
    trials = []
    for label, variant in known.items():
        if label.startswith("adam"):
            steps = round(100 * (1 + 1000 / variant.settings["batch"]))
            curve = (Point(epoch=1, seconds=1.0, step=steps, test_accuracy=0.99),)
            trials.append(trial(variant, curve=curve))
    (table,) = tables(ready, made, trials)
    assert table.rows[0][:2] == ("adam", 7)
    assert table.rows[0][2] == pytest.approx(100, rel=0.02)
    assert table.rows[0][3] == pytest.approx(1000, rel=0.02)
    assert [row[-1] for row in table.rows[1:]] == 3 * ["too few batches reached the target"]
    assert table.to_json()["rows"][0]["optimizer"] == "adam"
