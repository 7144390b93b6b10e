"""Steps and time to a target, read off between two tests; and statements that something is more or less than so many per cent."""

from __future__ import annotations

import pytest

from laminar.experiments.measures import measure_of
from laminar.experiments.record import Description, Point, Statement, Trial
from laminar.experiments.statistics import summary
from laminar.experiments.variants import variant_of


def trial(*accuracies: float, seconds: float = 1.0, variant: str = "v", repeat: int = 0) -> Trial:
    curve = tuple(Point(epoch=n, seconds=float(n), step=100 * n, test_accuracy=a) for n, a in enumerate(accuracies, 1))
    return Trial(variant=variant, repeat=repeat, outcome="done", started=0.0, wall=1.0, seconds=seconds, curve=curve)


@pytest.mark.parametrize(
    ("accuracies", "steps"),
    [((0.5, 0.7, 0.9), 250), ((0.5, 0.8), 200), ((0.85,), 100), ((0.9, 0.5), 100), ((0.7, 0.6, 0.9), 300 - 100 / 3), ((0.7,), None)],
)
def test_between_two_tests(accuracies: tuple[float, ...], steps: float | None) -> None:
    found = measure_of(trial(*accuracies), "steps_to_target", 0.8)
    assert found == (None if steps is None else pytest.approx(steps))
    spent = measure_of(trial(*accuracies), "time_to_target", 0.8)
    assert spent == (None if steps is None else pytest.approx(steps / 100))


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [({"low": 150.0}, "confirmed"), ({"low": 250.0}, "refuted"), ({"high": 150.0}, "refuted"), ({"high": 250.0}, "confirmed")],
)
def test_more_or_less_than_so_many_per_cent(bound: dict[str, float], verdict: str) -> None:
    one, two = variant_of({"n": 1}), variant_of({"n": 2})
    said = Statement(text="", rule="within", arguments={"measure": "seconds", "variant": {"n": 2}, **bound})
    made = Description(
        name="x",
        title="",
        question="",
        stack="s",
        layer="l",
        axes=(),
        variants=(one, two),
        benchmark=one.id,
        measures=("seconds",),
        repeats=3,
        statements=(said,),
    )
    trials = [trial(0.9, seconds=s * (1 + r / 100), variant=v.id, repeat=r) for v, s in ((one, 1.0), (two, 2.0)) for r in range(3)]
    (judged,) = summary(made, trials).statements
    assert judged.verdict == verdict, judged.words
    assert "inf" not in judged.words
