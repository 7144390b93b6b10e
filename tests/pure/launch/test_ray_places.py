"""What is made of the state of a placement group."""

from __future__ import annotations

import pytest

from laminar.launch.ray_places import CROWDED, PENDING, PLACED, Places


def test_a_group_that_waits_has_no_room_when_its_time_is_over() -> None:
    places = Places(25.0)
    assert not places.have_no_room(PENDING, 25.0)
    assert places.have_no_room(PENDING, 25.1)


@pytest.mark.parametrize("state", ["PREPARED", PLACED, "RESCHEDULING"])
def test_cpus_that_the_group_itself_holds_are_not_missing(state: str) -> None:
    assert not Places(25.0).have_no_room(state, 100.0)


def test_a_lost_bundle_has_some_time_to_find_another_node() -> None:
    places = Places(25.0)
    places.lost(1000.0)
    places.look("RESCHEDULING", 1001.0)
    assert not places.crowded, "long after the group was placed"
    places.look("RESCHEDULING", 1000.1 + CROWDED)
    assert places.crowded
    places.look(PLACED, 1020.0)
    assert not places.crowded
    places.look("RESCHEDULING", 1021.0)
    assert not places.crowded
