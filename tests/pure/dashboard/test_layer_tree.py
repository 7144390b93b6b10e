"""The tree of layers as rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laminar.dashboard.tree import rows


def drawn(parents):
    return [(row.name, row.lane, row.joins, row.through) for row in rows(parents)]


def test_a_chain_is_one_lane_with_the_top_first():
    assert drawn({"a": None, "b": "a", "c": "b"}) == [("c", 0, None, ()), ("b", 0, None, ()), ("a", 0, None, ())]


def test_a_branch_stands_to_the_right_and_joins_the_lane_of_what_it_stands_on():
    found = drawn({"strokes": None, "odd": "strokes", "ten": "strokes", "fine": "odd", "together": "ten", "later": "together"})
    assert found == [
        ("later", 0, None, ()),
        ("together", 0, None, ()),
        ("ten", 0, None, ()),
        ("fine", 1, None, (0,)),
        ("odd", 1, 0, (0,)),
        ("strokes", 0, None, ()),
    ]


def test_stacks_beside_each_other_and_a_parent_that_is_elsewhere():
    assert [(r.name, r.below) for r in rows({"a": None, "b": "a", "x": "gone"})] == [("x", False), ("b", True), ("a", False)]


def test_layers_that_stand_on_each_other_in_a_circle_are_shown_all_the_same():
    assert sorted(r.name for r in rows({"a": "b", "b": "a", "c": "c", "d": None})) == ["a", "b", "c", "d"]


@given(st.lists(st.integers(-1, 60), max_size=60))
def test_every_layer_has_one_row_above_what_it_stands_on_and_no_line_crosses_a_dot(numbers):
    parents = {str(n): str(min(p, n - 1)) if p >= 0 and n else None for n, p in enumerate(numbers)}
    found = rows(parents)
    assert sorted(r.name for r in found) == sorted(parents)
    place = {r.name: at for at, r in enumerate(found)}
    for row in found:
        parent = parents[row.name]
        if parent is not None:
            assert place[row.name] < place[parent], "top first"
            lane = found[place[parent]].lane
            between = found[place[row.name] + 1 : place[parent]]
            assert all(lane in other.through or other.lane == lane for other in between) or row.lane != lane
            assert all(lane in other.through for other in between), "the line is drawn in every row between"
        assert row.lane not in row.through


def test_ten_thousand_layers_on_each_other():
    assert len(rows({str(n): str(n - 1) if n else None for n in range(10_000)})) == 10_000
