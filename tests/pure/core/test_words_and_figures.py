"""Words: types as a TOML file knows them, and one or many of a thing."""

from __future__ import annotations

import pytest

from laminar.core.figures import many
from laminar.core.toml_words import in_toml_words


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("Expected `int`, got `str`", "expected a whole number, got text"),
        ("Expected `object | null`, got `str`", "expected a table, got text"),
        ("Expected `str | int | null`, got `array`", "expected text or a whole number, got a list"),
        ("Expected `float` >= 0.0", "expected a number >= 0.0"),
        ("Expected `bool`, got `float`", "expected true or false, got a number"),
        ("Object missing required field `int | x`", "object missing required field int | x"),
    ],
)
def test_types_are_said_in_the_words_of_the_file(said: str, spoken: str) -> None:
    assert in_toml_words(said) == spoken


def test_one_is_not_many() -> None:
    assert [many(n, "image") for n in (0, 1, 2, 1000)] == ["0 images", "1 image", "2 images", "1,000 images"]
    assert [many(n, "class") for n in (1, 2)] == ["1 class", "2 classes"]
    assert [many(1, "image", verb) for verb in ("is", "was", "has")] == ["1 image is", "1 image was", "1 image has"]
    assert [many(2, "image", verb) for verb in ("is", "was", "has")] == ["2 images are", "2 images were", "2 images have"]
