"""Speed-up and efficiency: each batch has a base of its own, and what no other is like is held against the benchmark."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_trials import description, trial

from laminar.core.errors import LaminarError
from laminar.experiments.compare import compare_experiments
from laminar.experiments.heard import hear
from laminar.experiments.record import Description, Trial, Variant
from laminar.experiments.spec import Halving, Search, Sweep, checked
from laminar.experiments.speedups import with_speedups
from laminar.experiments.statistics import summary
from laminar.experiments.variants import variant_of
from laminar.experiments.view import view

MEASURES = ("speedup", "efficiency", "samples_per_second")


def rated(variant: Variant, rate: float, workers: int = 1, repeat: int = 0, **more: Any) -> Trial:
    return trial(variant.id, repeat, metrics={"samples_per_second": rate}, team={"workers": workers} if workers > 1 else {}, **more)


def figures(made: Description, trials: list[Trial]) -> list[tuple[float | None, float | None]]:
    found = with_speedups(made, made.variants, trials)
    return [(one.metrics.get("speedup"), one.metrics.get("efficiency")) for one in found]


def test_every_batch_has_one_worker_of_its_own() -> None:
    made = description({"batch": [32, 1024], "workers": [1, 2]}, measures=MEASURES)
    alone32, two32, alone1024, two1024 = made.variants
    trials = [rated(alone32, 100.0), rated(two32, 50.0, 2), rated(alone1024, 400.0), rated(two1024, 720.0, 2)]
    assert figures(made, trials) == [(1.0, 1.0), (0.5, 0.25), (1.0, 1.0), (1.8, 0.9)]
    rows = {row.label: row for row in summary(made, trials).rows}
    assert rows["batch 1024, 2 workers"].figures["speedup"].median == 1.8
    assert view(made, trials).trials_of(two32.id)[0].metrics["efficiency"] == 0.25
    ((same,),) = [[one for one in compare_experiments((made, trials), (made, trials)).rows if one.measure == "speedup"][3:]]
    assert same.first == 1.8


def test_it_is_against_the_median_of_the_base() -> None:
    made = description(measures=MEASURES)
    one, two, _ = made.variants
    trials = [rated(one, rate, repeat=i) for i, rate in enumerate((90.0, 100.0, 130.0))] + [rated(two, 150.0, 2)]
    assert figures(made, trials) == [(0.9, 0.9), (1.0, 1.0), (1.3, 1.3), (1.5, 0.75)]


def test_strategies_are_ways_to_share_the_same_work_and_threads_are_cores() -> None:
    variants = [variant_of({"strategy": "solo"}), variant_of({"strategy": {"kind": "pipeline", "stages": 2}}), variant_of({"threads": 4})]
    made = description(variants=tuple(variants), benchmark=variants[0].id, measures=MEASURES)
    trials = [rated(variants[0], 100.0), rated(variants[1], 140.0, 2), rated(variants[2], 200.0)]
    assert figures(made, trials) == [(1.0, 1.0), (1.4, 0.7), (2.0, 0.5)]


def test_what_no_other_is_like_is_held_against_the_benchmark() -> None:
    """Weak scaling: the batch grows with the workers."""
    variants = [variant_of({"workers": n, "batch": 100 * n}) for n in (1, 2, 4)]
    made = description(variants=tuple(variants), benchmark=variants[0].id, measures=MEASURES)
    trials = [rated(one, rate, n) for one, rate, n in zip(variants, (100.0, 180.0, 300.0), (1, 2, 4), strict=True)]
    assert figures(made, trials) == [(1.0, 1.0), (1.8, 0.9), (3.0, 0.75)]


def test_trials_that_do_not_count_are_no_base_and_those_without_a_rate_have_none() -> None:
    made = description(measures=MEASURES)
    one, two, three = made.variants
    trials = [
        rated(one, 1.0, counted=False),
        rated(one, 100.0),
        rated(two, 120.0, 2),
        trial(three.id, outcome="failed"),
        trial(three.id, 1),
    ]
    assert figures(made, trials) == [(0.01, 0.01), (1.0, 1.0), (1.2, 0.6), (None, None), (None, None)]
    assert figures(description(), trials) == [(None, None)] * 5  # nobody asks for it
    assert figures(made, [rated(two, 5.0, 2)]) == [(None, None)]  # so far the benchmark was not run


@pytest.mark.parametrize("way", [{"halving": Halving(measure="speedup")}, {"search": Search(ranges={}, measure="efficiency")}])
def test_neither_halving_nor_search_goes_by_it(way: dict[str, Any]) -> None:
    with pytest.raises(LaminarError) as caught:
        checked(Sweep(**({"name": "x", "axes": {"workers": [1, 2]}, "repeats": 1} | way)))  # type: ignore[arg-type]
    assert caught.value.code == "L016"


def epoch(number: int, **more: Any) -> dict[str, Any]:
    return {"event": "epoch", "epoch": number, "step": 1, "seconds": 1.0, "train": {}, "test": {}, "t": 1.0, **more}


def test_utilization_is_what_workers_compute_of_their_time() -> None:
    start = {"event": "start", "t": 0.0}
    assert hear([start, epoch(0), epoch(1)]).metrics["utilization"] == 1.0  # one process waits for nobody
    assert hear([start, epoch(0, busy=[1.0, 0.5]), epoch(1, busy=[0.5, 0.5])]).metrics["utilization"] == 0.625
    team = {"bytes": 1, "computing": {"0": 3.0, "1": 1.0}, "waiting": {"0": 1.0, "1": 1.0}}
    end = {"event": "end", "team": team, "t": 2.0}
    assert hear([start, epoch(0, team=team), end]).metrics["utilization"] == 0.625
    assert "checkpoints" not in hear([start, epoch(0, team=team), end]).metrics  # servers write beside the training


def test_what_is_told_of_checkpoints_and_tests() -> None:
    saved = [{"event": "saved", "step": n, "why": why, "seconds": 2.0, "bytes": 10 * n, "t": 1.0} for n, why in ((1, "steps"), (3, "end"))]
    found = hear([{"event": "start", "t": 0.0}, epoch(0, test_seconds=0.5), *saved, epoch(1, test_seconds=0.7), {"event": "end", "t": 2.0}])
    wanted = {"checkpoints": 1.0, "checkpoint_seconds": 2.0, "checkpoint_bytes": 10.0, "test_seconds": 0.6}
    assert {name: found.metrics[name] for name in wanted} == pytest.approx(wanted)
