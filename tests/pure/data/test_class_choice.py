"""Choosing classes: by index or name, renumbered in the order written, names kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.data.classes import resolve_classes
from laminar.data.open import open_data
from laminar.data.spec import DataSpec

PETS = ("cat", "dog", "eel")


def test_classes_are_renumbered_in_the_order_written() -> None:
    everything, some = (open_data(DataSpec(source="digits", classes=c), Path()) for c in (None, [8, 2, "4"]))
    assert some.classes == ("8", "2", "4")
    for new, old in enumerate((8, 2, 4)):
        assert (some.train.x[some.train.y == new] == everything.train.x[everything.train.y == old]).all()
    assert set(np.unique(some.test.y)) == {0, 1, 2}


def test_a_class_is_named_by_index_or_name() -> None:
    assert resolve_classes([2, "cat"], PETS) == (2, 0)
    assert resolve_classes(None, PETS) == (0, 1, 2)
    assert resolve_classes(None, None) is None


def test_a_number_is_a_name_where_names_are_numbers() -> None:
    assert resolve_classes([20, 10], ("10", "20", "30")) == (1, 0)
    with pytest.raises(LaminarError, match="no class 0"):  # not the first folder by accident
        resolve_classes([0], ("10", "20", "30"))


@pytest.mark.parametrize(
    ("wanted", "names", "says"),
    [
        (["dgo"], PETS, "did you mean 'dog'"),
        ([3], PETS, "no class 3; known: cat, dog, eel"),
        ([0, 2, 11], tuple("0123456789"), "no class 11; known: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        ([111], tuple(map(str, range(100))), "no class 111; known: 0 to 99"),
        ([-1], PETS, "no class -1"),
        ([0, "cat"], PETS, "named twice"),
        ([], PETS, "empty"),
        ([1], None, "real-valued"),
    ],
)
def test_what_is_not_there_is_an_error(wanted: list[int | str], names: tuple[str, ...] | None, says: str) -> None:
    with pytest.raises(LaminarError, match=says) as caught:
        resolve_classes(wanted, names)
    assert caught.value.code == "L104"
    assert caught.value.message.startswith("classes")
    assert caught.value.hint
