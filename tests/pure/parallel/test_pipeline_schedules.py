"""Schedules of pipelines: every action once, in an order that can be followed, in the time that their papers say."""

from __future__ import annotations

from collections import Counter

import pytest

from laminar.parallel.stages.schedules import Action, Stuck, forwards, one_after_the_other, orders, play
from laminar.train.splitting import Schedule

ALL: list[tuple[Schedule, int, int]] = [
    (name, stages, lanes)
    for name in ("gpipe", "1f1b", "interleaved", "zero-bubble")
    for stages, lanes in [(1, 1), (2, 2), (4, 4), (7, 7), (4, 2), (6, 3), (12, 4)]
    if stages == lanes or name == "interleaved"
]  # type: ignore[assignment]


@pytest.mark.parametrize(("name", "stages", "lanes"), ALL)
@pytest.mark.parametrize("batches", [1, 2, 3, 8, 13])
def test_everything_is_done_once_and_nobody_waits_for_ever(name: Schedule, stages: int, lanes: int, batches: int) -> None:
    found = orders(name, stages, lanes, batches)
    kinds = ("forward", "inputs", "weights") if name == "zero-bubble" else ("forward", "backward")
    done = Counter(action for order in found for action in order)
    assert done == Counter(Action(kind, stage, batch) for kind in kinds for stage in range(stages) for batch in range(batches))  # type: ignore[arg-type]
    assert all(action.stage % lanes == lane for lane, order in enumerate(found) for action in order)
    assert len(play(found, stages)) == sum(map(len, found))
    assert len(play(forwards(found), stages)) == stages * batches
    for order in found:  # what arrives is taken in the order it was sent in
        for kind in kinds:
            for stage in range(stages):
                numbers = [action.batch for action in order if action.kind == kind and action.stage == stage]
                assert numbers == sorted(numbers)


def length(name: Schedule, stages: int, lanes: int, batches: int) -> float:
    return max(one.end for one in play(orders(name, stages, lanes, batches), stages))


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("batches", [8, 16])
def test_idle_time_is_that_of_the_papers(lanes: int, batches: int) -> None:
    work = 3.0 * batches  # forward 1, backward 2
    idle = 3.0 * (lanes - 1)
    assert length("gpipe", lanes, lanes, batches) == work + idle
    assert length("1f1b", lanes, lanes, batches) == work + idle
    # twice the stages of half the work each: half the idle time; in units of a whole stage
    assert length("interleaved", 2 * lanes, lanes, batches) / 2 == work + idle / 2
    # only forward and inputs of others are waited for: a third
    assert length("zero-bubble", lanes, lanes, batches) == work + idle / 3


@pytest.mark.parametrize("lanes", [2, 4])
def test_1f1b_holds_no_more_micro_batches_than_there_are_stages(lanes: int) -> None:
    for name in ("1f1b", "zero-bubble"):
        for lane, order in enumerate(orders(name, lanes, lanes, 16)):  # type: ignore[arg-type]
            held = most = 0
            for action in order:
                held += {"forward": 1, "backward": -1, "weights": -1, "inputs": 0}[action.kind]
                most = max(most, held)
            assert most <= (lanes if name == "zero-bubble" else lanes - lane)


def test_branches_go_side_by_side() -> None:
    # a trunk, two branches, the trunk again
    found = one_after_the_other([0, 0, 1, 0], 2, 1)
    back = [(kind, s) for kind in ("inputs", "weights") for s in (3, 1, 0)]
    assert [(a.kind, a.stage) for a in found[0]] == [("forward", s) for s in (0, 1, 3)] + back
    assert [(a.kind, a.stage) for a in found[1]] == [("forward", 2), ("inputs", 2), ("weights", 2)]


def test_orders_that_cannot_be_followed_are_told() -> None:
    with pytest.raises(Stuck, match="all wait"):
        play([[Action("forward", 1, 0), Action("forward", 0, 0)]], 2)
