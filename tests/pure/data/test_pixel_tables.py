"""Tables whose rows are images: label, pixel0, pixel1, … as Kaggle publishes MNIST and its kin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_makers import digits_like
from test_data_errors import refused

from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.pixels import note_on_pixels, square
from laminar.data.spec import AugmentSpec, DataSpec
from laminar.testing.source_contract import SourceContract


def write_pixels(path: Path, x: np.ndarray, y: np.ndarray, *, first: int = 0) -> None:
    rows = x.reshape(len(x), -1)
    head = ["label", *(f"pixel{i + first}" for i in range(rows.shape[1]))]
    path.write_text(
        "\n".join([",".join(head), *(",".join(map(str, [label, *row])) for label, row in zip(y, rows.tolist(), strict=True))]) + "\n"
    )


class TestPixelsInATable(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_pixels(folder / "train.csv", *digits_like())
        return DataSpec(source="csv:train.csv", shape=[1, 6, 6])

    def change(self, folder: Path) -> bool:
        write_pixels(folder / "train.csv", *digits_like(seed=5))
        return True


def test_pixels_are_bytes_of_images(tmp_path: Path) -> None:
    x, y = digits_like()
    write_pixels(tmp_path / "train.csv", x, y)
    write_pixels(tmp_path / "test.csv", x[:12], y[:12], first=0)
    spec = DataSpec(source="csv:train.csv", shape=[1, 6, 6], args={"test": "test.csv"})
    notes: list[str] = []
    data = open_data(spec, tmp_path, notes=notes)
    assert data.train.x.dtype == np.uint8 and data.scale == 255.0 and notes == []
    assert (data.train.x[:, 0] == x).all() and (data.test.x[:, 0] == x[:12]).all()
    assert data.classes == ("0", "1", "2", "3") and data.train.y.tolist() == y.tolist()
    assert (open_data(DataSpec(source="csv:train.csv", shape=[6, 6]), tmp_path).train.x.shape[1:]) == (1, 6, 6)
    colours = open_data(DataSpec(source="csv:train.csv", shape=[4, 3, 3]), tmp_path)
    assert colours.sample_shape == (4, 3, 3)


@pytest.mark.parametrize("odd", [0.5, -1, 256])
def test_numbers_that_are_no_bytes_stay_numbers_on_both_sides(tmp_path: Path, odd: float) -> None:
    x, y = digits_like()
    write_pixels(tmp_path / "train.csv", x, y)
    other = x[:12].astype(np.float64)
    other[3, 2, 1] = odd
    write_pixels(tmp_path / "test.csv", other, y[:12])
    data = open_data(DataSpec(source="csv:train.csv", shape=[1, 6, 6], args={"test": "test.csv"}), tmp_path)
    assert (data.train.x.dtype, data.test.x.dtype, data.scale) == (np.float32, np.float32, 1.0)
    assert data.test.x[3, 0, 2, 1] == odd


def test_a_table_that_does_not_fit_in_memory_is_the_same(tmp_path: Path) -> None:
    write_pixels(tmp_path / "train.csv", *digits_like())
    spec = DataSpec(source="csv:train.csv", shape=[1, 6, 6])
    plain, mapped = open_data(spec, tmp_path), open_data(DataSpec(source="csv:train.csv", shape=[1, 6, 6], memory=1), tmp_path)
    assert mapped.train.x.dtype == np.uint8 and (plain.train.x == mapped.train.x).all()


def test_columns_of_a_parquet_file_are_images_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from table_makers import write_parquet

    x, y = digits_like()
    rows = x.reshape(len(x), -1)
    columns: dict[str, Any] = {"label": y.astype(np.int64), **{f"pixel{i}": rows[:, i].astype(np.int64) for i in range(36)}}
    write_parquet(tmp_path / "d.parquet", columns)
    write_parquet(tmp_path / "lists.parquet", {"label": y.astype(np.int64), "pixels": list(rows)})
    for name in ("d.parquet", "lists.parquet"):
        data = open_data(DataSpec(source=f"parquet:{name}", shape=[1, 6, 6]), tmp_path)
        assert data.sample_shape == (1, 6, 6) and data.train.x.dtype == np.uint8
    write_parquet(tmp_path / "real.parquet", {"label": y.astype(np.int64), "a": rows[:, 0] / 2.0, "b": rows[:, 1] / 2.0})
    assert open_data(DataSpec(source="parquet:real.parquet", shape=[1, 1, 2]), tmp_path).train.x.dtype == np.float32


def test_shape_is_in_the_key_only_where_it_is_given(tmp_path: Path) -> None:
    write_pixels(tmp_path / "train.csv", *digits_like())
    cache = tmp_path / "cache"
    plain, shaped = (fingerprint(DataSpec(source="csv:train.csv", shape=shape), tmp_path, cache) for shape in (None, [1, 6, 6]))
    assert plain["settings"] == {"label": None, "columns": None, "delimiter": ",", "reader": 1}  # as it was: older keys stand
    assert shaped["settings"] == plain["settings"] | {"shape": [1, 6, 6]}
    assert fingerprint(DataSpec(source="csv:train.csv", shape=[6, 6]), tmp_path, cache) == shaped


def test_the_note_of_a_table_of_pixels_says_what_to_write(tmp_path: Path) -> None:
    write_pixels(tmp_path / "train.csv", *digits_like())
    notes: list[str] = []
    assert open_data(DataSpec(source="csv:train.csv"), tmp_path, notes=notes).sample_shape == (36,)
    assert len(notes) == 1 and "the columns pixel0 to pixel35" in notes[0] and "shape = [1, 6, 6]" in notes[0]
    assert "shape = [3, 2, 2]" in note_on_pixels([f"pixel{i}" for i in range(12)], "d.csv")
    assert note_on_pixels([f"{i}x{j}" for i in range(1, 4) for j in range(1, 4)], "d.csv")
    assert note_on_pixels(["pixel0", "pixel1", "pixel2"], "d.csv") == "" == note_on_pixels(["width", "height", "a", "b"], "d.csv")
    assert [square(n) for n in (784, 3072, 1, 10)] == [[1, 28, 28], [3, 32, 32], None, None]


def test_a_shape_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    x, y = digits_like()
    write_pixels(tmp_path / "train.csv", x, y)
    np.savez(tmp_path / "d.npz", x=x.reshape(40, -1), y=y)
    refused(
        DataSpec(source="csv:train.csv", shape=[1, 6, 7]),
        tmp_path,
        "L109",
        "1 x 6 x 7 = 42 numbers, but a row of",
        "has 36",
        "shape = [1, 6, 6]",
    )
    refused(DataSpec(source="csv:train.csv", shape=[36]), tmp_path, "L109", "expected height and width")
    refused(DataSpec(source="csv:train.csv", shape=[0, 36]), tmp_path, "L109", "shape")
    refused(DataSpec(source="npz:d.npz", shape=[1, 6, 6]), tmp_path, "L109", "shape: applies to rows of tables", "not to npz")
    augmented = DataSpec(source="csv:train.csv", shape=[1, 6, 6], augment=AugmentSpec(shift=6))
    with pytest.raises(Exception, match="shift: 6 pixels, but images are 6x6"):  # before anything is opened
        fingerprint(augmented, tmp_path, tmp_path / "cache")
    assert fingerprint(DataSpec(source="csv:train.csv", shape=[1, 6, 6], augment=AugmentSpec(shift=2)), tmp_path, tmp_path / "cache")
