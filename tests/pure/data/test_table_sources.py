"""What tables and files of arrays open to, and every mistake in them, told with file, line and column."""

from __future__ import annotations

import builtins
import json
import re
import struct
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_makers import digits_like
from safetensors.numpy import save_file
from table_makers import CLASSES, pictures, png, save_to_disk, write_csv, write_parquet
from test_data_errors import refused

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset
from laminar.data.fingerprint import fingerprint
from laminar.data.formats import delimited
from laminar.data.open import open_data
from laminar.data.remember import Memory
from laminar.data.room import Room, is_mapped
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Opening
from laminar.data.spec import DataSpec


def opened(spec: DataSpec, root: Path, room: Room | None = None) -> Any:
    return source_of(spec, root).open(Opening(room or Room(), Memory(root / "cache")))


def csv(root: Path, text: str, **args: Any) -> DataSpec:
    (root / "d.csv").write_text(text)
    return DataSpec(source="csv:d.csv", args=args)


def test_csv_of_named_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_CELLS", 7)  # several parts
    write_csv(tmp_path / "d.csv")
    got = opened(DataSpec(source="csv:d.csv"), tmp_path)
    assert got.classes == ("cat", "dog", "eel")
    assert got.train.x.dtype == np.float32
    assert got.train.x.tolist() == [[i, i * i % 7] for i in range(30)]
    assert got.train.y.tolist() == [i % 3 for i in range(30)]


def test_csv_kinds_of_labels(tmp_path: Path) -> None:
    whole = opened(csv(tmp_path, "\ufefflabel,a\n2,1.5\n0,-1e-3\n\n1, 7 \n"), tmp_path)
    assert whole.classes == ("0", "1", "2")
    assert whole.train.y.tolist() == [2, 0, 1]
    assert whole.train.x[:, 0].tolist() == np.array([1.5, -1e-3, 7], dtype=np.float32).tolist()
    real = opened(csv(tmp_path, "a,t\n1,2\n3,0.25\n"), tmp_path)
    assert real.classes is None
    assert real.train.y.tolist() == [[2.0], [0.25]]
    mixed = opened(csv(tmp_path, 'a,t\n1,"big, red"\n3,7\n'), tmp_path)
    assert mixed.classes == ("7", "big, red")
    assert mixed.train.y.tolist() == [1, 0]


def test_csv_columns_and_labels_by_name_or_number(tmp_path: Path) -> None:
    text = "id\tkind\ta\tb\nx\t0\t1\t2\ny\t1\t3\t4\n"
    for label, columns in (("kind", ["b", "a"]), (1, [3, 2]), (-3, ["b", 2])):
        got = opened(csv(tmp_path, text, label=label, columns=columns, delimiter="\t"), tmp_path)
        assert got.train.x.tolist() == [[2, 1], [4, 3]]
        assert got.train.y.tolist() == [0, 1]


def test_csv_train_and_test_agree_on_the_kind_of_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("kind,a\n1,5\n0.5,6\n")
    got = opened(csv(tmp_path, "a,kind\n1,0\n2,1\n", test="t.csv", label="kind"), tmp_path)
    assert got.classes is None
    assert got.test.x.tolist() == [[5], [6]]  # by name, not by place
    (tmp_path / "t.csv").write_text("kind,a\nx,5\n")
    assert opened(csv(tmp_path, "a,kind\n1,0\n2,1\n", test="t.csv"), tmp_path).classes == ("0", "1", "x")


@pytest.mark.parametrize(
    ("text", "args", "code", "says"),
    [
        ("a,b,label\n1,2,0\n1,zwei,1\n", {}, "L110", ["line 3", "column 'b'", "'zwei' is not a number", 'columns = ["a"]']),
        ("a,b,label\n1,2,0\n\n1,,1\n", {}, "L110", ["line 4", "column 'b'", "empty"]),
        ("a,b,label\n1,2,0\n1,nan,1\n", {}, "L110", ["line 3", "column 'b'", "not finite"]),
        ("a,b,label\n1,2,0\n1,1e39,1\n", {}, "L110", ["line 3", "too large for float32"]),
        ("a,b,label\n1,2,0\n1,2\n", {}, "L102", ["line 3", "2 cells, expected 3", "a, b, label"]),
        ("a,b,label\n1,2,0\n1,2,-1\n", {}, "L110", ["line 3", "column 'label'", "negative"]),
        ("a,b,label\n1,2,x\n1,2,\n", {}, "L110", ["line 3", "column 'label'", "empty"]),
        ("a,b,label\n1,2,0.5\n1,2,inf\n", {}, "L110", ["line 3", "column 'label'", "not finite"]),
        ('a,b,label\n1,"2,0\n', {}, "L102", ["line 2", "end of data"]),
        ("1,2,0\n3,4,1\n", {}, "L102", ["line 1", "are numbers, expected names"]),
        ("a,a,label\n1,2,0\n", {}, "L102", ["two columns are called 'a'"]),
        ("a;b;label\n1;2;0\n", {}, "L102", ["single column", "delimiter ','"]),
        ("", {}, "L103", ["is empty"]),
        ("a,label\n", {}, "L103", ["no samples"]),
        ("width,label\n1,0\n", {"label": "lable"}, "L109", ["no column 'lable'", "did you mean 'label'"]),
        ("width,label\n1,0\n", {"label": 2}, "L109", ["no column 2", "there are 2"]),
        ("width,label\n1,0\n", {"columns": ["widht"]}, "L109", ["did you mean 'width'"]),
        ("width,label\n1,0\n", {"columns": ["label"]}, "L109", ["'label' is the label"]),
        ("width,label\n1,0\n", {"columns": "width"}, "L109", ["expected a list"]),
        ("width,label\n1,0\n", {"label": True}, "L109", ["expected a column's name"]),
        ("width,label\n1,0\n", {"delimiter": ",,"}, "L109", ["expected one character"]),
        ("width,label\n1,0\n", {"test": 3}, "L109", ["expected the name of a file"]),
        ("width,label\n1,0\n", {"lable": "x"}, "L109", ["did you mean 'label'"]),
    ],
)
def test_csv_mistakes(text: str, args: dict[str, Any], code: str, says: list[str], tmp_path: Path) -> None:
    error = refused(csv(tmp_path, text, **args), tmp_path, code, *says)
    if code in ("L102", "L110"):
        assert str(tmp_path / "d.csv") in error.message


def test_csv_files_that_do_not_belong_together(tmp_path: Path) -> None:
    spec = csv(tmp_path, "width,kind\n1,0\n2,1\n", test="t.csv")
    (tmp_path / "t.csv").write_text("widht,kind\n1,0\n")
    refused(spec, tmp_path, "L109", "t.csv has no column 'width'", "did you mean 'widht'")
    (tmp_path / "t.csv").write_text("width,height,kind\n1,2,0\n")
    refused(spec, tmp_path, "L110", "column 'height' is not in")


def test_csv_that_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"a,label\n1,caf\xe9\n")
    refused(DataSpec(source="csv:d.csv"), tmp_path, "L102", "UTF-8")


def test_npy_mistakes(tmp_path: Path) -> None:
    x, y = digits_like()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    spec = DataSpec(source="npy:x.npy,y.npy")
    refused(DataSpec(source="npy:x.npy"), tmp_path, "L109", "names 1", "expected 2")
    refused(DataSpec(source="npy:x.npy,z.npy"), tmp_path, "L101", "z.npy")
    whole = (tmp_path / "x.npy").read_bytes()
    for data, says in (
        (whole[:-10], "truncated"),
        (whole + b"x", "left over"),
        (b"", "EOF"),
        (b"PK" + whole, "magic"),
        (whole.replace(b"(40, 6, 6)", b"(40, 6,-6)"), "truncated"),
        (whole.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x07"), "format 7"),
    ):
        (tmp_path / "x.npy").write_bytes(data)
        refused(spec, tmp_path, "L102", "x.npy", says)
    np.save(tmp_path / "x.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    refused(spec, tmp_path, "L102", "Python objects, which are never loaded")
    np.save(tmp_path / "x.npy", x[:-1])
    refused(spec, tmp_path, "L110", "39 train samples, but 40 labels")


def test_safetensors_types_and_mistakes(tmp_path: Path) -> None:
    x, y = digits_like()
    path, spec = tmp_path / "d.safetensors", DataSpec(source="safetensors:d.safetensors")
    save_file({"x_train": x.astype(np.float16), "y_train": y, "x_test": x[:8].astype(np.float16), "y_test": y[:8]}, path)
    got = opened(spec, tmp_path)
    assert got.train.x.dtype == np.float32
    assert np.array_equal(got.train.x[:, 0], x)
    assert len(got.test) == 8

    def write(header: dict[str, Any], data: bytes) -> None:
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)

    halves = np.array([[1.5, -2.0], [0.25, 3.0]], dtype=np.float32)
    data = (halves.view(np.uint32) >> 16).astype("<u2").tobytes() + b"\0\1"
    about = {"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}, "y": {"dtype": "U8", "shape": [2], "data_offsets": [8, 10]}}
    write({**about, "__metadata__": {"classes": '["no", "yes"]'}}, data)
    got = opened(spec, tmp_path)
    assert np.array_equal(got.train.x, halves)
    assert got.classes == ("no", "yes")

    write(about, data[:-1])
    refused(spec, tmp_path, "L102", "truncated", "'y'")
    write({**about, "y": {"dtype": "U9", "shape": [2], "data_offsets": [8, 10]}}, data)
    refused(spec, tmp_path, "L102", "dtype U9", "did you mean")
    write({**about, "y": {"dtype": "U8", "shape": [3], "data_offsets": [8, 10]}}, data)
    refused(spec, tmp_path, "L102", "2 bytes, expected 3")
    write({"x": about["x"], "lables": about["y"]}, data)
    refused(spec, tmp_path, "L102", "no array 'y'")
    path.write_bytes(b"\xff" * 20)
    refused(spec, tmp_path, "L102", "header")
    path.write_bytes(b"")
    refused(spec, tmp_path, "L102", "ends inside")


@pytest.mark.parametrize("compressed", [True, False])
def test_an_npz_that_was_damaged_in_the_middle(compressed: bool, tmp_path: Path) -> None:
    x, y = digits_like(400)
    (np.savez_compressed if compressed else np.savez)(tmp_path / "d.npz", x=x, y=y)
    data = bytearray((tmp_path / "d.npz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "d.npz").write_bytes(data)
    refused(DataSpec(source="npz:d.npz"), tmp_path, "L102", "d.npz")


@pytest.mark.parametrize("source", ["npy:x.npy,y.npy", "npz:d.npz", "safetensors:d.safetensors", "csv:d.csv", "parquet:d.parquet"])
def test_a_budget_changes_where_samples_are_and_nothing_else(source: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((60, 5))
    y = np.arange(60) % 3
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    save_file({"x": x, "y": y}, tmp_path / "d.safetensors")
    lines = [",".join([*(repr(v) for v in row.tolist()), str(k)]) for row, k in zip(x, y, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,c,d,e,label", *lines]))
    write_parquet(tmp_path / "d.parquet", {"x": x.tolist(), "label": y})
    found: list[Dataset] = [open_data(DataSpec(source=source, memory=m), tmp_path) for m in (None, 100)]
    assert not is_mapped(found[0].train.x)
    assert is_mapped(found[1].train.x) and is_mapped(found[1].test.x)
    for side in ("train", "test"):
        one, two = (getattr(data, side) for data in found)
        assert np.array_equal(one.x, two.x) and np.array_equal(one.y, two.y)
    assert fingerprint(DataSpec(source=source), tmp_path, tmp_path / "c") == fingerprint(
        DataSpec(source=source, memory=100), tmp_path, tmp_path / "d"
    )


def test_parquet_columns(tmp_path: Path) -> None:
    import pyarrow as pa

    spec = DataSpec(source="parquet:d.parquet")
    grid = np.arange(48, dtype=np.uint8).reshape(4, 3, 4)
    write_parquet(tmp_path / "d.parquet", {"m": pa.array(grid.tolist(), pa.list_(pa.list_(pa.uint8()))), "label": [0.5, 1.5, 2.5, 3.5]})
    got = opened(spec, tmp_path)
    assert got.train.x.dtype == np.uint8
    assert np.array_equal(got.train.x[:, 0], grid)
    assert got.classes is None
    write_parquet(tmp_path / "d.parquet", {"a": pa.array([1, 2], pa.uint8()), "b": pa.array([3, 4], pa.uint8()), "label": ["n", "m"]})
    got = opened(spec, tmp_path)
    assert got.train.x.dtype == np.uint8
    assert got.train.y.tolist() == [1, 0]
    write_parquet(tmp_path / "d.parquet", {"a": [1, 2], "label": pa.array(["n", "m"]).dictionary_encode(), "z": [True, False]})
    got = opened(spec, tmp_path)
    assert got.train.x.tolist() == [[1, 1], [2, 0]]
    assert got.classes == ("m", "n")
    write_parquet(tmp_path / "d.parquet", {"name": ["x", "y"], "a": [1, 2], "t": pa.array([[1.0, 2.0], [3.0, 4.0]])})
    got = opened(DataSpec(source="parquet:d.parquet", args={"columns": ["a"]}), tmp_path)
    assert got.train.y.tolist() == [[1, 2], [3, 4]]


def test_parquet_mistakes(tmp_path: Path) -> None:
    spec, path = DataSpec(source="parquet:d.parquet"), tmp_path / "d.parquet"
    write_parquet(path, {"name": ["x", "y"], "a": [1, 2], "label": [0, 1]})
    refused(spec, tmp_path, "L110", "column 'name'", "string", 'columns = ["a"] }')  # not the label
    refused(DataSpec(source="parquet:d.parquet", args={"label": "lable"}), tmp_path, "L109", "did you mean 'label'")
    refused(DataSpec(source="parquet:d.parquet", args={"columns": ["b"]}), tmp_path, "L109", "no column 'b'")
    refused(DataSpec(source="parquet:d.parquet", args={"columns": ["a"]}, size=3), tmp_path, "L109", "size", "not images")
    refused(DataSpec(source="parquet:d.parquet", skip_bad=True), tmp_path, "L109", "skip_bad")
    write_parquet(path, {"name": ["x", "y"], "label": [0, 1]})
    refused(spec, tmp_path, "L110", "column 'name'", "string", "beside the label 'label' there is no column of images")
    write_parquet(path, {"a": [1, None], "label": [0, 1]})
    refused(spec, tmp_path, "L110", "column 'a'", "row 1")
    write_parquet(path, {"a": [[1, 2], [3]], "label": [0, 1]})
    refused(spec, tmp_path, "L106", "column 'a'", "(2,)", "(1,)")
    write_parquet(path, {"a": [[1], [3]], "b": [[1], [2]], "label": [0, 1]})
    refused(spec, tmp_path, "L109", "2 columns of lists", "a, b")
    write_parquet(path, {"a": [1, 2], "label": [0, -1]})
    refused(spec, tmp_path, "L110", "negative")
    write_parquet(path, {"label": [0, 1]})
    refused(spec, tmp_path, "L110", "expected a label and another")
    path.write_bytes(path.read_bytes()[:-7])
    refused(spec, tmp_path, "L102", "d.parquet", "Parquet")
    path.unlink()
    path.mkdir()
    refused(spec, tmp_path, "L103", "no files *.parquet")


def test_images_in_tables(tmp_path: Path) -> None:
    write_parquet(tmp_path / "d.parquet", pictures(9))
    got = opened(DataSpec(source="parquet:d.parquet"), tmp_path)
    assert got.train.x.shape == (9, 3, 6, 6)
    assert got.train.x[:, 0, 0, 0].tolist() == [3 * i for i in range(9)]
    assert got.classes == tuple(CLASSES)
    assert opened(DataSpec(source="parquet:d.parquet", size=4, grey=True), tmp_path).train.x.shape == (9, 1, 4, 4)
    spec = DataSpec(source="parquet:d.parquet")
    columns = pictures(3)
    columns["image"][1]["bytes"] = png(5, size=7)
    write_parquet(tmp_path / "d.parquet", columns)
    refused(spec, tmp_path, "L106", "the first is 6x6", "row 1 is 7x7")
    columns["image"][1]["bytes"] = png(5)[:50]
    write_parquet(tmp_path / "d.parquet", columns)
    refused(spec, tmp_path, "L102", "row 1")
    columns["image"][1]["bytes"] = None
    write_parquet(tmp_path / "d.parquet", columns)
    refused(spec, tmp_path, "L102", "row 1 is not in the file", "1.png")
    columns = pictures(3)
    columns["label"] = [0, 1, 3]
    write_parquet(tmp_path / "d.parquet", columns)
    refused(spec, tmp_path, "L104", "a label is 3", "3 classes")


def test_splits_of_a_folder_of_parquet_files(tmp_path: Path) -> None:
    for name in ("default/train/0000", "default/validation/0000", "default/test/0000"):
        write_parquet(tmp_path / "set" / f"{name}.parquet", {"a": [1, 2, 3], "label": [0, 1, 0]})
    notes: list[str] = []
    data = open_data(DataSpec(source="parquet:set"), tmp_path, notes=notes)
    assert len(data.train) == len(data.test) == 3
    assert "validation left out" in notes[0]
    write_parquet(tmp_path / "set" / "default/train/0001.parquet", {"b": [1, 2, 3], "label": [0, 1, 0]})
    refused(DataSpec(source="parquet:set"), tmp_path, "L110", "0001.parquet has no column 'a'")
    write_parquet(tmp_path / "set" / "default/train/0001.parquet", {"a": ["1"], "label": [0]})
    refused(DataSpec(source="parquet:set"), tmp_path, "L110", "column 'a' is int64", "string")


def test_folders_of_save_to_disk_and_their_mistakes(tmp_path: Path) -> None:
    spec, saved = DataSpec(source="hf:saved"), tmp_path / "saved"
    save_to_disk(saved / "train", pictures(9))
    save_to_disk(saved / "validation", pictures(6))
    (saved / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    got = opened(spec, tmp_path)
    assert (len(got.train), len(got.test)) == (9, 6)
    assert got.train.x[:, 0, 0, 0].tolist() == [3 * i for i in range(9)]

    arrow = saved / "train" / "data-00000-of-00001.arrow"
    whole = arrow.read_bytes()
    arrow.write_bytes(whole[: len(whole) // 2])
    refused(spec, tmp_path, "L102", str(arrow), "Arrow stream")
    arrow.unlink()
    refused(spec, tmp_path, "L101", str(arrow))
    for state, says in (
        ({"_data_files": [{"filename": "../../secret.arrow"}]}, "outside"),
        ({"_data_files": []}, "does not name"),
        ({"_data_files": [{"filename": "a.arrow"}], "_indices_data_files": [{"filename": "i.arrow"}]}, "flatten_indices"),
    ):
        (saved / "train" / "state.json").write_text(json.dumps(state))
        refused(spec, tmp_path, "L102", says)
    (saved / "train" / "state.json").write_text("{")
    refused(spec, tmp_path, "L102", "state.json cannot be read")
    (saved / "train" / "state.json").unlink()
    refused(spec, tmp_path, "L101", "state.json")
    (saved / "dataset_dict.json").write_text('{"splits": ["../x"]}')
    refused(spec, tmp_path, "L102", "does not name its splits")
    (saved / "dataset_dict.json").write_text('{"splits": ["validation"]}')
    refused(spec, tmp_path, "L103", "no split 'train'")


def test_folders_that_datasets_itself_wrote(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES)})
    data = datasets.Dataset.from_dict(pictures(12), features=features).shuffle(seed=0)
    datasets.DatasetDict({"train": data, "test": data.select([3, 1])}).save_to_disk(str(tmp_path / "saved"))
    got = opened(DataSpec(source="hf:saved"), tmp_path)
    assert got.train.y.tolist() == data["label"]
    assert got.classes == tuple(CLASSES)
    assert len(got.test) == 2


@pytest.mark.parametrize("source", ["parquet:d.parquet", "hf:saved"])
def test_a_missing_library_is_named_with_the_command_that_brings_it(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "d.parquet", pictures(9))
    save_to_disk(tmp_path / "saved", pictures(9))
    there = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return there(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    refused(DataSpec(source=source), tmp_path, "L011", "pyarrow", "pip install 'laminar-train[parquet]'")


HEADED = "name,town,a,b,class\nann,ulm,1,2,cat\nbob,bonn,2,3,dog\ncid,ulm,3,1,cat\ndan,bonn,1,2,dog\n"


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (HEADED, {}),
        (HEADED, {"label": "town"}),
        (HEADED, {"columns": ["name", "b"]}),
        ("class,b\ncat,1\ndog,0\ncat,1\ndog,0\n", {}),  # the label is taken to be the last column, and the samples are text
    ],
)
def test_hints_lead_to_a_table_that_opens_and_never_contradict_each_other(text: str, args: dict[str, Any], tmp_path: Path) -> None:
    """A text column that a hint has dropped does not come back in the next one."""
    (tmp_path / "t.csv").write_text(text)
    for _ in range(3):
        try:
            open_data(DataSpec(source="csv:t.csv", args=args), tmp_path)
        except LaminarError as error:
            (written,) = re.findall(r"args = \{ (.*) \}", error.hint)
            args = args | tomllib.loads(written)
        else:
            break
    else:
        pytest.fail("the hints go in a circle")
    assert "name" not in args.get("columns", []) and "town" not in args.get("columns", [])


def test_a_table_of_text_alone_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("class,b\ncat,u\ndog,v\n")
    error = refused(DataSpec(source="csv:t.csv"), tmp_path, "L110", "'cat' is not a number")
    assert "beside the label 'b' there is no column of numbers" in error.hint
