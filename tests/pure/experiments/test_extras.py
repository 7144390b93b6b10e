"""Tables that some experiments have besides that of all variants: made of trials whose figures are known."""

from __future__ import annotations

import pytest

from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask, Ready
from laminar.experiments.record import Axis, Description, Point, Trial, Variant
from laminar.experiments.results import Extra
from laminar.experiments.statistics import summary
from laminar.experiments.variants import variant_of


def described(ready: Ready) -> tuple[Description, dict[str, Variant]]:
    variants = tuple(variant_of(one.settings, one.label, one.line) for one in ready.choices)
    axes = tuple(Axis(name=name, values=()) for name in dict.fromkeys(name for one in variants for name in one.settings))
    made = Description(
        name=ready.name,
        title="",
        question="",
        stack="s",
        layer="net",
        axes=axes,
        variants=variants,
        benchmark=variants[0].id,
        measures=ready.measures,
        repeats=1,
        target=ready.target,
        epochs=ready.epochs,
    )
    return made, {one.label: one for one in variants}


def trial(variant: Variant, repeat: int = 0, **more: object) -> Trial:
    return Trial(variant=variant.id, repeat=repeat, outcome="done", started=0.0, wall=1.0, **more)  # type: ignore[arg-type]


def values(table: Extra) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in table.columns) for row in table.rows]


def test_epochs_stand_beside_published_ones() -> None:
    (ready,) = parts("sequential", Ask())
    made, known = described(ready)
    curves = [
        tuple(Point(epoch=n + 1, seconds=2.0 * (n + 1), accuracy=0.8 + 0.01 * r, test_accuracy=round(0.7 + 0.01 * r, 2)) for n in range(6))
        for r in range(3)
    ]
    (table,) = summary(made, [trial(known["one process"], r, curve=curve) for r, curve in enumerate(curves)]).tables
    assert values(table)[0] == (1, pytest.approx(0.81), 0.8249, 0.71, 0.7, 0.72, 2.0, 1.92)  # the median, the least, the most
    assert values(table)[4] == (5, pytest.approx(0.81), 0.8914, 0.71, 0.7, 0.72, 2.0, 1.92)
    assert table.rows[5]["published"] is None  # the study stopped after five


def test_efficiency_of_strong_and_weak_scaling() -> None:
    (ready,) = parts("scaling", Ask())
    made, known = described(ready)
    seconds = {"1 worker": 8.0, "strong, 2 workers": 5.0, "weak, 2 workers": 4.0}
    trials = [trial(known[label], metrics={"seconds_per_epoch": value}) for label, value in seconds.items()]
    (table,) = summary(made, trials).tables
    rows = values(table)
    assert [row[:2] for row in rows] == [("strong", 1), ("strong", 2), ("weak", 1), ("weak", 2)]
    assert rows[1][2:] == (pytest.approx(1.6), pytest.approx(0.8))
    assert rows[3][2:] == (pytest.approx(2.0), pytest.approx(1.0))  # half the time of an epoch with twice the batch: ideal


def test_the_critical_batch_is_found_again() -> None:
    ready, _ = parts("batch", Ask())
    made, known = described(ready)
    trials = []
    for label, variant in known.items():
        if label.startswith("adam"):
            steps = round(100 * (1 + 1000 / variant.settings["batch"]))
            curve = (Point(epoch=1, seconds=1.0, step=steps, test_accuracy=0.99),)
            trials.append(trial(variant, curve=curve))
    (table,) = summary(made, trials).tables
    assert values(table)[0][:2] == ("adam", 7)
    assert table.rows[0]["S_min"] == pytest.approx(100, rel=0.02)
    assert table.rows[0]["B_crit"] == pytest.approx(1000, rel=0.02)
    assert [row["found"] for row in table.rows[1:]] == 3 * ["too few batches reached the target"]


def test_the_critical_batch_goes_by_the_samples_that_steps_had() -> None:
    """The largest batches are above the 2,000 samples that there are: their steps have 2,000, whatever was asked for."""
    ready, _ = parts("batch", Ask())
    made, known = described(ready)
    trials = []
    for label, variant in known.items():
        if label.startswith("adam"):
            samples = min(2000, variant.settings["batch"])
            curve = (Point(epoch=1, seconds=1.0, step=round(100 * (1 + 1000 / samples)), test_accuracy=0.99),)
            trials.append(trial(variant, curve=curve, metrics={"samples_per_step": float(samples)}))
    (table,) = summary(made, trials).tables
    assert table.rows[0]["B_crit"] == pytest.approx(1000, rel=0.02)
    assert table.rows[0]["rms error of ln steps"] < 0.01


def test_what_a_larger_batch_saves_on_two_workers() -> None:
    """Adam takes half the time and twice the epochs, SGD as long; LARS missed the target once; of the others nothing is known."""
    _, ready = parts("batch", Ask())
    made, known = described(ready)
    trials = []
    for name, times in (("adam", 0.5), ("sgd", 1.0), ("lars", 0.5)):
        for repeat in range(4):
            for batch, factor in ((1024, 1.0), (4096, times)):
                accuracy = 0.5 if name == "lars" and batch == 4096 and not repeat else 0.9
                epochs = 4 if factor == 1.0 else 8
                curve = (Point(epoch=epochs, seconds=(20 + repeat) * factor, step=9, test_accuracy=accuracy),)
                trials.append(trial(known[f"{name}, {batch:,}"], repeat, curve=curve))
    (table,) = summary(made, trials).tables
    assert table.title == "Batch 4,096 against 1,024, to an accuracy of 0.86: 1 is as long"
    verdict = table.columns[-1]
    assert [(row["line"], row[verdict]) for row in table.rows] == [
        ("adam", "yes"),
        ("adamw", "not shown"),
        ("lamb", "not shown"),
        ("sgd", "no"),
        ("lars", "not shown"),
        ("any of them", "yes"),
    ]
    adam = table.rows[0]
    assert (adam["time"], adam["epochs"]) == (0.5, 2.0) and 0.38 < adam["low"] < 0.5 < adam["high"] < 0.66
    assert table.rows[1]["time"] is None
    without = [one for one in trials if one.variant not in (known["adam, 4,096"].id, known["lars, 4,096"].id)]
    assert summary(made, without).tables[0].rows[-1][verdict] == "not shown"


def test_what_checkpoints_explain_is_said() -> None:
    ready = parts("flowers", Ask(quick=True))[0]
    made, known = described(ready)
    plain = {"checkpoints": 0.0, "checkpoint_seconds": 0.0}
    slow = {"checkpoints": 5.0, "checkpoint_seconds": 10.0, "checkpoint_bytes": 2e6}
    found = summary(
        made,
        [
            trial(known["local"], seconds=8.0, metrics=plain),
            trial(known["slow store"], seconds=20.0, metrics=slow),
            trial(known["master, 2 workers, 1 server"], seconds=9.0),  # whose server writes meanwhile
        ],
    )
    (table,) = [one for one in found.tables if one.name == "checkpoints"]
    assert values(table) == [("local", 0.0, None, None, 0.0, 8.0, None), ("slow store", 5.0, 2.0, 2e6, 10.0, 10.0, 12.0)]
    (said,) = [note for note in found.notes if "stood still" in note]
    assert said.replace("\u00a0", " ") == (
        "slow store: training stood still for 10.00 s of its 20.00 s for 5 checkpoints of 2.00 s each, "
        "which is 83 % of what it takes longer than the benchmark"
    )
    assert found.rows[1].figures["without_checkpoints"].median == 10.0
