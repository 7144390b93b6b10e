"""The stacks of `laminar experiment layers` and `grid`: what they train, as it is written."""

from __future__ import annotations

from pathlib import Path

from laminar.experiments.ready import grid
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.layers import HEADS, PARTS, stack_text
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


def test_the_grid_is_as_large_as_the_papers() -> None:
    sync, alone, compressed = (one.settings["strategy"] for one in grid.ready(Ask()).choices)
    assert (sync["workers"], sync["rounds"], alone["workers"], alone["rounds"]) == (5, 18, 6, 50)
    assert compressed == alone | {"compress": grid.SPARSE}
