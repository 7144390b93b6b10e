"""laminar data: what a user sees of data sets, and what is said of bad ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from docs_console import Session
from PIL import Image

STACK = """\
[stack]
name = "cells"

[data.cells]
source = "folder:images"
grey = true
fragment = { size = 12, overlap = 0.5, rotate = 5 }
split = { by = "source", test = 0.25, seed = 0 }
sample = { per_class = 40, seed = 7 }

[data.whole]
source = "folder:images"
size = 8

[[layer]]
name = "base"
model = "laminar:mlp"
args = { hidden = [8] }
data = "cells"
train = { epochs = 1, batch = 16, seed = 0, threads = 1 }
"""


@pytest.fixture
def cells(tmp_path: Path) -> Session:
    session = Session(tmp_path / "project", tmp_path / "home", inside=True)
    rng = np.random.default_rng(2)
    for label in ("round", "square"):
        for i in range(4):
            path = session.folder / "images" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (24, 30, 3), dtype=np.uint8)).save(path)
    (session.folder / "laminar.toml").write_text(STACK)
    return session


def edit(session: Session, old: str, new: str) -> None:
    path = session.folder / "laminar.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def refused(session: Session, line: str, code: str, *says: str) -> None:
    left, printed = session.run(line)
    assert left == 2, printed
    assert f"error {code}" in printed, printed
    assert "fix:" in printed
    for text in says:
        assert text in printed


def test_show_counts_and_draws(cells: Session) -> None:
    code, printed = cells.run("laminar data show cells")
    assert code == 0
    assert "8 source images" in printed
    assert f"{3 * 4 * 72:,} fragments each (4 x 3 = 12 places at each of 72 angles)" in printed
    assert "a sample of 80 for training" in printed
    with Image.open(cells.folder / "cells-sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert min(sheet.size) > 60
    assert not (cells.folder / ".laminar").exists()  # looking makes no store


def test_augmentation_that_does_not_fit_is_refused_by_whoever_looks(cells: Session) -> None:
    edit(cells, "grey = true", "grey = true\naugment = { shift = 12 }")
    for line in ("laminar data show cells", "laminar data sample cells", "laminar data pull cells", "laminar status", "laminar build"):
        refused(cells, line, "L109", "augment.shift: 12 pixels, but images are 12x12", "shift = 11 at most")


def test_show_works_without_a_project(tmp_path: Path) -> None:
    session = Session(tmp_path / "empty", tmp_path / "home", inside=True)
    code, printed = session.run("laminar data show digits --sheet pictures/d.png --json")
    assert code == 0, printed
    assert json.loads(printed)["samples"] == {"train": 1438, "test": 359}
    assert (session.folder / "pictures/d.png").exists()


def test_a_sample_is_balanced_repeats_and_keeps_images_apart(cells: Session) -> None:
    code, printed = cells.run("laminar data sample cells --seed 7 --json")
    assert code == 0
    sample = json.loads(printed)["fragments"]
    assert json.loads(cells.run("laminar data sample cells --json")[1])["fragments"] == sample
    assert json.loads(cells.run("laminar data sample cells --seed 8 --json")[1])["fragments"] != sample
    assert Counter((each["split"], each["class"]) for each in sample) == {
        ("train", "round"): 40,
        ("train", "square"): 40,
        ("test", "round"): 13,
        ("test", "square"): 13,
    }
    assert len({tuple(each.values()) for each in sample}) == len(sample)
    train, test = ({each["source"] for each in sample if each["split"] == side} for side in ("train", "test"))
    assert train and test and not train & test
    for each in sample:
        assert 0 <= each["x"] <= 30 - 12 and 0 <= each["y"] <= 24 - 12
        assert each["angle"] in range(0, 360, 5)


def test_a_build_takes_the_sample_and_a_new_seed_builds_anew(cells: Session) -> None:
    code, printed = cells.run("laminar build -q")
    assert code == 0, printed
    assert "nothing to build" in cells.run("laminar status")[1]
    edit(cells, "seed = 7", "seed = 8")
    code, printed = cells.run("laminar explain base")
    assert "sample.seed" in printed and "7" in printed and "8" in printed


def test_a_half_written_image_is_named_and_skipped_only_on_demand(cells: Session) -> None:
    victim = cells.folder / "images/round/3.png"
    victim.write_bytes(victim.read_bytes()[:-900])
    edit(cells, "seed = 7 }", "seed = 7, sources = 2 }")
    refused(cells, "laminar build -q", "L102", "3.png", "skip_bad = true")
    refused(cells, "laminar data index images", "L102", "3.png")
    code, printed = cells.run("laminar build -q --skip-bad")
    assert code == 0, printed
    assert "1 of 8 images was skipped" in printed and "3.png" in printed
    assert "nothing to build" in cells.run("laminar status --skip-bad")[1]
    code, printed = cells.run("laminar data index images --skip-bad --json")
    assert code == 0
    found = json.loads(printed[printed.index("{") :])
    assert found["images"] == 7 and len(found["skipped"]) == 1
    edit(cells, "grey = true", "grey = true\nskip_bad = true")
    assert "nothing to build" in cells.run("laminar status")[1]


def test_bad_settings_are_told_with_their_line(cells: Session) -> None:
    edit(cells, "rotate = 5", "rotat = 5")
    refused(cells, "laminar status", "L003", "laminar.toml:7", "rotat", "did you mean 'rotate'")
    edit(cells, "rotat = 5", 'rotate = "often"')
    refused(cells, "laminar status", "L004", "laminar.toml:7", "rotate")
    edit(cells, 'rotate = "often"', "rotate = 5")
    edit(cells, "overlap = 0.5", "overlap = 1.0")
    refused(cells, "laminar status", "L004", "laminar.toml:7", "overlap")
    edit(cells, "overlap = 1.0", "overlap = 0.5")
    edit(cells, "per_class = 40", "per_class = 4000")
    refused(cells, "laminar build -q", "L113", "4,000", "per_class = ")
    edit(cells, "per_class = 4000", "per_class = 40")
    edit(cells, "size = 12,", "size = 25,")
    refused(cells, "laminar data show cells", "L106", "30x24", "24 or less")


def test_unknown_words_have_a_nearest(cells: Session) -> None:
    refused(cells, "laminar data show cell", "L006", "did you mean 'cells'")
    refused(cells, "laminar data shwo cells", "L008", "did you mean 'show'")
    refused(cells, "laminar data sample whole", "L109", "sample")
    refused(cells, "laminar data sample digits --per-class 3", "L109", "fragment")
    refused(cells, "laminar data index nowhere", "L101", "nowhere")
    refused(cells, "laminar data serve images", "L008", "--http 8080")
    refused(cells, "laminar data pull digits", "L109", "image files")


def test_an_empty_class_and_a_loose_image_are_named(cells: Session) -> None:
    (cells.folder / "images/empty").mkdir()
    refused(cells, "laminar data show whole", "L103", "empty has no images")
    (cells.folder / "images/empty").rmdir()
    (cells.folder / "images/lost.png").write_bytes((cells.folder / "images/round/0.png").read_bytes())
    refused(cells, "laminar data index images", "L103", "lost.png")
