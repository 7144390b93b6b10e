"""Order: rounds, what is left after any cut, repeats beside busy neighbours, halving, budgets."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from laminar.experiments.agenda import Rounds
from laminar.experiments.order import (
    BUSY_TRIES,
    Spent,
    another_round,
    another_trial,
    expected_seconds,
    later_halving,
    left,
    left_after_one_warm_up,
    left_halving,
    longest_seconds,
    over_budget,
    rungs,
)
from laminar.experiments.record import Statement, Trial
from laminar.experiments.statements import compared_first
from tests.pure.experiments.made_up_trials import curve, description, trial


def test_every_variant_is_trained_once_before_any_is_trained_twice() -> None:
    described = description({"workers": list(range(6))}, repeats=4, warm_up=1)
    order = left(described, [])
    assert [one.warm_up for one in order] == [True] * 6 + [False] * 24
    rounds = [[one.variant for one in order if not one.warm_up][i : i + 6] for i in range(0, 24, 6)]
    assert all(sorted(one) == sorted(v.id for v in described.variants) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1  # drift would hit the same variants in each
    assert left(described, []) == order
    assert left(described, [], seed=1) != order


@given(some.integers(0, 10_000))
def test_a_run_cut_anywhere_goes_on_as_it_would_have(seed: int) -> None:
    rng = random.Random(seed)
    described = description({"workers": [1, 2, 3]}, repeats=3, warm_up=1)
    trials: list[Trial] = []
    whole = left(described, trials)
    for number, one in enumerate(whole):
        assert left(described, trials) == whole[number:]
        failed = rng.random() < 0.2
        trials.append(
            trial(
                one.variant,
                one.repeat,
                outcome="failed" if failed else "done",
                counted=not one.warm_up,
                why_not="warm-up" if one.warm_up else "",
            )
        )
    assert left(described, trials) == []


def test_a_trial_beside_busy_neighbours_is_repeated_but_not_for_ever() -> None:
    described = description({"workers": [1]}, repeats=1)
    (one,) = left(described, [])
    assert not one.last_try
    busy = [trial(one.variant, 0, counted=False, why_not="others took 90% of a core meanwhile")] * (BUSY_TRIES - 1)
    assert not left(described, busy[:1])[0].last_try
    assert left(described, busy)[0].last_try
    assert left(described, [*busy, trial(one.variant, 0)]) == []


def test_more_repeats_are_what_is_left_of_a_finished_experiment() -> None:
    described = description({"workers": [1, 2]}, repeats=1, warm_up=1)
    trials = [
        trial(one.variant, one.repeat, counted=not one.warm_up, why_not="warm-up" if one.warm_up else "") for one in left(described, [])
    ]
    more = left(msgspec.structs.replace(described, repeats=2), trials)
    assert [(one.repeat, one.warm_up) for one in more] == [(1, False), (1, False)]


def test_variants_that_stand_on_each_other_come_in_turn() -> None:
    described = description({"workers": [1, 2, 3]}, repeats=2, warm_up=1)
    ids = [one.id for one in described.variants]
    whole = left_after_one_warm_up(described, [])
    assert [(one.variant, one.repeat, one.warm_up) for one in whole] == [
        (ids[0], 0, True),
        *((id, repeat, False) for repeat in (0, 1) for id in ids),
    ]
    warm = trial(ids[0], counted=False, why_not="warm-up")
    busy = trial(ids[0], counted=False, why_not="others took 90% of a core meanwhile")
    assert left_after_one_warm_up(described, [warm, busy]) == left_after_one_warm_up(described, [warm])  # it is tried again before the next
    assert [one.variant for one in left_after_one_warm_up(described, [warm, trial(ids[0])])] == [*ids[1:], *ids]
    assert left_after_one_warm_up(described, [trial(id, repeat) for id in ids for repeat in (0, 1)]) == []


def test_rungs() -> None:
    assert rungs(20, first=1, keep=3) == [1, 3, 9, 20]
    assert rungs(9, first=1, keep=3) == [1, 3, 9]
    assert rungs(1, first=1, keep=3) == [1]
    assert rungs(2, first=5, keep=2) == [2]


@pytest.mark.parametrize(
    ("benchmark", "ends", "epochs", "all_epochs"),
    [
        (8, [0.8], [1] * 6 + [3] * 2 + [9], 21),  # of 81
        (0, [0.8, 0.0], [1] * 5 + [3] * 2 + [9] * 2, 29),  # the worst of all: it goes on, so that there is a 100 %
    ],
)
def test_halving_keeps_the_best_and_the_benchmark(benchmark: int, ends: list[float], epochs: list[int], all_epochs: int) -> None:
    """Nine variants whose accuracy is their number: 9 at 1 epoch, 3 at 3, 1 to the end."""
    described = description({"workers": list(range(9))}, repeats=1)
    described = msgspec.structs.replace(described, benchmark=described.variants[benchmark].id)
    worth = {one.id: one.settings["workers"] / 10 for one in described.variants}
    trials: list[Trial] = []
    epochs_of: dict[str, int] = {}

    def ahead() -> list[object]:
        return left_halving(
            described,
            trials,
            epochs=lambda _: 9,
            first=1,
            keep=3,
            score=lambda t, until: t.curve[min(until, len(t.curve)) - 1].test_accuracy,
        )

    spent = 0
    while todo := ahead():
        one = todo[0]
        until = one.until or 9
        spent += until - epochs_of.get(one.variant, 0)
        epochs_of[one.variant] = until
        outcome = "done" if one.until is None else "stopped"
        trials.append(trial(one.variant, 0, outcome=outcome, curve=curve(*[worth[one.variant]] * until)))
    done = [one.variant for one in trials if one.outcome == "done"]
    assert [worth[id] for id in done] == ends
    assert sorted(epochs_of.values()) == epochs
    assert spent == all_epochs
    assert ahead() == []


def test_halving_goes_on_when_all_of_a_rung_fail() -> None:
    described = description({"workers": [1, 2, 3]}, repeats=1)
    failed = [trial(one.id, 0, outcome="failed") for one in described.variants]
    assert left_halving(described, failed, epochs=lambda _: 9, first=1, keep=3, score=lambda *_: 0.0) == []


def test_budgets() -> None:
    assert over_budget(Spent(seconds=10, trials=5), hours=None, trials=None) == ""
    assert over_budget(Spent(seconds=10, trials=5), hours=1, trials=6) == ""
    assert "trials" in over_budget(Spent(seconds=10, trials=6), hours=1, trials=6)
    assert "hours" in over_budget(Spent(seconds=3600, trials=5), hours=1, trials=6)


def test_the_expected_end() -> None:
    described = description({"workers": [1, 2]}, repeats=2)
    assert expected_seconds(left(described, []), []) is None
    trials = [trial(described.variants[0].id, 0, wall=4.0), trial(described.variants[1].id, 0, wall=2.0)]
    assert expected_seconds(left(described, trials), trials) == 6.0
    assert expected_seconds(left(described, trials[:1]), trials[:1]) == 12.0  # as long as the only one known
    assert expected_seconds(left(described, trials), trials, later=2) == 12.0  # and two of whatever, 3 s each


@pytest.mark.parametrize(("until", "later"), [(1, 5), (3, 2), (9, 1), (20, 0)])
def test_trials_of_later_rungs(until: int, later: int) -> None:
    assert later_halving(10, until, steps=rungs(20, first=1, keep=3), keep=3) == later  # 10 at 1, 3 at 3, 1 at 9, 1 at 20


# Repeats that fill a time


def test_what_the_main_question_compares_has_its_repeats_first() -> None:
    described = description({"workers": [1, 2, 3]}, repeats=2)
    one, two, three = (variant.id for variant in described.variants)
    order = [(what.variant, what.repeat) for what in left(described, [], None, first={one, three})]
    assert order == [(one, 0), (three, 0), (one, 1), (three, 1), (two, 0), (two, 1)]
    further = [(what.variant, what.repeat) for what in left(described, [], None, first={three}, more=[{one, two, three}, {two}])][6:]
    assert further == [(one, 2), (two, 2), (three, 2), (two, 3)]


def test_the_first_statement_says_what_is_compared_first() -> None:
    given = {"variant": {"workers": 3}, "measure": "seconds"}
    described = description({"workers": [1, 2, 3, 4]}, statements=(Statement(text="", rule="more_than", arguments=given),))
    one, two, three, _ = (variant.id for variant in described.variants)
    assert compared_first(described) == [one, three]  # against the benchmark
    assert compared_first(described, in_turn=True) == [one, two, three]  # with what they stand on
    bound = Statement(text="", rule="at_least", arguments={"variant": {"workers": 2}, "measure": "accuracy", "value": 0.5})
    assert compared_first(description({"workers": [1, 2]}, statements=(bound,))) == [two]
    assert compared_first(description()) == []


@pytest.mark.parametrize(("seconds", "fits"), [(10.0, True), (9.99, False), (0.0, False), (-1.0, False)])
def test_a_round_is_begun_where_the_longest_trials_of_all_variants_fit(seconds: float, fits: bool) -> None:
    assert another_round({"a": 6.0, "b": 4.0}, seconds) is fits


def test_a_trial_is_begun_where_the_longest_of_its_variant_would_end_in_time() -> None:
    assert another_trial({"a": 6.0}, "a", 6.1) and not another_trial({"a": 6.0}, "a", 6.0)
    assert another_trial({"a": 6.0}, "b", 0.1) and not another_trial({}, "b", 0.0)


def test_nothing_is_repeated_of_which_no_trial_came_to_its_end() -> None:
    assert not another_round({}, 1e9)
    trials = [
        trial("a", wall=2.0),
        trial("a", 1, wall=5.0),
        trial("a", 2, wall=9.0, counted=False, why_not="warm-up"),
        trial("b", outcome="failed", wall=1.0),
        trial("c", wall=7.0, sum_of=("a", "b")),  # nothing is trained for it
    ]
    assert longest_seconds(trials) == {"a": 5.0, "c": 0.0}


@given(some.tuples(some.integers(1, 9), some.integers(1, 9), some.integers(1, 9)), some.integers(1, 60))
def test_there_are_as_many_whole_rounds_as_fit(walls: tuple[int, int, int], budget: int) -> None:
    described = description({"workers": [1, 2, 3]}, repeats=1)
    wall = dict(zip((one.id for one in described.variants), walls, strict=True))
    agenda, clock = Rounds(described, 0, []), 0
    while agenda.left() or agenda.go_on(budget - clock):
        for what in agenda.left():
            clock += wall[what.variant]
            agenda.add(trial(what.variant, what.repeat, wall=wall[what.variant]))
    assert agenda.done() == 3 * max(1, budget // sum(walls))


def test_a_longer_trial_than_any_before_ends_the_repeats() -> None:
    described = description({"workers": [1]}, repeats=1)
    id = described.variants[0].id
    agenda = Rounds(described, 0, [trial(id, wall=2.0)])
    assert agenda.go_on(8.0)
    assert [(what.variant, what.repeat) for what in agenda.left()] == [(id, 1)]
    agenda.add(trial(id, 1, wall=7.0))
    assert agenda.left() == [] and not agenda.go_on(6.0)
