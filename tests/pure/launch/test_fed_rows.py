"""Rows of (features, label) from anywhere, as arrays."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from laminar.core.errors import LaminarError
from laminar.launch.fed_rows import Rows, Wrong, pack
from laminar.launch.spark_feed import gathered

MANY = 1 << 30


def arrays(rows: list[Any], labels: Any = "auto", parts: int = 1, limit: int = MANY) -> dict[str, Any]:
    packed = [part for i in range(parts) for part in pack(rows[i::parts], None, None)]
    return gathered(packed, "features", labels, limit)


def png(value: int, grey: bool = True) -> bytes:
    out = io.BytesIO()
    Image.new("L" if grey else "RGB", (3, 2), value if grey else (value, 0, 9)).save(out, "png")
    return out.getvalue()


class Vector:
    def toArray(self) -> Any:
        return np.array([1.0, 2.5])


@pytest.mark.parametrize(
    ("features", "shape", "dtype"),
    [
        (3, (), "float32"),
        ([1, 2, 3], (3,), "float32"),
        ([[1.5, 2], [3, 4]], (2, 2), "float32"),
        (Vector(), (2,), "float32"),
        (np.zeros((2, 2), np.uint8), (2, 2), "uint8"),
        (png(7), (1, 2, 3), "uint8"),
        (png(7, grey=False), (3, 2, 3), "uint8"),
    ],
)
def test_kinds_of_features(features: Any, shape: tuple[int, ...], dtype: str) -> None:
    found = arrays([(features, 1), (features, 0)])
    assert found["x"].shape == (2, *shape) and found["x"].dtype == dtype and sorted(found["y"]) == [0, 1]


def test_images_of_sparks_own_schema_come_as_blue_green_red() -> None:
    image = SimpleNamespace(height=1, width=2, nChannels=3, data=bytes([1, 2, 3, 4, 5, 6]))
    assert arrays([(image, 0)])["x"][0].tolist() == [[[3, 6]], [[2, 5]], [[1, 4]]]


def test_columns_by_name_become_one_vector() -> None:
    rows = [{"a": 1, "b": [2.0, 3.0], "y": 4}]
    (part,) = pack(rows, ["a", "b"], "y")
    assert isinstance(part, Rows) and part.x.tolist() == [[1, 2, 3]] and part.y.tolist() == [4]


@pytest.mark.parametrize(
    ("rows", "code", "text"),
    [
        ([(None, 1)], "L110", "no value"),
        ([([1, 2], None)], "L110", "no label"),
        ([("red", 1)], "L110", "'red' (str)"),
        ([([[1], [2, 3]], 1)], "L110", "all as long"),
        ([([1.0, float("nan")], 1)], "L110", "no finite number"),
        ([([1], {"a": 1})], "L110", "expected a number or the name of a class"),
        ([([1], 1), ([1, 2], 1)], "L106", "1 and 2"),
        ([([1], 1), ([1], "one")], "L110", "partly words"),
        ([(b"no image", 1)], "L102", "no image of a known kind"),
        ([7], "L110", "a pair of (features, label)"),
        ([], "L103", "no rows"),
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_rows_that_will_not_do(rows: list[Any], code: str, text: str, parts: int) -> None:
    with pytest.raises(LaminarError) as error:
        arrays(rows, parts=parts)
    assert error.value.code == code and text in error.value.message and error.value.hint


def test_what_is_wrong_is_a_value_and_the_rest_of_the_partition_is_not_read() -> None:
    def rows() -> Any:
        yield None, 1
        raise AssertionError("read on")

    (found,) = pack(rows(), None, None)
    assert isinstance(found, Wrong)


@pytest.mark.parametrize(
    ("ys", "labels", "dtype"),
    [([0.0, 2.0], "auto", "int64"), ([0.5, 2.0], "auto", "float32"), ([0.0, 2.0], "numbers", "float32"), ([1, 0], "classes", "int64")],
)
def test_whole_numbers_are_classes_unless_it_is_said_otherwise(ys: list[float], labels: str, dtype: str) -> None:
    assert arrays([([1], y) for y in ys], labels)["y"].dtype == dtype


def test_words_are_names_of_classes() -> None:
    assert sorted(arrays([([1], "cat"), ([2], "a dog")], parts=2)["y"]) == ["a dog", "cat"]
    with pytest.raises(LaminarError, match="are words"):
        arrays([([1], "cat")], "numbers")
    with pytest.raises(LaminarError, match="not all whole"):
        arrays([([1], 0.5)], "classes")


def test_too_much_is_refused_before_it_is_gathered() -> None:
    with pytest.raises(LaminarError) as error:
        arrays([([1.0] * 1000, 1)] * 10, parts=5, limit=20_000)
    assert error.value.code == "L408"


@settings(max_examples=20, derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=2, max_size=2), st.sampled_from([0, 1.0, 2])), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
    st.integers(1, 4),
)
def test_the_same_rows_are_the_same_data_however_they_are_spread(rows: list[Any], random: Any, parts: int) -> None:
    before = arrays(rows)
    random.shuffle(rows)
    after = arrays(rows, parts=parts)
    assert all((before[name] == after[name]).all() and before[name].dtype == after[name].dtype for name in before)
