"""What a strategy takes on a grid: played with the server's own code, on numbers that can be followed by hand."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.grid.pricing.play import Play
from laminar.grid.pricing.price import grid_price, scene_of, to_the_end
from laminar.grid.pricing.scene import Desk, Scene
from laminar.grid.pricing.those_there import those_there
from laminar.plan.candidates import Space, candidates
from laminar.plan.desktops import KINDS, STEADY
from laminar.plan.machine import Link, Node
from laminar.plan.price_apart import Paced
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe
from tests.pure.plan.made_up import MadeUp, desktops, facts, machine

ALONE = Grid(workers=4, local_steps=10, quorum=1.0, replicate="never")


def scene(*steps: float, **more: Any) -> Scene:
    desks = tuple(Desk(step, 0.5) for step in steps or (0.25,) * 4)
    told: dict[str, Any] = {"link": Link(1e6, 0.02), "server": 1e9, "asked": 0.0, "answered": 0.0, "down": 100_000, "up": 200_000}
    return Scene(desks, **(told | {"batch": 32, "batches": 1000, "spread": 0.0} | more))


def play(what: Scene, how: Grid = ALONE, seed: int = 1, versions: int = 6) -> Play:
    one = Play(what, how, seed, versions=versions, answers=10_000)
    one.run()
    return one


def priced(how: Grid, known: MadeUp | None = None, **more: Any) -> Paced:
    return grid_price(known or MadeUp(row=2e-3), dataclasses.replace(machine(), grid=desktops(**more)), how, 64)


def test_a_round_is_a_way_down_a_task_and_a_way_up() -> None:
    pace = play(scene()).pace
    # what comes after an answer is asked for with it, so a round costs no request of its own but the first
    each = (0.1 + 0.02) + (10 * 0.25 + 0.5) + (0.2 + 0.02)
    assert pace.seconds == pytest.approx(6 * each + 0.02, rel=1e-3)
    assert (pace.versions, pace.batches, pace.answers, pace.parts, pace.ages) == (6, 240.0, 24, 24, 0)
    assert pace.bytes == 24 * 300_000 and pace.computing == pytest.approx(24 * 3.0)


def test_one_seed_is_one_course() -> None:
    wild = scene(churn=KINDS["desktop"], spread=0.5)
    first, again, other = (play(wild, msgspec.structs.replace(ALONE, quorum=0.75), seed).marks for seed in (1, 1, 2))
    assert first == again and first != other


def test_newcomers_do_everything_twice_until_they_are_believed() -> None:
    how = Grid(workers=4, local_steps=10, quorum=1.0)
    trusted = dataclasses.replace(scene(), desks=tuple(dataclasses.replace(one, streak=1 << 20) for one in scene().desks))
    fresh, known, long = play(scene(), how, versions=4), play(trusted, how, versions=4), play(scene(), how, versions=12)
    assert fresh.pace.answers == 2 * fresh.pace.parts and known.pace.answers == known.pace.parts
    assert fresh.pace.seconds > 1.5 * known.pace.seconds and long.pace.answers < 1.6 * long.pace.parts


def test_a_quorum_does_not_wait_for_the_slow_one() -> None:
    slow = scene(0.25, 0.25, 0.25, 2.5)
    all_, most = play(slow), play(slow, msgspec.structs.replace(ALONE, quorum=0.75))
    assert all_.pace.per_batch > 4 * most.pace.per_batch


def test_a_deadline_ends_a_round_that_somebody_left() -> None:
    dead = scene(0.25, 0.25, 0.25, 1e6)
    pace = play(dead, msgspec.structs.replace(ALONE, deadline=30.0), versions=3).pace
    # then three of them do four tasks a round
    assert pace.seconds == pytest.approx(30 + 2 * 2 * 3.3, rel=0.05) and pace.batches == 30 + 2 * 40


def test_nodes_of_one_machine_share_its_cores() -> None:
    apart, together = play(scene()).pace, play(scene(cores=2)).pace
    computing = 6 * 3.0  # twice as long, for four on two cores
    assert together.seconds == pytest.approx(apart.seconds + computing, rel=0.02)
    assert play(scene(cores=8)).pace.seconds == pytest.approx(apart.seconds, rel=1e-3)


def test_a_slow_server_is_a_queue() -> None:
    assert play(scene(answered=1.0)).pace.seconds > play(scene()).pace.seconds + 5 * 2.9


def test_who_is_switched_off_begins_its_task_again() -> None:
    calm, restless = (play(scene(10.0, 10.0, 10.0, 10.0, churn=churn), versions=3).pace for churn in (STEADY, KINDS["wild"]))
    assert restless.seconds > 2 * calm.seconds and restless.present < 4 * restless.seconds


def test_answers_that_are_steps_by_themselves_are_stale() -> None:
    found = priced(Grid(workers=4, mode="async", local_steps=5))
    assert found.staleness > 1 and found.together == 1.0
    assert priced(Grid(workers=4, local_steps=5, quorum=1.0)).staleness == 0


def test_compression_is_for_the_way_up() -> None:
    narrow = Link(2e4, 0.01)
    dense, small = (priced(Grid(workers=4, local_steps=5, compress=kind), link=narrow) for kind in ("none", "dgc"))
    assert small.bytes < 0.6 * dense.bytes and small.seconds < 0.8 * dense.seconds


def test_many_desktops_are_stood_for_by_some() -> None:
    few, many = (priced(Grid(workers=count, local_steps=20, replicate="never"), count=count) for count in (24, 240))
    assert many.seconds == pytest.approx(few.seconds / 10, rel=0.2) and many.together == pytest.approx(10 * few.together, rel=0.2)


def test_nodes_without_room_take_no_part() -> None:
    with pytest.raises(LaminarError, match="every node that takes part") as error:
        priced(ALONE, memory=90_000_000)
    assert error.value.code == "L014"


def test_tasks_that_nobody_can_finish_are_refused() -> None:
    with pytest.raises(LaminarError, match="no version would ever be made"):
        priced(Grid(workers=2, local_steps=80, lease=60.0, deadline=60.0, attempts=1), MadeUp(row=10.0), count=2)


def test_what_comes_after_the_last_version_goes_on_as_the_later_ones() -> None:
    marks = [(10.0, 10.0), (20.0, 20.0), (25.0, 30.0), (30.0, 40.0)]
    assert to_the_end(marks, 20.0) == 1.0
    assert to_the_end(marks, 140.0) == pytest.approx((30 + 100 * 0.5) / 140)


def test_a_faster_core_and_more_of_them_make_a_faster_desk() -> None:
    grid = dataclasses.replace(desktops(), nodes=(Node("a", 1, 1 << 33), Node("b", 1, 1 << 33, 2.0), Node("c", 4, 1 << 33)))
    one, quick, wide = scene_of(MadeUp(machine_facts=facts(cores=4)), grid, Grid(), 64).desks
    assert one.step == pytest.approx(2 * quick.step) and one.step > 1.5 * wide.step


def test_candidates_are_of_all_desktops_or_half_of_them_and_fit_the_time_of_a_task() -> None:
    own = Grid(workers=3, local_steps=7)
    recipe = Recipe(epochs=1, batch=64, optimizer="sgd", strategy=own)
    found = [one for one in candidates(Space(1, recipe, 6400, desktops=8, desktop_step=10.0)) if isinstance(one, Grid)]
    assert found[0] == own and {one.workers for one in found[1:]} == {8, 4}
    assert {one.mode for one in found} == {"rounds", "async"} and {one.compression.kind for one in found} == {"none", "int8", "dgc"}
    assert {one.deadline for one in found if one.local_steps == 80} == {8000.0}
    assert not [one for one in candidates(Space(1, recipe, 6400, desktops=8, only_same=True)) if isinstance(one, Grid)]


def test_a_served_grid_is_those_of_its_nodes_who_are_there() -> None:
    def told(number: int, **more: Any) -> dict[str, Any]:
        facts_ = {"cores": 2, "memory": 1 << 33}
        plain = {
            "number": number,
            "name": "pc",
            "facts": facts_,
            "active": True,
            "speed": 0.0,
            "available": 1.0,
            "streak": 3,
            "trusted": False,
        }
        return plain | more

    rows = [told(1, speed=200.0), told(2, speed=100.0), told(3, active=False), told(4, trusted=True, available=0.5), told(5, speed=400.0)]
    found = those_there("http://grid.example:8787", lambda: rows)
    assert [node.speed for node in found.nodes] == [1.0, 0.5, 0.5, 2.0]
    assert found.streaks is not None and found.streaks["1 pc"] == 3 and found.streaks["4 pc"] > 1000
    assert "4 active nodes" in found.source and "100 Mbit/s" in found.source and found.link.bandwidth == 12.5e6 and found.cores is None
    assert those_there("http://127.0.0.1:8787", lambda: rows).cores == os.cpu_count()
    with pytest.raises(LaminarError, match="none of the 1 node"):
        those_there("http://127.0.0.1:1", lambda: [told(3, active=False)])
