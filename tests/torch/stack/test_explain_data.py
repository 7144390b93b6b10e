"""A layer that is trained again because its data changed: which data, and which of its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import laminar
from tests.conftest import Example, write_example


@pytest.fixture
def photos(tmp_path: Path) -> Example:
    """The bottom layer alone, on a folder of images that are older than the build."""
    example = write_example(tmp_path / "project")
    text = example.toml.read_text()
    text = text[: text.rindex("[[layer]]")].replace(
        'source = "digits"\nclasses = [0, 2, 4, 6, 8]\nlimit = 300', 'source = "folder:photos"\ngrey = true'
    )
    example.toml.write_text(text.replace("classes = 5 }", "classes = 2 }").replace("epochs = 2", "epochs = 1"))
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (example.root / "photos" / name).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(example.root / "photos" / name / f"{i}.png")
    example.build()
    return example


def explained(example: Example) -> laminar.stack.explain.Explanation:  # type: ignore[name-defined]
    return laminar.Stack.load(example.toml).explain("strokes")


def later(example: Example, *paths: Path) -> None:
    """The clock of the file system may stand still between two lines of a test."""
    for path in paths:
        seen = path.stat()
        os.utime(path, (seen.st_atime, seen.st_mtime + 10))


def test_exactly_the_changed_files_are_named_whatever_their_times(photos: Example) -> None:
    folder = photos.root / "photos"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "cats" / "3.png")
    os.utime(folder / "cats" / "3.png", (1, 1))  # as a copy that keeps the time of its original
    (folder / "dogs" / "5.png").unlink()
    (folder / "dogs" / "6.png").rename(folder / "dogs" / "9.png")
    later(photos, folder / "cats" / "0.png", folder / "dogs")  # only touched
    found = explained(photos)
    assert found.step.why == "content of data.even (folder:photos) changed"
    assert found.files == [f"photos/{name}" for name in ("cats/3.png", "dogs/5.png", "dogs/6.png", "dogs/9.png")]
    assert found.to_json()["files"] == found.files
    assert "photos/cats/3.png, photos/dogs/5.png" in photos.cli("explain", "strokes").stdout


def test_without_the_list_of_then_it_goes_by_time(photos: Example) -> None:
    shutil.rmtree(photos.root / ".laminar" / "fingerprints")
    victim = photos.root / "photos" / "cats" / "3.png"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(victim)
    (photos.root / "photos" / "dogs" / "5.png").unlink()
    later(photos, victim, photos.root / "photos" / "dogs")
    assert {"photos/cats/3.png", "photos/dogs/"} <= set(explained(photos).files)


def test_nothing_is_named_where_the_content_is_the_same(photos: Example) -> None:
    photos.edit("laminar.toml", "epochs = 1", "epochs = 2")
    later(photos, photos.root / "photos" / "cats" / "3.png")
    assert explained(photos).files == []


def test_a_file_that_is_a_data_set_is_named(tmp_path: Path) -> None:
    example = write_example(tmp_path / "project")
    rng = np.random.default_rng(0)
    path = example.root / "some.npz"

    def write(first: int) -> None:
        np.savez(path, x=rng.integers(0, 255, (40, 1, 8, 8), dtype=np.uint8), y=(first + np.arange(40)) % 5)

    write(0)
    text = example.toml.read_text()
    example.toml.write_text(text.replace('source = "digits"\nclasses = [0, 2, 4, 6, 8]\nlimit = 300', 'source = "npz:some.npz"'))
    example.build("strokes")
    write(1)
    later(example, path)
    found = explained(example)
    assert "content of data.even (npz:some.npz) changed" in found.step.why
    assert found.files == ["some.npz"]
