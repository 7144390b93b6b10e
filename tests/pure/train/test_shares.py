"""Shares by measured speed: every row is given once, to whoever is fastest most, and not moved for nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.train.shares import FLOOR, WINDOW, Shares, Speed, apportion, least_of, rebalanced
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync, for_unlike_machines

WEIGHTS = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)
quick = settings(derandomize=True, max_examples=150, deadline=None)


@quick
@given(st.integers(0, 5000), WEIGHTS, st.integers(0, 3))
def test_all_is_given_and_more_to_the_heavier(total: int, weights: list[float], least: int) -> None:
    least = min(least, total // len(weights))
    found = apportion(total, weights, least)
    assert sum(found) == total and min(found) >= least
    assert found == apportion(total, weights, least)
    for a, have in zip(weights, found, strict=True):
        for b, has in zip(weights, found, strict=True):
            assert have >= has if a > b else True
            assert abs(have - has) <= 1 if a == b else True
    if not least:
        for weight, rows in zip(weights, found, strict=True):
            assert abs(rows - total * weight / sum(weights)) < 1 + 1e-6


@quick
@given(st.lists(st.integers(1, 500), min_size=1, max_size=12))
def test_whole_parts_are_given_as_they_are(rows: list[int]) -> None:
    assert apportion(sum(rows), rows) == rows


def test_what_is_not_there_cannot_be_given() -> None:
    with pytest.raises(ValueError, match="3 cannot be at least 2 for each of 2"):
        apportion(3, [1, 1], 2)
    assert apportion(3, [1, 1], least_of(3, 2)) == [2, 1]
    assert apportion(1, [1, 5, 1]) == [0, 1, 0]


@quick
@given(st.integers(1, 9), st.data())
def test_members_take_every_row_once_in_order(size: int, data: st.DataObject) -> None:
    batch = data.draw(st.integers(size, 300))
    rows = apportion(batch, data.draw(st.lists(st.floats(0.01, 100), min_size=size, max_size=size)), least_of(batch, size))
    count = data.draw(st.integers(1, batch))  # the last batch of an epoch may be short
    parts = [Shares(rank, size, batch, rows).own(count) for rank in range(size)]
    assert [i for part in parts for i in range(count)[part]] == list(range(count))
    if count >= 2 * size:
        assert all(part.stop - part.start >= 2 for part in parts)


@pytest.mark.parametrize("saved", [(), (3, 5), (1, 2, 3, 4), (4, 4, 4)])
def test_shares_of_another_team_or_batch_are_not_taken_over(saved: tuple[int, ...]) -> None:
    assert Shares(0, 3, 10, saved).rows == [4, 3, 3]
    assert Shares(0, 3, 10, (2, 2, 6)).rows == [2, 2, 6]


def test_a_speed_is_known_after_a_window_and_then_follows() -> None:
    speed = Speed()
    speed.observe(10, WINDOW / 2)
    assert not speed.value
    speed.observe(0, 100.0)  # nothing was done, so nothing was measured
    speed.observe(10, WINDOW / 2)
    assert speed.value == pytest.approx(20 / WINDOW)
    speed.observe(40, WINDOW)
    assert speed.value == pytest.approx(30 / WINDOW)


def test_rows_move_only_where_it_pays() -> None:
    assert rebalanced([50, 50], [100, 96], 2) == [50, 50]
    assert rebalanced([50, 50], [100, 50], 2) == [67, 33]
    assert rebalanced([67, 33], [100, 52], 2) == [67, 33]
    assert rebalanced([50, 50], [0, 0], 2) == [50, 50]  # nothing is known
    assert rebalanced([40, 40, 20], [100, 100, 0], 2) == [34, 33, 33]  # taken for one like the others
    assert rebalanced([2, 2], [1, 1.5], 1) == [2, 2]  # there is nothing finer than a row


def test_who_is_slowest_still_gets_some() -> None:
    rows = rebalanced([250] * 4, [1000, 1000, 1000, 0.001], 2)
    assert rows[3] == round(1000 * FLOOR / 4)
    assert rebalanced([4] * 4, [1000, 1000, 1000, 0.001], 2)[3] == 2


def trained(shares: Shares, spent: Callable[[int, int], float], looks: int) -> list[list[int]]:
    """The rows after each look at the speeds; `spent` by member and rows, for one batch."""
    seen = []
    for _ in range(looks):
        shares.hear(16 * shares.batch, [16 * spent(rank, rows) for rank, rows in enumerate(shares.rows)])
        seen.append(list(shares.rows))
    return seen


@quick
@given(st.lists(st.floats(0.2, 5.0), min_size=2, max_size=6), st.floats(0, 1.0), st.integers(64, 1024))
def test_times_become_equal_and_stay_so(per_row: list[float], fixed: float, batch: int) -> None:
    """Whatever a step costs beside its rows."""
    size, mean = len(per_row), batch / len(per_row)
    shares = Shares(0, size, batch)
    costs = [fixed * mean + rows * cost for rows, cost in zip(shares.rows, per_row, strict=True)]

    def spent(rank: int, rows: int) -> float:
        return fixed * mean + rows * per_row[rank]

    *_, before, last = trained(shares, spent, 40)
    assert before == last
    slowest = max(spent(rank, rows) for rank, rows in enumerate(last))
    per_second = sum(1 / cost for cost in per_row)
    best = (batch + sum(fixed * mean / cost for cost in per_row)) / per_second  # all times equal, in fractions of rows
    assert slowest <= max(costs) + 1e-9
    bound = any(rows <= least_of(batch, size) or rows <= batch / size * FLOOR + 1 for rows in last)
    assert bound or slowest <= 1.1 * best + max(per_row)


def test_noise_moves_nothing_and_a_change_of_speed_is_followed() -> None:
    noise = random.Random(1)
    shares = Shares(0, 4, 256)
    seen = trained(shares, lambda _, rows: rows * noise.uniform(0.96, 1.04), 200)
    assert seen == [[64] * 4] * 200
    seen = trained(shares, lambda rank, rows: rows * noise.uniform(0.96, 1.04) * (2 if rank == 3 else 1), 60)
    assert all(abs(a - b) <= 4 for a, b in zip(seen[-1], [73, 73, 73, 37], strict=True))
    assert sum(a != b for a, b in itertools.pairwise(seen)) <= 6  # there in a few moves, and no more of them


@pytest.mark.parametrize(
    ("how", "free"),
    [
        (Sync(workers=3), True),
        (Sync(workers=3, compress="int8"), False),  # what a packet leaves out depends on its rows
        (Quorum(workers=3), True),
        (Quorum(workers=3, compress="topk"), False),
        (Averaging(workers=3), False),  # another number of steps between averages
    ],
    ids=["sync", "sync, compressed", "quorum", "quorum, compressed", "averaging"],
)
def test_measured_shares_are_in_the_key_where_they_decide_about_the_result(how: Sync | Quorum | Averaging, free: bool) -> None:
    measured = msgspec.structs.replace(how, shares="measured")
    key = how.key_fields()
    assert measured.key_fields() == (key if free else {**(key or {}), "shares": "measured"})
    assert for_unlike_machines(how) == (measured if free else how)  # nobody's key is changed behind his back
    assert for_unlike_machines(measured) == measured


@pytest.mark.parametrize("how", [Solo(), Downpour()])
def test_others_have_no_shares(how: AnyStrategy) -> None:
    assert for_unlike_machines(how) is how


def test_one_round_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match='shares is "measured", but every = "end" is one round'):
        Averaging(every="end", shares="measured")
