"""The aggregator, case by case: rounds, lateness, ageing, leaving, stalling, restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import (
    Action,
    Apply,
    CloseRound,
    Drop,
    Fetch,
    Finish,
    Gradient,
    Hold,
    Joined,
    Left,
    OpenRound,
    Part,
    Repeat,
    Stall,
    Tick,
    Welcome,
)
from laminar.parallel.aggregate.rules import Rules, sync
from laminar.parallel.aggregate.seen import WINDOW, Seen
from laminar.parallel.aggregate.weights import age, share, weigh


def gradient(worker: str, number: int, base: int = 0, round: int | None = None, now: float = 0.0, work: float = 1.0) -> Gradient:
    return Gradient(worker, number, base, f"{worker}{number}", now, round, work)


def begun(rules: Rules, workers: str, now: float = 0.0) -> Aggregator:
    """With these workers joined, one letter each."""
    made = Aggregator(rules)
    for worker in workers:
        made.on(Joined(worker, now))
    return made


def weights(actions: list[Action]) -> dict[str, float]:
    return {part.payload: part.weight for action in actions if isinstance(action, Apply) for part in action.parts}


def kinds(actions: list[Action]) -> list[type[Action]]:
    return [type(action) for action in actions]


# Rounds


def test_a_round_opens_when_enough_workers_are_there_and_closes_when_all_answered() -> None:
    made = Aggregator(sync(start=2))
    assert made.on(Joined("a", 1.0)) == [Welcome("a", 0, 0, None), Stall("too few workers", 1, 2)]
    assert made.on(Joined("b", 2.0)) == [Welcome("b", 0, 0, None), OpenRound(0, 0, None, 2)]
    assert made.on(gradient("b", 0, 0, 0, now=3.0, work=3)) == [Hold("b0")]
    assert made.on(gradient("a", 0, 0, 0, now=5.0)) == [
        Apply((Part("a0", "a", 0.25, 0), Part("b0", "b", 0.75, 0)), 1),
        CloseRound(0, 1, ("a", "b"), (), (), "quorum", True),
        OpenRound(1, 1, None, 2),
    ]
    assert (made.statistics.rounds, made.statistics.round_seconds, made.wakes) == (1, 3.0, None)


def test_one_worker_and_full_quorum_are_solo() -> None:
    """Every gradient is a step of weight 1 exactly, whatever its work."""
    made = begun(sync(), "a")
    for step in range(50):
        assert made.on(gradient("a", step, step, step, work=49.0)) == [
            Apply((Part(f"a{step}", "a", 1.0, 0),), step + 1),
            CloseRound(step, step + 1, ("a",), (), (), "quorum", True),
            OpenRound(step + 1, step + 1, None, 1),
        ]


def test_a_quorum_closes_without_the_slowest_and_what_is_late_changes_nothing() -> None:
    made = begun(Rules(kind="rounds", quorum=0.75, start=4, deadline=10.0), "abcd")
    made.on(gradient("a", 0, 0, 0))
    made.on(gradient("b", 0, 0, 0))
    closed = made.on(gradient("c", 0, 0, 0))
    assert closed[1:] == [CloseRound(0, 1, ("a", "b", "c"), ("d",), (), "quorum", True), OpenRound(1, 1, 10.0, 3)]
    assert made.on(gradient("d", 0, 0, 0)) == [Drop("d0", "d", "late"), Fetch("d", 1)]
    assert kinds(made.on(gradient("d", 1, 1, 1))) == [Hold]
    assert made.statistics.late == 1 and made.statistics.dropped == {"late": 1}


def test_late_gradients_age_into_the_open_round_and_are_no_answers_to_it() -> None:
    made = begun(Rules(kind="rounds", quorum=0.5, start=2, late="age", ageing=1.0), "ab")
    made.on(gradient("a", 0, 0, 0))  # closes round 0
    assert made.on(gradient("b", 0, 0, 0)) == [Hold("b0")]
    done = made.on(gradient("a", 1, 1, 1))
    assert weights(done) == pytest.approx({"a1": 2 / 3, "b0": 1 / 3})
    assert done[1] == CloseRound(1, 2, ("a",), ("b",), ("b",), "quorum", True)
    assert made.statistics.staleness == {0: 2, 1: 1}


def test_a_step_of_old_gradients_only_is_a_short_one() -> None:
    made = begun(Rules(kind="rounds", quorum=0.5, start=2, late="age", ageing=1.0, deadline=5.0), "ab")
    made.on(gradient("a", 0, 0, 0))
    made.on(gradient("b", 0, 0, 0))
    assert weights(made.on(Tick(5.0))) == {"b0": 0.5}


def test_the_deadline_closes_with_what_is_there() -> None:
    made = begun(Rules(kind="rounds", start=3, minimum=2, deadline=2.0), "abc")
    made.on(gradient("a", 0, 0, 0))
    made.on(gradient("b", 0, 0, 0))
    assert made.wakes == 2.0
    assert made.on(Tick(1.9)) == []
    assert kinds(made.on(Tick(2.0))) == [Apply, CloseRound, OpenRound]
    assert made.statistics.by_deadline == 1


def test_a_gradient_after_the_deadline_is_late_even_if_nobody_ticked() -> None:
    made = begun(Rules(kind="rounds", start=2, deadline=2.0), "ab")
    made.on(gradient("a", 0, 0, 0))
    assert kinds(made.on(gradient("b", 0, 0, 0, now=9.0))) == [Apply, CloseRound, OpenRound, Drop, Fetch]


def test_below_the_minimum_a_round_closes_without_a_step_and_loses_nothing() -> None:
    made = begun(Rules(kind="rounds", start=3, minimum=2, deadline=2.0), "abc")
    made.on(gradient("a", 0, 0, 0))
    assert made.on(Tick(2.0)) == [CloseRound(0, 0, ("a",), ("b", "c"), (), "deadline", False), OpenRound(1, 0, 4.0, 3)]
    assert made.on(gradient("b", 0, 0, 0, now=3.0)) == [Hold("b0")]  # of the round before, and fresh: nothing was changed since
    done = made.on(Tick(4.0))
    assert done[:2] == [
        Apply((Part("a0", "a", 0.5, 0), Part("b0", "b", 0.5, 0)), 1),
        CloseRound(1, 1, ("b",), ("a", "c"), (), "deadline", True),
    ]


def test_a_deadline_shorter_than_every_worker_still_trains() -> None:
    """Round after round closes empty, but an answer to any of them is as fresh as one to the newest."""
    made = begun(Rules(kind="rounds", start=2, deadline=1.0, late="drop"), "ab")
    for now in (1.0, 2.0, 3.0):
        assert kinds(made.on(Tick(now))) == [CloseRound, OpenRound]
    made.on(gradient("a", 0, 0, 0, now=3.5))
    assert weights(made.on(gradient("b", 0, 0, 0, now=3.6))) == {"a0": 0.5, "b0": 0.5}
    assert made.statistics.stepless == 3


def test_who_leaves_is_no_longer_waited_for_and_what_it_sent_counts() -> None:
    made = begun(sync(start=3), "abc")
    made.on(gradient("a", 0, 0, 0))
    assert made.on(Left("a", 0.0)) == []
    made.on(gradient("b", 0, 0, 0))
    done = made.on(Left("c", 0.0))
    assert weights(done) == {"a0": 0.5, "b0": 0.5}
    assert done[-1] == OpenRound(1, 1, None, 1)


def test_who_joins_is_waited_for_from_the_next_round_on_but_may_answer_this_one() -> None:
    made = begun(sync(start=2), "ab")
    assert made.on(Joined("c", 0.0)) == [Welcome("c", 0, 0, 0)]
    made.on(gradient("a", 0, 0, 0))
    assert kinds(made.on(gradient("c", 0, 0, 0))) == [Hold]
    done = made.on(gradient("b", 0, 0, 0))
    assert len(weights(done)) == 3 and done[-1] == OpenRound(1, 1, None, 3)


def test_a_joiner_that_became_the_only_one_is_waited_for() -> None:
    made = begun(sync(), "a")
    made.on(Joined("b", 0.0))
    assert made.on(Left("a", 0.0)) == []
    assert not made.stalled
    assert kinds(made.on(gradient("b", 0, 0, 0))) == [Apply, CloseRound, OpenRound]


def test_a_late_gradient_that_is_held_does_not_hide_that_nobody_is_waited_for() -> None:
    made = begun(Rules(kind="rounds", quorum=0.5, late="age", start=2), "ab")
    made.on(gradient("a", 0, 0, 0))
    assert made.on(gradient("b", 0, 0, 0)) == [Hold("b0")]  # late, in the round that is open now
    made.on(Left("a", 0.0))
    made.on(Left("b", 0.0))
    made.on(Joined("a", 0.0))
    made.on(Joined("b", 0.0))
    assert made.awaited == ("a",) and not made.stalled  # half of those who are there again
    done = made.on(gradient("a", 1, 1, 1))
    assert set(weights(done)) == {"a1", "b0"} and kinds(done)[-1] == OpenRound


def test_it_says_so_when_nobody_is_left_and_goes_on_with_who_comes() -> None:
    made = begun(sync(start=2), "ab")
    made.on(Left("a", 0.0))
    assert made.on(Left("b", 0.0)) == [Stall("no workers", 0, 1)]
    assert made.on(Tick(100.0)) == []  # said once
    assert made.on(Joined("c", 100.0)) == [Welcome("c", 0, 0, 0)]
    assert kinds(made.on(gradient("c", 0, 0, 0))) == [Apply, CloseRound, OpenRound]


def test_it_says_so_when_too_few_are_left_for_the_minimum() -> None:
    made = begun(Rules(kind="rounds", start=2, minimum=2), "ab")
    made.on(gradient("a", 0, 0, 0))
    assert made.on(Left("b", 0.0)) == [Stall("too few workers", 1, 2)]
    made.on(Joined("c", 0.0))
    assert not made.stalled
    assert weights(made.on(gradient("c", 0, 0, 0))) == {"a0": 0.5, "c0": 0.5}


def test_one_answer_a_round_and_worker() -> None:
    made = begun(sync(start=2), "ab")
    made.on(gradient("a", 0, 0, 0))
    assert made.on(gradient("a", 1, 0, 0)) == [Drop("a1", "a", "answered")]


def test_a_round_of_answers_takes_them_from_whoever_gives_them() -> None:
    made = begun(Rules(kind="rounds", answers=5, quorum=0.8, deadline=60.0), "a")
    assert made.on(Joined("b", 1.0))[0] == Welcome("b", 0, 0, 0)
    for number in range(3):
        assert kinds(made.on(gradient("b", number, 0, 0))) == [Hold]
    made.on(Left("b", 2.0))
    done = made.on(gradient("a", 0, 0, 0))
    assert kinds(done) == [Apply, CloseRound, OpenRound] and len(weights(done)) == 4


# Arrival


def test_each_gradient_is_a_step_weighed_by_its_age() -> None:
    made = begun(Rules(kind="arrival", ageing=1.0, max_staleness=2), "ab")
    assert made.on(gradient("a", 0, 0)) == [Apply((Part("a0", "a", 1.0, 0),), 1)]
    assert made.on(gradient("a", 1, 1)) == [Apply((Part("a1", "a", 1.0, 0),), 2)]
    assert made.on(gradient("b", 0, 0)) == [Apply((Part("b0", "b", 1 / 3, 2),), 3)]
    assert made.on(gradient("b", 1, 0)) == [Drop("b1", "b", "stale"), Fetch("b", 3)]
    assert made.statistics.staleness == {0: 2, 2: 1} and made.statistics.mean_staleness == pytest.approx(2 / 3)


def test_one_of_several_counts_for_its_share_and_is_old_when_it_is_older_than_they_make_it() -> None:
    made = begun(Rules(kind="arrival", ageing=1.0, among=2), "ab")
    assert made.on(gradient("a", 0, 0)) == [Apply((Part("a0", "a", 1 / 2, 0),), 1)]
    assert made.on(gradient("b", 0, 0)) == [Apply((Part("b0", "b", 1 / 2, 1),), 2)]
    made.on(Joined("c", 0.0))
    assert made.on(gradient("c", 0, 0)) == [Apply((Part("c0", "c", 1 / 3, 2),), 3)]
    made.on(Left("c", 0.0))
    assert weights(made.on(gradient("a", 1, 0))) == {"a1": pytest.approx(1 / 4)}  # three steps old, and one is usual
    made.on(Left("b", 0.0))
    assert weights(made.on(gradient("a", 2, 4))) == {"a2": 1 / 2}  # its rate is for two


def test_what_a_worker_has_sent_makes_nothing_old_that_it_sends_later() -> None:
    made = begun(Rules(kind="arrival", ageing=1.0, max_staleness=1, own="known"), "ab")
    for number in range(4):  # without fetching
        assert weights(made.on(gradient("a", number, 0))) == {f"a{number}": 1.0}
    assert made.on(gradient("b", 0, 0)) == [Drop("b0", "b", "stale"), Fetch("b", 4)]
    assert weights(made.on(gradient("b", 1, 4))) == {"b1": 1.0}
    assert weights(made.on(gradient("a", 4, 2))) == {"a4": 1 / 2}  # 3, 4 are its own, 5 is not
    assert weights(made.on(gradient("a", 5, 5))) == {"a5": 1.0}  # 6 is its own
    again = Aggregator.load(made.rules, json.loads(json.dumps(made.state())))
    assert weights(again.on(gradient("a", 6, 5))) == {"a6": 1.0}


def test_where_parameters_take_the_place_of_a_workers_own_only_what_it_sent_since_is_known() -> None:
    made = begun(Rules(kind="arrival", ageing=1.0, own="ahead"), "a")
    assert weights(made.on(gradient("a", 0, 0))) == {"a0": 1.0}
    assert weights(made.on(gradient("a", 1, 0))) == {"a1": 1.0}
    assert weights(made.on(gradient("a", 2, 1))) == {"a2": 1 / 2}  # version 2 was under way when it got version 1 in place of its own
    assert weights(made.on(gradient("a", 3, 1))) == {"a3": 1 / 2}


def test_a_step_that_others_had_a_part_in_makes_their_gradients_old() -> None:
    made = begun(Rules(kind="arrival", ageing=1.0, buffer=2, own="known"), "ab")
    made.on(gradient("a", 0, 0))
    made.on(gradient("b", 0, 0))
    made.on(gradient("a", 1, 0))
    assert [part.staleness for action in made.on(gradient("a", 2, 1)) if isinstance(action, Apply) for part in action.parts] == [1, 0]
    made.on(gradient("a", 3, 1))
    assert [part.staleness for action in made.on(gradient("b", 1, 1)) if isinstance(action, Apply) for part in action.parts] == [0, 1]


def test_a_buffer_steps_when_it_is_full_or_its_first_gradient_waited_long_enough() -> None:
    made = begun(Rules(kind="arrival", buffer=3, deadline=5.0), "ab")
    made.on(gradient("a", 0, 0, now=1.0))
    made.on(gradient("a", 1, 0, now=2.0))
    assert len(weights(made.on(gradient("b", 0, 0, now=3.0)))) == 3
    assert made.wakes is None
    made.on(gradient("b", 1, 1, now=4.0))
    made.on(gradient("a", 2, 0, now=8.0))
    assert made.wakes == 9.0
    done = made.on(Tick(9.0))
    assert sum(weights(done).values()) == pytest.approx(1) and kinds(done) == [Apply]


def test_no_workers_is_said_where_there_are_no_rounds_too() -> None:
    made = begun(Rules(kind="arrival"), "a")
    assert made.on(Left("a", 0.0)) == [Stall("no workers", 0, 1)]
    assert kinds(made.on(gradient("a", 0, 0))) == [Apply]  # it was under way


# Nothing twice, nothing lost


def test_the_same_gradient_again_is_acknowledged_and_ignored() -> None:
    made = begun(Rules(kind="arrival", buffer=2), "a")
    made.on(gradient("a", 0, 0))
    assert made.on(gradient("a", 0, 0)) == [Repeat("a", 0)]
    assert len(weights(made.on(gradient("a", 1, 0)))) == 2
    assert made.on(gradient("a", 1, 0)) == [Repeat("a", 1)]
    assert made.statistics.repeated == 2


def test_who_comes_back_is_told_where_its_numbers_go_on() -> None:
    made = begun(Rules(kind="arrival"), "a")
    for number in (0, 1, 5):
        made.on(gradient("a", number, 0))
    made.on(Left("a", 0.0))
    assert made.on(Joined("a", 0.0)) == [Welcome("a", 3, 6, None)]


def test_a_gradient_of_a_future_that_a_restart_undid_is_refused() -> None:
    made = begun(Rules(kind="arrival"), "a")
    assert made.on(gradient("a", 0, 7)) == [Drop("a0", "a", "future"), Fetch("a", 0)]
    rounds = begun(sync(), "a")
    assert rounds.on(gradient("a", 0, 0, 3)) == [Drop("a0", "a", "future"), Fetch("a", 0)]
    assert rounds.on(gradient("a", 1, 0, None)) == [Drop("a1", "a", "future"), Fetch("a", 0)]


def test_who_never_joined_is_not_listened_to() -> None:
    assert Aggregator(Rules(kind="arrival")).on(gradient("x", 0))[0] == Drop("x0", "x", "unknown")


def test_the_end_applies_what_is_held_or_says_why_not() -> None:
    made = begun(Rules(kind="arrival", buffer=9), "a")
    made.on(gradient("a", 0, 0))
    assert made.on(Finish(1.0)) == [Apply((Part("a0", "a", 1.0, 0),), 1)]
    assert made.on(gradient("a", 1, 1)) == [Drop("a1", "a", "finished")]
    assert made.on(Finish(1.0)) == []
    rounds = begun(Rules(kind="rounds", start=2, minimum=2), "ab")
    rounds.on(gradient("a", 0, 0, 0))
    assert rounds.on(Finish(1.0)) == [CloseRound(0, 0, ("a",), ("b",), (), "end", False), Drop("a0", "a", "too few")]
    assert rounds.on(Joined("c", 2.0)) == [Welcome("c", 0, 0, None)]


def test_time_that_goes_back_neither_hurries_nor_delays() -> None:
    made = begun(Rules(kind="rounds", deadline=10.0), "a", now=1000.0)
    assert made.on(Tick(1004.0)) == []
    assert made.on(Tick(3.0)) == []  # another clock: 6 seconds are left
    assert made.wakes == 9.0
    assert made.on(Tick(8.9)) == []
    assert kinds(made.on(Tick(9.0))) == [CloseRound, OpenRound]
    assert made.statistics.round_seconds == 10.0


def test_the_state_is_json_and_holds_everything() -> None:
    made = begun(Rules(kind="rounds", start=2, deadline=4.0), "ab")
    made.on(gradient("a", 7, 0, 0, now=1.0))
    saved = json.dumps(made.state())
    again = Aggregator.load(made.rules, json.loads(saved))
    assert json.dumps(again.state()) == saved
    assert weights(again.on(gradient("b", 0, 0, 0, now=2.0))) == {"a7": 0.5, "b0": 0.5}
    assert again.on(gradient("a", 7, 0, 0)) == [Repeat("a", 7)]
    assert json.dumps(made.state()) == saved  # two lives of one state do not share it


def test_numbers_behind_the_window_count_as_seen() -> None:
    seen = Seen()
    assert all(seen.add(number) for number in range(2, WINDOW + 3))  # 0 and 1 never came
    assert not seen.add(0) and not seen.add(1) and len(seen.above) == 0
    assert seen.next == WINDOW + 3


def test_a_gap_is_given_up_by_how_many_came_beyond_it_and_not_by_how_far_they_are() -> None:
    seen = Seen()
    assert seen.add(5000) and seen.add(0) and seen.floor == 0
    assert all(seen.add(number) for number in range(10_000, 10_000 + WINDOW - 1)) and seen.add(1)
    assert seen.add(20_000) and not seen.add(2) and seen.floor == 5000  # one more than is remembered: the lowest of them is the floor


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30)))
def test_numbers_are_seen_once(numbers: list[int]) -> None:
    seen, known = Seen(), set[int]()
    for number in numbers:
        assert seen.add(number) == (number not in known)
        known.add(number)
        assert seen.next == max(known) + 1


# Weights and rules


def test_ages() -> None:
    assert [age(s, 0.5) for s in (0, 3)] == [1.0, 0.5]
    assert age(1000, 0.0) == 1.0
    assert [share(s, 0.5, 4) for s in (0, 3, 15)] == [0.25, 0.25, 0.125] and share(1000, 0.0, 2) == 0.5 and share(0, 8.0, 1) == 1.0
    assert weigh([49.0], [1.0]) == [1.0]
    assert weigh([2.0, 1.0], [0.5, 1.0]) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"quorum": 0.0}, "quorum is 0.0"),
        ({"quorum": 1.5}, "quorum is 1.5"),
        ({"minimum": 0}, "minimum is 0"),
        ({"deadline": 0.0}, "deadline is 0.0"),
        ({"ageing": -1.0}, "ageing is -1.0"),
        ({"max_staleness": -1}, "max_staleness is -1"),
        ({"answers": 5}, "answers is 5 without a deadline"),
        ({"answers": 5, "deadline": 1.0, "minimum": 6}, "minimum is 6, but a round has 5"),
        ({"buffer": 2}, 'buffer is given with kind = "rounds"'),
        ({"among": 2}, 'among is given with kind = "rounds"'),
        ({"kind": "arrival", "among": 0}, "among is 0"),
        ({"kind": "arrival", "quorum": 0.5}, 'quorum is given with kind = "arrival"'),
        ({"kind": "arrival", "buffer": 0}, "buffer is 0"),
        ({"late": "keep"}, "late"),
    ],
)
def test_wrong_rules_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert({"kind": "rounds", **fields}, Rules)


def test_a_share_of_workers_is_rounded_up_but_not_by_the_errors_of_floats() -> None:
    assert [Rules(kind="rounds", quorum=q).wanted(n) for q, n in ((0.8, 5), (0.75, 4), (0.1, 30), (0.8, 4), (0.01, 3), (1.0, 7))] == [
        4,
        3,
        3,
        4,
        1,
        7,
    ]


def test_impossible_gradients_are_bugs_of_the_caller() -> None:
    for bad in ({"sequence": -1}, {"work": 0.0}, {"work": float("nan")}):
        with pytest.raises(ValueError, match="gradient"):
            Gradient(**{"worker": "a", "sequence": 0, "base": 0, "payload": "p", "now": 0.0, **bad})


def test_it_needs_neither_torch_nor_numpy() -> None:
    program = "import sys, laminar.parallel.aggregate.aggregator; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
