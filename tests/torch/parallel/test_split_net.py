"""Some fixed cases of the net of splits, and that its cases reach every rule and every argument."""

from __future__ import annotations

from typing import Final

import pytest

from laminar.parallel.split.ops import RULES
from tests.nets import splits
from tests.nets.split_cases import DRAW, drawn, overloads_of

TURNS: Final = (0, 1, 2, splits.EACH - 1)  # of each model: three meshes, and a pipeline or branches
BATCHES: Final = 8  # tests, so that several processes share them

# Arguments that say where and how numbers are kept, or that need another device or a torch of another build …
NOT_DRAWN = {"layout", "device", "pin_memory", "memory_format", "generator", "out_dtype", "sparse", "half_to_float"}
NOT_DRAWN |= {"dropout_p", "tensor_indices_or_sections"}  # … whose results are random; a tensor of places, which tracing cannot know


@pytest.mark.parametrize("batch", range(BATCHES))
def test_fixed_cases(batch: int) -> None:
    for number in range(batch, len(splits.NAMES), BATCHES):
        for turn in TURNS:
            splits.check(number * splits.EACH + turn)


def test_every_rule_is_tried() -> None:
    assert set(DRAW) == set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_argument_is_tried(name: str) -> None:
    """In whichever overload: with something else than its default."""
    wanted = {argument.name for overload in overloads_of(name) for argument in overload._schema.arguments} - NOT_DRAWN
    for draw in range(60):
        case = drawn(splits.NAMES.index(name) + draw * len(splits.NAMES), splits.NAMES)[1]
        schema = case.overload._schema.arguments
        given = dict(zip([argument.name for argument in schema], case.args, strict=False)) | case.kwargs
        defaults = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
        wanted -= {key for key, value in given.items() if key not in defaults or value != defaults[key]}
        if not wanted:
            return
    assert not wanted
