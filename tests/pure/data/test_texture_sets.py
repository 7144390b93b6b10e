"""Textures by name: found, downloaded and pinned, or what to download and where to put it; over loopback only."""

from __future__ import annotations

import dataclasses
import io
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from data_makers import write_images
from PIL import Image
from table_makers import tar_bytes
from test_data_errors import refused
from test_downloads import Home

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.data.fingerprint import fingerprint
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.open import open_data
from laminar.data.sources import textures
from laminar.data.sources.protocol import silent
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec
from laminar.data.unpack import unpack


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Home]:
    monkeypatch.delenv("LAMINAR_DATA", raising=False)
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    home = Home()
    for name in ("KTH_TIPS2", "BRODATZ"):
        found = getattr(textures, name)
        monkeypatch.setattr(textures, name, dataclasses.replace(found, archive=dataclasses.replace(found.archive, homes=(f"{home.url}/",))))
    yield home
    home.close()


def zip_bytes(files: dict[str, bytes], *, link: str = "", encrypted: bool = False) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "/etc")
    data = bytearray(made.getvalue())
    if encrypted:
        data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def plates(count: int = 3, side: int = 61) -> dict[str, bytes]:
    found = {}
    for number in range(1, count + 1):
        file = io.BytesIO()
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (side, side), dtype=np.uint8)).save(file, "GIF")
        found[f"Original Brodatz/D{number}.gif"] = file.getvalue()
    return found


def kth(tmp_path: Path) -> bytes:
    for sample in ("sample_a", "sample_b"):
        write_images(tmp_path / "origin", classes=(f"cork/{sample}", f"wool/{sample}"), each=3, size=20)
    files = {str(p.relative_to(tmp_path / "origin")): p.read_bytes() for p in sorted((tmp_path / "origin").rglob("*.png"))}
    return tar_bytes(files, "KTH-TIPS2-b")


def test_kth_tips2_is_downloaded_once_and_its_first_download_is_pinned(home: Home, tmp_path: Path) -> None:
    data = home.files["/kth-tips2-b_col_200x200.tar"] = kth(tmp_path)
    notes: list[str] = []
    for _ in range(2):
        found = open_data(DataSpec(source="kth-tips2"), tmp_path, notes=notes)
        assert found.classes == ("cork", "wool") and found.sample_shape == (3, 200, 200)
        assert len(found.train) + len(found.test) == 12
    assert len(home.asked) == 1
    pin = tmp_path / "cache/pins/kth-tips2-b_col_200x200.tar.sha256"
    assert pin.read_text() == f"{digest.of_bytes(data)}  kth-tips2-b_col_200x200.tar\n"
    assert "prints no sha256" in notes[0] and "pinned" in notes[0] and digest.of_bytes(data) in notes[0]
    assert open_data(DataSpec(source="kth-tips2", size=10, grey=True), tmp_path).sample_shape == (1, 10, 10)
    assert fingerprint(DataSpec(source="kth-tips2"), tmp_path, tmp_path / "memory")["source"] == "kth-tips2"


def test_another_download_must_bring_the_bytes_of_the_first(home: Home, tmp_path: Path) -> None:
    import shutil

    home.files["/kth-tips2-b_col_200x200.tar"] = kth(tmp_path)
    open_data(DataSpec(source="kth-tips2"), tmp_path)
    shutil.rmtree(tmp_path / "cache/kth-tips2")
    first = home.files["/kth-tips2-b_col_200x200.tar"]
    home.files["/kth-tips2-b_col_200x200.tar"] = first[:-1024] + b"!" + first[-1023:]
    pin = tmp_path / "cache/pins/kth-tips2-b_col_200x200.tar.sha256"
    refused(DataSpec(source="kth-tips2"), tmp_path, "L107", "sent something else", f"{pin} pins what an earlier download brought")
    home.files["/kth-tips2-b_col_200x200.tar"] = first
    assert open_data(DataSpec(source="kth-tips2"), tmp_path).classes == ("cork", "wool")
    shutil.rmtree(tmp_path / "cache/kth-tips2")
    pin.unlink()
    home.files["/kth-tips2-b_col_200x200.tar"] = first + b"\0" * 512
    assert open_data(DataSpec(source="kth-tips2"), tmp_path).classes == ("cork", "wool")
    assert digest.of_bytes(first) not in pin.read_text()


def test_what_cannot_be_unpacked_is_not_pinned(home: Home, tmp_path: Path) -> None:
    home.files["/kth-tips2-b_col_200x200.tar"] = b"<html>moved</html>" * 99
    refused(DataSpec(source="kth-tips2"), tmp_path, "L102", "kth-tips2-b_col_200x200.tar cannot be unpacked")
    assert not (tmp_path / "cache/pins").exists()
    (tmp_path / "cache/kth-tips2/kth-tips2-b_col_200x200.tar").unlink()  # as the error says
    home.files["/kth-tips2-b_col_200x200.tar"] = kth(tmp_path)
    assert open_data(DataSpec(source="kth-tips2"), tmp_path).classes == ("cork", "wool")


def test_a_download_without_a_checksum_that_broke_off_begins_anew(home: Home, tmp_path: Path) -> None:
    home.files["/kth-tips2-b_col_200x200.tar"] = kth(tmp_path)
    home.break_after = 1000
    refused(
        DataSpec(source="kth-tips2"), tmp_path, "L107", "broke off after 1,000", "without one, download kth-tips2-b_col_200x200.tar from"
    )
    home.break_after = None
    assert open_data(DataSpec(source="kth-tips2"), tmp_path).classes == ("cork", "wool")
    assert home.asked[-1][1] is None  # whose beginning the first kilobyte was nobody could say


@pytest.mark.parametrize("inner", ["KTH-TIPS2-b", ""])
def test_a_set_that_was_unpacked_by_hand_is_taken_as_it_is(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str) -> None:
    write_images(tmp_path / "shared/kth-tips2" / inner, classes=("cork", "wool"), each=4, size=20)
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
    notes: list[str] = []
    assert open_data(DataSpec(source="kth-tips2"), tmp_path, notes=notes).classes == ("cork", "wool")
    assert home.asked == [] == notes


def test_a_brodatz_texture_is_nine_squares(home: Home, tmp_path: Path) -> None:
    files = plates()
    home.files["/Original_Brodatz.zip"] = zip_bytes({"__MACOSX/._x": b"1", **files, "Original Brodatz/.DS_Store": b"2"})
    spec = DataSpec(source="brodatz")
    data = open_data(spec, tmp_path)
    assert data.classes == ("D1", "D2", "D3") and data.sample_shape == (1, 20, 20)
    assert len(data.train) + len(data.test) == 27
    plate = np.asarray(Image.open(io.BytesIO(files["Original Brodatz/D2.gif"])).convert("L"))
    squares = {plate[20 * i : 20 * i + 20, 20 * j : 20 * j + 20].tobytes() for i in range(3) for j in range(3)}
    found = np.concatenate([data.train.x[data.train.y == 1], data.test.x[data.test.y == 1]])
    assert {square.tobytes() for square in found} == squares
    first = fingerprint(spec, tmp_path, tmp_path / "memory")
    assert len(home.asked) == 1
    import shutil

    shutil.rmtree(tmp_path / "cache/prepared")  # made again from what was unpacked: the same bytes
    assert fingerprint(spec, tmp_path, tmp_path / "memory 2") == first
    fragments = DataSpec(source="brodatz", fragment=FragmentSpec(size=8, overlap=0.5), sample=SampleSpec(per_class=5))
    assert VirtualFragments.of(fragments, tmp_path).counts(test=True)[0].images > 0
    assert open_data(fragments, tmp_path).sample_shape == (1, 8, 8)


def test_kylberg_has_to_be_put_there_by_hand(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(
        DataSpec(source="kylberg"), tmp_path, "L101", str(tmp_path / "cache/kylberg"), "https://kylberg.org/kylberg-texture-dataset-v-1-0/"
    )
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
    shared = tmp_path / "shared/kylberg"
    refused(DataSpec(source="kylberg"), tmp_path, "L101", str(shared), f"unpack them into {shared}")
    shared.mkdir(parents=True)
    (shared / "blanket1-without-rotations.zip").write_bytes(b"not unpacked")
    refused(DataSpec(source="kylberg"), tmp_path, "L101", f"one folder a texture ({shared}/blanket1/blanket1-a-p001.png)")
    write_images(shared, classes=("blanket1", "canvas1"), each=4, size=24, mode="L")
    data = open_data(DataSpec(source="kylberg"), tmp_path)
    assert data.classes == ("blanket1", "canvas1") and data.sample_shape == (1, 24, 24)
    write_images(tmp_path / "own", classes=("mine",), each=4, size=24)
    joined = open_data(DataSpec(source=["kylberg", "folder:own"]), tmp_path)
    assert joined.classes == ("blanket1", "canvas1", "mine") and joined.sample_shape == (3, 24, 24)
    assert home.asked == []


def test_settings_that_a_texture_set_has_not(home: Home, tmp_path: Path) -> None:
    refused(DataSpec(source="kylberg:x"), tmp_path, "L109", "takes nothing after the colon")
    refused(DataSpec(source="brodatz", args={"a": 1}), tmp_path, "L109", "takes no args")
    refused(DataSpec(source="kth-tips2", mirrors=["x"]), tmp_path, "L109", "has its own home")


@pytest.mark.parametrize(
    "made",
    [
        zip_bytes({"top/a": b"1", "top/../../outside": b"2"}),
        zip_bytes({"top/a": b"1", "/outside": b"2"}),
        zip_bytes({"top/a": b"1", "other/b": b"2"}),
        zip_bytes({"loose": b"1"}),
        zip_bytes({"top/a": b"1"}, link="top/link"),
        zip_bytes({"top/a": b"1"}, encrypted=True),
        zip_bytes({"top/a": b"1" * 5000})[:300],
    ],
    ids=["above", "absolute", "two tops", "loose", "link", "encrypted", "cut off"],
)
def test_a_zip_archive_that_reaches_out_or_is_broken_is_refused(made: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(made)
    with pytest.raises(LaminarError) as caught:
        unpack(tmp_path / "a.zip", tmp_path / "in" / "out", silent)
    assert caught.value.code == "L102"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.name[0] != ".") == ["a.zip", "in"]
