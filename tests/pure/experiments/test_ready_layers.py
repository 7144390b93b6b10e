"""The stacks of `laminar experiment layers` and `grid`: what they train, as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.experiments.order import left_after_one_warm_up
from laminar.experiments.ready import layers, layers_run
from laminar.experiments.ready.catalogue import READY, parts
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.layers import HEADS, PARTS, stack_text
from laminar.experiments.statements import compared_first
from laminar.experiments.variants import QUICK_REPEATS
from laminar.stack.read import parse


def test_layers_stand_on_each_other_and_see_more_and_more_digits() -> None:
    file = parse(stack_text("layered", Ask(), workers=4, hidden=32, seed=0), Path("laminar.toml"))
    assert [layer.name for layer in file.spec.layer] == ["strokes", "shapes", "digits"]
    assert [layer.freeze for layer in file.spec.layer] == [[], ["bottom"], ["bottom", "middle"]]
    assert [file.spec.data[layer.data].classes for layer in file.spec.layer] == [list(range(n)) for n in (5, 8, 10)]
    assert [file.spec.data[layer.data].limit for layer in file.spec.layer] == [30_000, 48_000, 60_000]
    assert {layer.train.strategy.workers for layer in file.spec.layer} == {4}  # type: ignore[union-attr]


def test_layers_of_fewer_samples() -> None:
    file = parse(stack_text("layered", Ask(samples=20_000), workers=1, hidden=32, seed=0), Path("laminar.toml"))
    assert [file.spec.data[layer.data].limit for layer in file.spec.layer] == [10_000, 16_000, 20_000]


def test_a_change_of_the_head_changes_the_last_layer_alone() -> None:
    before, after = (parse(stack_text("layered", Ask(), workers=1, hidden=n, seed=0), Path("laminar.toml")) for n in (32, 48))
    assert before.spec.layer[:2] == after.spec.layer[:2]
    assert before.spec.layer[2] != after.spec.layer[2]


def test_every_part_is_a_layer_of_its_stack() -> None:
    for way, layer, change in PARTS.values():
        file = parse(stack_text(way, Ask(), workers=1, hidden=HEADS[change], seed=0), Path("laminar.toml"))
        assert layer in [one.name for one in file.spec.layer]


def test_a_quick_look_retrains_after_the_mistake_before_all_else() -> None:
    """But for what that stands on; and so often that it is decided. The benchmark stays what it is."""
    shown = {}
    for quick in (False, True):
        ask = Ask(quick=quick)
        ready = layers.ready(ask)
        description = layers_run.describe(ready, ask, layers_run.Place(), {}, 0.0)
        labels = {one.id: one.label for one in description.variants}
        assert labels[description.benchmark] == layers.CLASSIC and set(labels.values()) == set(PARTS)
        first = compared_first(description, in_turn=True) if quick else ()
        shown[quick] = [labels[one.variant] for one in left_after_one_warm_up(description, [], first=first)[1:]]
    assert shown[False] == list(PARTS)
    mended = ["layered: strokes", "layered: shapes", "layered: digits", *reversed(layers.MENDED)]
    assert shown[True] == 4 * mended + 4 * [layers.CLASSIC, layers.ALL]


@pytest.mark.parametrize("name", READY)
def test_a_quick_look_repeats_until_its_minute_is_over(name: str) -> None:
    """At least as often as its first statement needs; unless somebody said how often, or there is nothing to judge."""
    for one in parts(name, Ask(quick=True)):
        assert one.fills(Ask(quick=True)) is (name != "sequential")
        assert not one.fills(Ask()) and not one.fills(Ask(quick=True, repeats=2))
    assert QUICK_REPEATS >= 4


def test_the_grid_is_as_large_as_the_papers() -> None:
    sync, alone, compressed = (one.settings["strategy"] for one in parts("grid", Ask())[0].choices)
    assert (sync["workers"], sync["rounds"], alone["workers"], alone["rounds"]) == (5, 18, 6, 50)
    assert compressed == alone | {"compress": compressed["compress"]} and compressed["compress"]["kind"] == "dgc"
