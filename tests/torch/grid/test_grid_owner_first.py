"""What the server does about owners: longer leases for nodes that rest much, and no tasks that are too large for them."""

from __future__ import annotations

import pytest

from laminar.grid.wire.messages import Ask
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd


def crowd(**settings: object) -> Crowd:
    given = {"workers": 8, "rounds": 6, "local_steps": 2, "deadline": 1e6, "replicate": "never"} | settings
    return Crowd(["honest"] * 2, Grid(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(("available", "lease"), [(1.0, 60.0), (0.5, 120.0), (0.1, 600.0), (0.0, 1200.0)])
def test_a_node_that_rests_much_has_longer(available: float, lease: float) -> None:
    made = crowd(lease=3600.0)
    made.hall.ask(made.ids[0], Ask(want=0, speed=1e9))  # fast: it gets the shortest lease
    (task,) = made.hall.ask(made.ids[0], Ask(want=1, speed=1e9, available=available)).tasks
    assert task.lease == pytest.approx(lease)


def test_no_lease_is_longer_than_the_run_allows() -> None:
    made = crowd(lease=90.0)
    made.hall.ask(made.ids[0], Ask(want=0, speed=1e9))
    (task,) = made.hall.ask(made.ids[0], Ask(want=1, speed=1e9, available=0.01)).tasks
    assert task.lease == 90.0


def test_a_node_is_given_nothing_of_runs_that_are_too_large_for_it() -> None:
    made = crowd()
    assert made.hall.ask(made.ids[0], Ask(want=1, without=["crowd", "another"])).tasks == []
    assert len(made.hall.ask(made.ids[0], Ask(want=1, without=["another"])).tasks) == 1
    assert len(made.hall.ask(made.ids[1], Ask(want=1)).tasks) == 1  # others have room
