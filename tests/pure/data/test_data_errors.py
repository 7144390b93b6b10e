"""Bad data: every mistake has a code, names the file or setting, and says what was expected."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from data_makers import digits_like, idx_bytes, write_idx_folder, write_images
from PIL import Image

from laminar.core.errors import LaminarError
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.spec import AugmentSpec, DataSpec, FragmentSpec, SplitSpec
from laminar.data.wellformed import named_labels, tidy_samples
from tests.unprivileged import unprivileged


def refused(spec: DataSpec, root: Path, code: str, *says: str) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        open_data(spec, root)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.hint
    for text in says:
        assert text in str(caught.value)
    return caught.value


def npz(root: Path, **arrays: Any) -> DataSpec:
    np.savez(root / "d.npz", **arrays)
    return DataSpec(source="npz:d.npz")


def test_an_unknown_source_has_a_nearest_one(tmp_path: Path) -> None:
    refused(DataSpec(source="digts"), tmp_path, "L105", "'digts'", "did you mean 'digits'")
    refused(DataSpec(source="floder:x"), tmp_path, "L105", "did you mean 'folder'")


@pytest.mark.parametrize("kind", ["folder", "idx", "npz", "python"])
def test_a_source_must_say_what_to_open(kind: str, tmp_path: Path) -> None:
    refused(DataSpec(source=kind), tmp_path, "L109", f"{kind}:")


@pytest.mark.parametrize("kind", ["folder", "idx", "npz"])
def test_a_missing_file_is_named_with_its_absolute_path(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
    refused(DataSpec(source=f"{kind}:not/there"), tmp_path, "L101", str(tmp_path / "not/there"), str(tmp_path / "shared" / "not/there"))
    with pytest.raises(LaminarError) as caught:
        fingerprint(DataSpec(source=f"{kind}:not/there"), tmp_path, tmp_path / "cache")
    assert caught.value.code == "L101"


def test_data_is_also_found_in_the_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
    write_images(tmp_path / "shared" / "pets")
    assert open_data(DataSpec(source="folder:pets"), tmp_path).classes == ("cat", "dog", "eel")


def test_idx_folders_and_their_gaps(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "mine")
    (tmp_path / "mine" / "t10k-labels-idx1-ubyte.gz").unlink()
    refused(DataSpec(source="idx:mine"), tmp_path, "L101", "t10k-labels-idx1-ubyte")
    refused(DataSpec(source="idx:mine/t10k-images-idx3-ubyte.gz"), tmp_path, "L101", "expected a folder")
    refused(DataSpec(source="idx:a,b,c"), tmp_path, "L109", "names 3 files")


def _cut(data: bytes) -> bytes:
    return data[:-100]


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("train-images-idx3-ubyte", _cut, ["is truncated", "1,356 bytes", "expected 1,456", "(40, 6, 6)"]),
        ("train-images-idx3-ubyte", lambda d: d + b"xy", ["left over", "1,458 bytes", "expected 1,456"]),
        ("train-images-idx3-ubyte", lambda _: b"", ["it is empty"]),
        ("train-images-idx3-ubyte", lambda _: b"PNG!" * 9, ["not an idx file", "50 4e 47 21"]),
        ("train-images-idx3-ubyte", lambda d: d[:3] + b"\x09" + d[4:], ["no idx file", "00 00 08 09", "9 dimensions", "(40, 6, 6, "]),
        ("train-images-idx3-ubyte", lambda d: d[:3] + b"\x28" + b"\0" * 160, ["40 dimensions", "(0, 0, 0, 0, …)"]),
        ("train-images-idx3-ubyte", lambda d: d[:3] + b"\xff" + d[4:], ["255 dimensions", "1,456 bytes"]),
        ("train-images-idx3-ubyte", lambda d: d[:9], ["inside its header", "9 bytes", "expected 16"]),
        ("train-images-idx3-ubyte.gz", lambda d: gzip.compress(d)[:-300], ["is truncated", "expected 1,456"]),
        ("train-images-idx3-ubyte.gz", lambda d: gzip.compress(d)[:-6] + b"\0" * 6, ["is damaged", "incorrect data check"]),
        ("train-images-idx3-ubyte.gz", lambda _: b"\x1f\x8b" + b"x" * 50, ["not an idx file"]),
    ],
)
def test_damaged_idx_files(name: str, spoil: Callable[[bytes], bytes], says: list[str], tmp_path: Path) -> None:
    write_idx_folder(tmp_path, zipped=False, test=False)
    whole = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / name).write_bytes(spoil(whole))
    refused(DataSpec(source="idx:."), tmp_path, "L102", str(tmp_path / name), *says)
    with pytest.raises(LaminarError):
        fingerprint(DataSpec(source="idx:."), tmp_path, tmp_path / "cache")


def test_idx_files_that_do_not_belong_together(tmp_path: Path) -> None:
    write_idx_folder(tmp_path, zipped=False)
    spec = DataSpec(source="idx:train-images-idx3-ubyte,t10k-labels-idx1-ubyte")
    refused(spec, tmp_path, "L110", "40 samples", "20 labels")


def test_damaged_npz_files(tmp_path: Path) -> None:
    spec = npz(tmp_path, x=np.zeros((50, 40)), y=np.arange(50) % 2)
    whole = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "d.npz").write_bytes(whole[:-200])
    refused(spec, tmp_path, "L102", str(tmp_path / "d.npz"), f"{len(whole) - 200:,} bytes")
    spoiled = bytearray(whole)
    spoiled[3000] ^= 0xFF
    (tmp_path / "d.npz").write_bytes(spoiled)
    refused(spec, tmp_path, "L102", "CRC")
    (tmp_path / "d.npz").write_bytes(b"no zip at all")
    refused(spec, tmp_path, "L102", "no zip archive")
    np.save(tmp_path / "d.npy", np.zeros(3))
    refused(DataSpec(source="npz:d.npy"), tmp_path, "L102", "single array")


def test_npz_files_with_other_things_inside(tmp_path: Path) -> None:
    refused(npz(tmp_path, x=np.zeros((3, 2)), labels=np.arange(3)), tmp_path, "L102", "no array 'y'")
    refused(npz(tmp_path, x_train=np.zeros((3, 2)), y_train=np.arange(3), x_test=np.zeros((3, 2))), tmp_path, "L102", "no array 'y_test'")
    refused(npz(tmp_path, x=np.array([{}, []], dtype=object), y=np.arange(2)), tmp_path, "L102", "never loaded")


@pytest.mark.parametrize(
    ("arrays", "code", "says"),
    [
        ({"x": np.zeros((0, 4)), "y": np.zeros(0, dtype=int)}, "L103", "no samples"),
        ({"x": np.zeros((4, 2)), "y": np.array([1, 1, 2, 2])}, "L103", "class '0'"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, 1, 0])}, "L110", "3 labels"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, -1, 0, 1])}, "L110", "label -1 of sample 1"),
        ({"x": np.zeros((4, 2)), "y": np.zeros((4, 3), dtype=int)}, "L110", "(4, 3)"),
        ({"x": np.array(["a", "b"]), "y": np.arange(2)}, "L110", "expected numbers"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, 1, 2, 0]), "classes": np.array(["a", "b"])}, "L104", "only 2 classes are named"),
        ({"x": np.array([[0.0], [np.nan], [1.0]]), "y": np.arange(3.0)}, "L110", "sample 1 has a value that is not finite"),
        ({"x": np.zeros((3, 1)), "y": np.array([0.0, 1.0, np.inf])}, "L110", "target of sample 2"),
        ({"x": np.zeros((1, 2)), "y": np.zeros(1, dtype=int)}, "L103", "too few"),
        (
            {"x_train": np.zeros((4, 2)), "y_train": np.arange(4) % 2, "x_test": np.zeros((4, 3)), "y_test": np.arange(4) % 2},
            "L106",
            "(3,)",
        ),
        (
            {"x_train": np.zeros((4, 2)), "y_train": np.arange(4) % 2, "x_test": np.zeros((4, 2)), "y_test": np.arange(4) / 2},
            "L110",
            "whole numbers",
        ),
    ],
)
def test_samples_and_labels_that_do_not_fit(arrays: dict[str, np.ndarray], code: str, says: str, tmp_path: Path) -> None:
    refused(npz(tmp_path, **arrays), tmp_path, code, says)


def test_labels_may_be_words(tmp_path: Path) -> None:
    data = open_data(npz(tmp_path, x=np.zeros((6, 2)), y=np.array(["b", "a", "b", "a", "c", "c"])), tmp_path)
    assert data.classes == ("a", "b", "c")
    assert sorted([*data.train.y, *data.test.y]) == [0, 0, 1, 1, 2, 2]


def test_shapes_are_brought_to_channels_first(tmp_path: Path) -> None:
    y = np.arange(4) % 2
    for given, kept in (((4, 5, 6), (1, 5, 6)), ((4, 5, 6, 3), (3, 5, 6)), ((4, 3, 5, 6), (3, 5, 6)), ((4, 7), (7,)), ((4,), (1,))):
        assert open_data(npz(tmp_path, x=np.zeros(given), y=y), tmp_path).sample_shape == kept


def test_mixed_sizes_name_two_files_and_the_cure(tmp_path: Path) -> None:
    write_images(tmp_path / "pets", classes=("cat", "dog"))
    Image.new("RGB", (9, 5)).save(tmp_path / "pets" / "dog" / "2.png")
    spec = DataSpec(source="folder:pets")
    refused(spec, tmp_path, "L106", str(tmp_path / "pets/cat/0.png"), "6x6", str(tmp_path / "pets/dog/2.png"), "9x5", "size = 6")
    assert open_data(DataSpec(source="folder:pets", size=4), tmp_path).sample_shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(lambda d: d[: len(d) // 2], "bytes)"), (lambda _: b"", "empty (0 bytes)"), (lambda _: b"text" * 9, "36 bytes are no image")],
)
def test_damaged_images(spoil: Callable[[bytes], bytes], says: str, tmp_path: Path) -> None:
    write_images(tmp_path / "pets", size=40)
    bad = tmp_path / "pets" / "dog" / "3.png"
    bad.write_bytes(spoil(bad.read_bytes()))
    refused(DataSpec(source="folder:pets"), tmp_path, "L102", str(bad), says)


def test_folders_that_are_no_class_folders(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    spec = DataSpec(source="folder:pets")
    refused(spec, tmp_path, "L103", "no class folders")
    Image.new("L", (4, 4)).save(tmp_path / "pets" / "a.png")
    refused(spec, tmp_path, "L103", "1 image is in it")
    write_images(tmp_path / "pets")
    refused(spec, tmp_path, "L103", str(tmp_path / "pets" / "a.png"))
    (tmp_path / "pets" / "a.png").unlink()
    (tmp_path / "pets" / "fox").mkdir()
    refused(spec, tmp_path, "L103", str(tmp_path / "pets" / "fox"))
    (tmp_path / "pets" / "fox" / "1.jpg").symlink_to(tmp_path / "nowhere.jpg")
    refused(spec, tmp_path, "L101", "link to nothing")


def test_a_class_of_test_that_was_never_trained(tmp_path: Path) -> None:
    write_images(tmp_path / "pets" / "train")
    write_images(tmp_path / "pets" / "test", classes=("cat", "dgo"))
    refused(DataSpec(source="folder:pets"), tmp_path, "L104", "'dgo'", "did you mean 'dog'")


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    write_idx_folder(tmp_path, zipped=False)
    (tmp_path / "train-images-idx3-ubyte").chmod(0)
    done = unprivileged("-c", OPEN_IDX, cwd=tmp_path).stdout
    assert done.startswith("L102 ")
    assert "Permission denied" in done


OPEN_IDX = """
from pathlib import Path
from laminar.core.errors import LaminarError
from laminar.data.open import open_data
from laminar.data.spec import DataSpec
try:
    open_data(DataSpec(source="idx:."), Path())
except LaminarError as error:
    print(error.code, error.message)
"""


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400])
@pytest.mark.parametrize("which", ["pets", "pets/cat", "pets/train"])
def test_a_folder_that_may_not_be_listed(which: str, mode: int, tmp_path: Path) -> None:
    write_images(tmp_path / "pets" / "train" if which == "pets/train" else tmp_path / "pets")
    folder = tmp_path / which
    folder.chmod(mode)
    try:
        refused(DataSpec(source="folder:pets"), tmp_path, "L102", str(folder), "Permission denied")
    finally:
        folder.chmod(0o700)


def test_grey_and_sixteen_bit_images(tmp_path: Path) -> None:
    write_images(tmp_path / "grey", mode="L")
    assert open_data(DataSpec(source="folder:grey"), tmp_path).sample_shape == (1, 6, 6)
    deep = np.full((6, 6), 0x1234, dtype=np.uint16)
    for name in ("cat", "dog", "eel"):
        Image.fromarray(deep).save(tmp_path / "grey" / name / "deep.png")
    data = open_data(DataSpec(source="folder:grey"), tmp_path)
    assert data.sample_shape == (1, 6, 6)
    assert (data.train.x == 0x12).all(axis=(1, 2, 3)).sum() + (data.test.x == 0x12).all(axis=(1, 2, 3)).sum() == 3
    write_images(tmp_path / "grey", classes=("dog",), each=1)  # one in colour: all are read in colour
    assert open_data(DataSpec(source="folder:grey"), tmp_path).sample_shape == (3, 6, 6)
    assert open_data(DataSpec(source="folder:grey", grey=True), tmp_path).sample_shape == (1, 6, 6)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (DataSpec(source="digits:8"), "after the colon"),
        (DataSpec(source="digits", args={"seed": 1}), "args.seed"),
        (DataSpec(source="digits", size=16), "size: applies to folder"),
        (DataSpec(source="glyphs", size=16), "args = { size = 16 }"),
        (DataSpec(source="mnist", grey=True), "grey: applies to folder"),
        (DataSpec(source="glyphs", args={"domian": "letters"}), "did you mean 'domain'"),
        (DataSpec(source="glyphs", args={"domain": "leters"}), "did you mean 'letters'"),
        (DataSpec(source="glyphs", args={"count": 0}), "args.count: 0"),
        (DataSpec(source="glyphs", args={"size": 4}), "from 8"),
        (DataSpec(source="glyphs", args={"noise": "much"}), "args.noise: 'much'"),
        (DataSpec(source="glyphs", args={"seed": 0.5}), "args.seed"),
        (DataSpec(source="glyphs", args={"seed": {1, 2}}), "args: "),
        (DataSpec(source="digits", split=SplitSpec(test=1.5)), "split.test"),
        (DataSpec(source="digits", limit=0), "limit"),
        (DataSpec(source="digits", augment=AugmentSpec(shift=-1)), "augment.shift"),
        (DataSpec(source="digits", augment=AugmentSpec(flip="sideways")), "augment.flip"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_do_not_apply_are_never_ignored(spec: DataSpec, says: str, tmp_path: Path) -> None:
    refused(spec, tmp_path, "L109", says)


def test_augmentation_that_does_not_fit_is_known_before_the_data_is_opened(tmp_path: Path) -> None:
    """By whoever asks for the fingerprint: status, explain, build."""
    write_images(tmp_path / "pets", size=9)
    write_idx_folder(tmp_path / "digits")
    np.savez(tmp_path / "flat.npz", x=np.zeros((9, 5), dtype=np.float32), y=np.arange(9) % 3)
    (tmp_path / "rows.csv").write_text("a,b,label\n" + "1,2,0\n3,4,1\n" * 5)
    size = FragmentSpec(size=4)
    for spec, shift, says in (
        (DataSpec(source="digits"), 8, "augment.shift: 8 pixels, but images are 8x8"),
        (DataSpec(source="glyphs", args={"size": 12}), 12, "12x12"),
        (DataSpec(source="folder:pets"), 9, "9x9"),
        (DataSpec(source="folder:pets", size=7), 7, "7x7"),
        (DataSpec(source="folder:pets", fragment=size), 4, "4x4"),
        (DataSpec(source="idx:digits"), 6, "6x6"),
        (DataSpec(source="npz:flat.npz"), 1, "needed for shift"),
        (DataSpec(source="csv:rows.csv"), 1, "needed for shift"),
    ):
        bad = msgspec.structs.replace(spec, augment=AugmentSpec(shift=shift))
        refused(bad, tmp_path, "L109", says)
        with pytest.raises(LaminarError) as caught:
            fingerprint(bad, tmp_path, tmp_path / "cache")
        assert caught.value.code == "L109"
        assert says in caught.value.message
        if shift > 1:
            good = msgspec.structs.replace(spec, augment=AugmentSpec(shift=shift - 1))
            assert fingerprint(good, tmp_path, tmp_path / "cache")["augment"]["shift"] == shift - 1


def test_a_limit_below_the_number_of_classes(tmp_path: Path) -> None:
    refused(DataSpec(source="digits", limit=9), tmp_path, "L103", "limit: 9", "10 classes")


def test_an_unknown_class_is_known_before_training(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="no class 12") as caught:
        fingerprint(DataSpec(source="digits", classes=[12]), tmp_path, tmp_path)
    assert caught.value.code == "L104"


def test_a_chosen_class_without_test_samples_is_fine_but_not_all(tmp_path: Path) -> None:
    x, _ = digits_like(8)
    arrays = {"x_train": x, "y_train": np.arange(8) % 2, "x_test": x[:2], "y_test": np.zeros(2, dtype=int)}
    spec = npz(tmp_path, **arrays)
    assert len(open_data(spec, tmp_path).test) == 2
    refused(DataSpec(source=spec.source, classes=[1]), tmp_path, "L103", "test set has no samples")


def test_idx_of_other_types_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(idx_bytes(np.linspace(0, 1, 30, dtype=np.float32).reshape(10, 3)))
    (tmp_path / "y").write_bytes(idx_bytes((np.arange(10) % 2).astype(np.int32)))
    data = open_data(DataSpec(source="idx:x,y"), tmp_path)
    assert data.train.x.dtype == np.float32
    assert data.train.x.dtype.isnative
    assert data.sample_shape == (3,)


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_label_far_out_of_range_is_told_at_once(kind: str, tmp_path: Path) -> None:
    """A billion classes must not be made first."""
    if kind == "npz":
        spec = npz(tmp_path, x=np.zeros((3, 2), np.float32), y=np.array([0, 1, 10**12]))
    else:
        (tmp_path / "d.csv").write_text("a,b,label\n1,2,0\n1,3,1\n1,4,1000000000000\n")
        spec = DataSpec(source="csv:d.csv")
    refused(spec, tmp_path, "L104", "label 1000000000000 of sample 2", "3 samples")


class HalfTensor:
    """Like a tensor of a kind of number that numpy does not have."""

    dtype = "torch.bfloat16"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __iter__(self) -> Any:
        raise TypeError("rows cannot be looked at")


@pytest.mark.parametrize("what", ["samples", "labels"])
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1, 2], [3]], "are ragged: row 0 has shape (2,), row 1 has shape (1,)"),
        (np.array([np.zeros(2), np.zeros(2), np.zeros(3)], dtype=object), "row 2 has shape (3,)"),
        (HalfTensor(), "of type bfloat16 cannot be read"),
    ],
)
def test_rows_that_are_no_array_say_what_is_allowed(what: str, rows: Any, says: str) -> None:
    read = {"samples": lambda: tidy_samples(rows, "d"), "labels": lambda: named_labels([rows], "d")}[what]
    with pytest.raises(LaminarError) as caught:
        read()
    assert caught.value.code == "L110" and caught.value.hint
    assert what in caught.value.message and says in caught.value.message and "float32" in caught.value.message


def test_more_classes_than_samples_are_a_vocabulary(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spec = npz(tmp_path, x=rng.normal(size=(2000, 3)).astype(np.float32), y=rng.integers(0, 30_000, 2000))
    dataset = open_data(spec, tmp_path)
    assert dataset.classes is not None and 29_000 < len(dataset.classes) <= 30_000
    assert len(dataset.train) + len(dataset.test) == 2000


@pytest.mark.parametrize("labels", [[0, 1, 1_000_000_000], [0, 1, 2, 9], [3, 1], list(range(0, 30_000_000, 10_000))])
def test_a_label_apart_from_the_others_is_mistyped(labels: list[int], tmp_path: Path) -> None:
    spec = npz(tmp_path, x=np.zeros((len(labels), 3), np.float32), y=np.array(labels))
    refused(spec, tmp_path, "L104", f"label {max(labels)} of sample {labels.index(max(labels))} is out of range")


@pytest.mark.parametrize(("shape", "noted"), [((40, 5), True), ((40, 1, 1, 5), True), ((40, 8, 8), False), ((40, 3, 8, 8), False)])
def test_bytes_that_are_no_pictures_are_said_to_be_divided(shape: tuple[int, ...], noted: bool, tmp_path: Path) -> None:
    notes: list[str] = []
    open_data(npz(tmp_path, x=np.ones(shape, np.uint8), y=np.arange(40) % 2), tmp_path, notes=notes)
    assert any("divided by 255" in note and "int32" in note for note in notes) == noted
