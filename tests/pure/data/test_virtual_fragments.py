"""Virtual fragments: sides are given to images before they are cut, and local samples never cross them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from data_makers import write_images
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from laminar.core.errors import LaminarError
from laminar.data.fingerprint import fingerprint
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.index import Picture
from laminar.data.local_sample import local_sample
from laminar.data.open import open_data
from laminar.data.pictures import Here, Pictures
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec, SplitSpec

CUT = FragmentSpec(size=8, overlap=0.5, rotate=90)
SPEC = DataSpec(source="folder:images", grey=True, fragment=CUT)


def pictures(sizes: dict[str, list[tuple[int, int]]], *, same: dict[str, str] | None = None) -> Pictures:
    """Images that are only known, not there; `same`: path -> path of the one it is a copy of."""
    files = []
    for label, each in sizes.items():
        for i, (width, height) in enumerate(each):
            path = f"{label}/{i}.png"
            sha = (same or {}).get(path, path).encode().hex().ljust(64, "0")
            files.append(Picture(path=path, label=label, sha256=sha, size=1, width=width, height=height, grey=True))
    return Pictures(files, tuple(sizes), False, Here(Path("images")))


def virtual(sizes: dict[str, list[tuple[int, int]]], spec: DataSpec = SPEC, **more: dict[str, str]) -> VirtualFragments:
    return VirtualFragments(spec, pictures(sizes, **more), "images")


side = st.integers(8, 30)
image_sets = st.dictionaries(st.sampled_from("abcd"), st.lists(st.tuples(side, side), min_size=2, max_size=6), min_size=1, max_size=4)


@given(image_sets, st.floats(0.05, 0.95), st.integers(0, 9), st.integers(0, 99), st.integers(1, 6), st.booleans())
@settings(derandomize=True, max_examples=120, deadline=None)
def test_no_sample_has_an_image_on_both_sides(
    sizes: dict[str, list[tuple[int, int]]], test: float, split_seed: int, seed: int, per_class: int, few: bool
) -> None:
    spec = msgspec.structs.replace(SPEC, split=SplitSpec(test=test, seed=split_seed))
    fragments = virtual(sizes, spec)
    drawn = SampleSpec(per_class=per_class, seed=seed, sources=1 if few else None)
    smallest = min(int(fragments.table.counts(g).min() if few else fragments.table.counts(g).sum()) for g in fragments.groups(test=False))
    drawn = msgspec.structs.replace(drawn, per_class=min(per_class, smallest))
    per_class = drawn.per_class
    train, test_part = fragments.draw(drawn)
    assert len(np.unique(train)) == len(train) == per_class * len(sizes)
    assert len(np.unique(test_part)) == len(test_part)
    sources = [{d["source"] for d in fragments.describe(part)} for part in (train, test_part)]
    assert not sources[0] & sources[1]
    assert {d["split"] for d in fragments.describe(train)} == {"train"}
    assert {d["split"] for d in fragments.describe(test_part)} == {"test"}
    counts = [Counter(d["class"] for d in fragments.describe(part)) for part in (train, test_part)]
    assert set(counts[0].values()) == {per_class}
    assert len(set(counts[1].values())) == 1  # as many of each class


@given(st.integers(0, 50), st.floats(0.1, 0.9))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_copies_of_one_image_are_on_one_side(seed: int, test: float) -> None:
    sizes = {"a": [(16, 16)] * 5, "b": [(16, 16)] * 5}
    same = {"a/3.png": "a/0.png", "a/4.png": "a/0.png", "b/2.png": "a/1.png"}
    fragments = virtual(sizes, msgspec.structs.replace(SPEC, split=SplitSpec(seed=seed, test=test)), same=same)
    sides: dict[str, set[bool]] = {}
    for file, is_test in zip(fragments.files, fragments.test, strict=True):
        sides.setdefault(file.sha256, set()).add(bool(is_test))
    assert all(len(found) == 1 for found in sides.values())


def test_a_choice_of_classes_moves_no_image() -> None:
    sizes = {name: [(16, 16)] * 6 for name in "abc"}
    whole, part = virtual(sizes), virtual(sizes, msgspec.structs.replace(SPEC, classes=["c", "a"]))
    assert part.classes == ("c", "a")
    known = {file.path: bool(t) for file, t in zip(whole.files, whole.test, strict=True)}
    assert all(known[file.path] == bool(t) for file, t in zip(part.files, part.test, strict=True))
    assert list(part.labels[:6]) == [1] * 6


def test_over_many_samples_every_fragment_is_reached_about_as_often() -> None:
    fragments = virtual({"a": [(16, 12), (12, 12), (20, 8)], "b": [(16, 16)] * 3})
    train, _ = fragments.draw(None)
    seen: Counter[int] = Counter()
    samples, per_class = 400, 6
    for seed in range(samples):
        seen.update(int(i) for i in fragments.draw(SampleSpec(per_class=per_class, seed=seed))[0])
    assert set(seen) == set(train.tolist())
    for label, count in enumerate(fragments.counts(test=False)):
        own = [seen[int(i)] for i in train if fragments.labels_of(np.array([i]))[0] == label]
        expected = samples * per_class / count.fragments
        spread = (expected * (1 - per_class / count.fragments)) ** 0.5
        assert max(abs(n - expected) for n in own) < 4.5 * spread


def test_a_single_image_of_a_class_is_too_few() -> None:
    with pytest.raises(LaminarError, match="class 'b' has 1 source image and so none for testing") as caught:
        virtual({"a": [(9, 9)] * 3, "b": [(9, 9)]})
    assert caught.value.code == "L103"


def test_images_smaller_than_a_fragment_are_named() -> None:
    with pytest.raises(LaminarError, match=r"1 image is smaller than a fragment of 8 pixels: a/1.png is 9x7") as caught:
        virtual({"a": [(9, 9), (9, 7), (9, 9)]})
    assert caught.value.code == "L106"
    assert "7 or less" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": SplitSpec(by="sample")}, "split.by"),
        ({"size": 9}, "size: 9"),
        ({"limit": 5}, "limit: 5"),
        ({"fragment": None, "sample": SampleSpec(per_class=1, sources=2)}, "sample.sources"),
        ({"fragment": None, "sample": SampleSpec(per_class=1), "limit": 3}, "limit: 3"),
        ({"source": "digits", "grey": False}, "fragment: applies to folder"),
    ],
)
def test_settings_that_do_not_go_together_are_told_before_data_is_opened(tmp_path: Path, change: dict[str, object], said: str) -> None:
    write_images(tmp_path / "images", each=3, size=12)
    with pytest.raises(LaminarError, match=said) as caught:
        fingerprint(msgspec.structs.replace(SPEC, **change), tmp_path, tmp_path / "memory")
    assert caught.value.code == "L109"


# With real images


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    for label in ("cat", "dog"):
        for i in range(5):
            path = tmp_path / "images" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (20, 26), dtype=np.uint8)).save(path)
    return tmp_path


def test_opened_fragments_are_those_that_are_described(project: Path) -> None:
    spec = msgspec.structs.replace(SPEC, sample=SampleSpec(per_class=9, seed=3))
    data = open_data(spec, project)
    drawn = local_sample(spec, project)
    assert data.train.x.shape == (18, 1, 8, 8) and data.train.x.dtype == np.uint8
    assert data.classes == ("cat", "dog")
    train = [d for d in drawn.fragments if d["split"] == "train"]
    for pixels, label, d in zip(data.train.x, data.train.y, train, strict=True):
        image = np.asarray(Image.open(project / "images" / d["source"]))
        square = image[d["y"] : d["y"] + 8, d["x"] : d["x"] + 8]
        assert (pixels[0] == np.rot90(square, d["angle"] // 90)).all()
        assert data.classes[label] == d["class"]


def test_without_a_sample_all_fragments_are_opened(project: Path) -> None:
    data = open_data(SPEC, project)
    fragments = VirtualFragments.of(SPEC, project)
    assert len(data.train) + len(data.test) == len(fragments) == 10 * 6 * 4 * 4


def test_the_sample_is_part_of_the_fingerprint(project: Path) -> None:
    found = {
        str(fingerprint(msgspec.structs.replace(SPEC, **change), project, project / "memory"))
        for change in (
            {},
            {"sample": SampleSpec(per_class=2)},
            {"sample": SampleSpec(per_class=2, seed=1)},
            {"fragment": FragmentSpec(size=8, overlap=0.5, rotate=90, edge="black")},
            {"fragment": FragmentSpec(size=8, overlap=0.5)},
            {"fragment": FragmentSpec(size=8, overlap=0.5, rotate=90, edge="inside")},
            {"fragment": FragmentSpec(size=8, overlap=0.5, rotate=90, last="drop")},
            {"split": SplitSpec(seed=1)},
        )
    }
    assert len(found) == 8
    plain = {"size": 8, "overlap": 0.5, "rotate": 90, "edge": "mirror", "cut": 1}
    assert fingerprint(SPEC, project, project / "memory")["fragment"] == plain  # as it was before `last`: older keys stand
    assert fingerprint(msgspec.structs.replace(SPEC, memory="1GB"), project, project / "memory") == fingerprint(
        SPEC, project, project / "memory"
    )


def test_a_test_folder_of_its_own_is_kept_apart(tmp_path: Path) -> None:
    write_images(tmp_path / "images/train", each=2, size=12)
    rng = np.random.default_rng(9)
    for label in ("cat", "dog", "eel"):
        (tmp_path / "images/test" / label).mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(tmp_path / "images/test" / label / "9.png")
    fragments = VirtualFragments.of(SPEC, tmp_path)
    assert {file.path.split("/")[0] for file, t in zip(fragments.files, fragments.test, strict=True) if t} == {"test"}
    (tmp_path / "images/test/cat/8.png").write_bytes((tmp_path / "images/train/cat/0.png").read_bytes())
    with pytest.raises(LaminarError, match=r"both in train and in test: train/cat/0.png is test/cat/8.png") as caught:
        VirtualFragments.of(SPEC, tmp_path)
    assert caught.value.code == "L110"


# Samples and splits of whole images


def test_a_sample_of_whole_images_is_balanced(project: Path) -> None:
    data = open_data(DataSpec(source="folder:images", sample=SampleSpec(per_class=2, test_per_class=1)), project)
    assert list(np.bincount(data.train.y)) == [2, 2]
    assert list(np.bincount(data.test.y)) == [1, 1]
    with pytest.raises(LaminarError, match="9 of class 'cat' are asked for, but there are 4") as caught:
        open_data(DataSpec(source="folder:images", sample=SampleSpec(per_class=9)), project)
    assert caught.value.code == "L113"


def test_whole_images_split_by_source_keep_copies_together(project: Path) -> None:
    copied = project / "images/cat/1.png"
    for i in range(5, 9):
        (project / "images/cat" / f"{i}.png").write_bytes(copied.read_bytes())
    for seed in range(8):
        data = open_data(DataSpec(source="folder:images", split=SplitSpec(by="source", seed=seed, test=0.4)), project)
        train, test = ({x.tobytes() for x in part.x} for part in (data.train, data.test))
        assert not train & test
    with pytest.raises(LaminarError, match="needs images in files"):
        open_data(DataSpec(source="digits", split=SplitSpec(by="source")), project)


def test_skipped_images_are_counted_and_the_rest_is_as_if_they_were_not_there(project: Path) -> None:
    whole = fingerprint(DataSpec(source="folder:images"), project, project / "memory")
    (project / "images/dog/7.png").write_bytes(b"no image")
    (project / "images/dog/8.png").write_bytes(b"")
    with pytest.raises(LaminarError, match=r"7\.png cannot be read"):
        open_data(DataSpec(source="folder:images"), project)
    skipping = DataSpec(source="folder:images", skip_bad=True)
    notes: list[str] = []
    data = open_data(skipping, project, notes=notes)
    assert len(data.train) + len(data.test) == 10
    assert "2 of 12 images were skipped" in notes[0] and "7.png" in notes[0]
    assert fingerprint(skipping, project, project / "memory") == whole
    notes.clear()
    open_data(msgspec.structs.replace(SPEC, skip_bad=True), project, notes=notes)
    assert "2 of 12 images were skipped" in notes[0]
