"""Indexes: what is written is read again; what could harm is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from data_makers import write_images
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.data.fingerprint import fingerprint
from laminar.data.index import CHUNK, read_index, safe_path
from laminar.data.make_index import index_of, write_index
from laminar.data.spec import DataSpec

ENTRY = {"path": "cat/1.png", "class": "cat", "sha256": "0" * 64, "size": 10, "width": 4, "height": 4}


def bytes_of(*files: dict[str, Any], **top: Any) -> bytes:
    return json.dumps({"format": 1, "files": list(files), **top}).encode()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))


def test_an_index_says_what_lies_in_the_folder(tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=3, size=7)
    written = write_index(tmp_path / "images", tmp_path / "index.json")
    index = read_index((tmp_path / "index.json").read_bytes(), "index.json")
    assert written.sha256 == digest.of_file(tmp_path / "index.json")
    assert index.classes == ("cat", "dog", "eel")
    assert len(index.files) == written.images == 9
    for file in index.files:
        path = tmp_path / "images" / file.path
        assert (file.sha256, file.size) == (digest.of_file(path), path.stat().st_size)
        assert (file.width, file.height, file.grey, file.split) == (7, 7, False, None)
        assert file.label == path.parent.name


def test_large_files_have_a_digest_for_every_chunk(tmp_path: Path) -> None:
    write_images(tmp_path, each=1)
    noise = Image.effect_noise((1200, 1200), 90)
    noise.save(tmp_path / "cat" / "0.png")
    index, _ = index_of(tmp_path)
    big = next(file for file in index.files if file.path == "cat/0.png")
    data = (tmp_path / "cat/0.png").read_bytes()
    assert len(data) > CHUNK
    assert big.chunks == [digest.of_bytes(data[i : i + CHUNK]) for i in range(0, len(data), CHUNK)]
    assert read_index(index.encode(), "x") == index


def test_train_and_test_folders_are_told_apart(tmp_path: Path) -> None:
    write_images(tmp_path / "train", each=2)
    write_images(tmp_path / "test", classes=("cat", "dog"), each=1)
    index, _ = index_of(tmp_path)
    assert index.own_test
    assert {file.split for file in index.files if file.path.startswith("test/")} == {"test"}
    assert {file.split for file in index.files if file.path.startswith("train/")} == {"train"}


@pytest.mark.parametrize("layout", ["flat", "train and test"])
def test_the_fingerprint_of_an_index_is_that_of_its_folder(tmp_path: Path, layout: str) -> None:
    if layout == "flat":
        write_images(tmp_path / "images", each=4)
    else:
        write_images(tmp_path / "images/train", each=4)
        write_images(tmp_path / "images/test", each=2)
    write_index(tmp_path / "images", tmp_path / "index.json")
    here = fingerprint(DataSpec(source="folder:images"), tmp_path, tmp_path / "memory")
    there = fingerprint(DataSpec(source="index:index.json", mirrors=["ftp://nowhere.invalid/x"]), tmp_path, tmp_path / "memory")
    assert here == there


def test_images_that_cannot_be_read_are_named_or_skipped(tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=3, size=64)
    whole = (tmp_path / "images/dog/1.png").read_bytes()
    (tmp_path / "images/dog/1.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LaminarError, match=r"dog.1\.png cannot be read") as caught:
        index_of(tmp_path / "images")
    assert caught.value.code == "L102"
    assert "--skip-bad" in caught.value.hint
    index, skipped = index_of(tmp_path / "images", skip_bad=True)
    assert len(index.files) == 8
    assert len(skipped) == 1 and "1.png" in skipped[0]


@pytest.mark.parametrize(
    "path",
    [
        "../cat/1.png",
        "/etc/passwd",
        "cat/../../1.png",
        "cat//1.png",
        "./cat/1.png",
        "cat\\..\\1.png",
        "C:/1.png",
        ".ssh/id.png",
        "cat/.hidden.png",
        "",
        ".",
        "..",
        "cat/1.png\n",
        "cat/\x00.png",
    ],
)
def test_paths_outside_of_the_folder_are_refused(path: str) -> None:
    with pytest.raises(LaminarError) as caught:
        read_index(bytes_of(ENTRY | {"path": path}), "index.json")
    assert caught.value.code == "L111"


@given(st.text(min_size=1, max_size=30))
@settings(derandomize=True, max_examples=300)
def test_a_safe_path_stays_below_its_folder(text: str) -> None:
    if safe_path(text):
        folder = Path("/data/images")
        joined = Path(f"{folder}/{text}")
        assert joined.resolve().is_relative_to(folder)
        assert joined != folder


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not an index"),
        (b"[]", "not an index"),
        (b"\xff\xfe", "not an index"),
        (b'{"format": 1}', "not an index"),
        (bytes_of(format=2), "format 2"),
        (bytes_of(), "names no images"),
        (bytes_of(ENTRY, ENTRY), "twice"),
        (bytes_of(ENTRY | {"sha256": "xyz"}), "64 hexadecimal"),
        (bytes_of(ENTRY | {"sha256": "A" * 64}), "64 hexadecimal"),
        (bytes_of(ENTRY | {"size": -1}), "not an index"),
        (bytes_of(ENTRY | {"size": 3 * CHUNK, "chunks": ["0" * 64]}), "3 digests"),
        (bytes_of(ENTRY | {"class": "../x"}), "no name"),
        (bytes_of(ENTRY | {"colour": 1}), "not an index"),
        (bytes_of(ENTRY | {"split": "train"}, ENTRY | {"path": "z.png", "split": "test", "class": "zoo"}), "test only"),
    ],
)
def test_a_bad_index_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(LaminarError, match=said) as caught:
        read_index(data, "index.json")
    assert caught.value.code in ("L111", "L103")


def test_a_pinned_index_must_be_the_one(tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=2)
    written = write_index(tmp_path / "images", tmp_path / "index.json")
    memory = tmp_path / "memory"
    assert fingerprint(DataSpec(source=f"index:index.json#sha256={written.sha256}"), tmp_path, memory)
    with pytest.raises(LaminarError, match="has sha256") as caught:
        fingerprint(DataSpec(source=f"index:index.json#sha256={'0' * 64}"), tmp_path, memory)
    assert caught.value.code == "L111"
    with pytest.raises(LaminarError, match="no pin"):
        fingerprint(DataSpec(source="index:index.json#md5=1"), tmp_path, memory)


def test_a_link_out_of_the_folder_is_an_image_like_any_other(tmp_path: Path) -> None:
    """Links are followed where the user's own folder has them: the index names them by their place in the folder."""
    write_images(tmp_path / "images", each=2)
    write_images(tmp_path / "elsewhere", classes=("fox",), each=1)
    (tmp_path / "images/fox").symlink_to(tmp_path / "elsewhere/fox")
    index, _ = index_of(tmp_path / "images")
    assert "fox/0.png" in {file.path for file in index.files}
