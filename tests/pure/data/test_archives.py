"""Archives: downloaded, proved, unpacked wholly or not at all, and nothing outside of the folder; over loopback only."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from data_makers import write_images
from table_makers import cifar_files, tar_bytes
from test_data_errors import refused
from test_downloads import Home

from laminar.core.errors import LaminarError
from laminar.data.open import open_data
from laminar.data.sources import cifar10, flowers
from laminar.data.sources.protocol import silent
from laminar.data.spec import DataSpec
from laminar.data.unpack import unpack


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Home]:
    monkeypatch.delenv("LAMINAR_DATA", raising=False)
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    home = Home()
    yield home
    home.close()


def serve(home: Home, monkeypatch: pytest.MonkeyPatch, module: object, data: bytes) -> None:
    home.files[f"/{module.ARCHIVE}"] = data  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "HOMES", [f"{home.url}/"])
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(data).hexdigest())


def test_cifar10_is_downloaded_once_and_unpacked(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = cifar_files(20)
    serve(home, monkeypatch, cifar10, tar_bytes({**files, "readme.html": b"hello"}, "cifar-10-batches-bin"))
    told: list[str] = []
    for _ in range(2):
        data = open_data(DataSpec(source="cifar10"), tmp_path, progress=lambda what, *_: told.append(what))
        assert (len(data.train), len(data.test)) == (100, 20)
    assert len(home.asked) == 1
    assert any("cifar-10-binary" in what for what in told)
    assert data.classes == tuple(f"thing{i}" for i in range(10))
    records = np.frombuffer(files["data_batch_2.bin"], dtype=np.uint8).reshape(20, 3073)
    assert np.array_equal(data.train.x[20:40].reshape(20, -1), records[:, 1:])
    assert data.train.y[20:40].tolist() == records[:, 0].tolist()
    assert sorted(p.name for p in (tmp_path / "cache" / "cifar10").iterdir() if p.name[0] != ".") == ["cifar-10-batches-bin"]


def test_a_download_that_broke_off_goes_on(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, cifar10, tar_bytes(cifar_files(20), "cifar-10-batches-bin"))
    home.break_after = 1000
    refused(DataSpec(source="cifar10"), tmp_path, "L107", "broke off after 1,000", str(tmp_path / "cache" / "cifar10"))
    home.break_after = None
    assert len(open_data(DataSpec(source="cifar10"), tmp_path).test) == 20
    assert home.asked[-1][1] == "bytes=1000-"


def test_an_archive_with_another_checksum_is_never_used(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, cifar10, tar_bytes(cifar_files(), "cifar-10-batches-bin"))
    monkeypatch.setattr(cifar10, "SHA256", "0" * 64)
    refused(DataSpec(source="cifar10"), tmp_path, "L107", "sha256", "expected 000000000000")
    assert [p for p in (tmp_path / "cache" / "cifar10").iterdir() if p.name[0] != "."] == []


def test_an_archive_that_was_put_into_the_cache_by_hand(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache" / "cifar10").mkdir(parents=True)
    (tmp_path / "cache" / "cifar10" / cifar10.ARCHIVE).write_bytes(tar_bytes(cifar_files(20), "cifar-10-batches-bin"))
    assert len(open_data(DataSpec(source="cifar10"), tmp_path).test) == 20
    assert home.asked == []


def test_broken_files_of_cifar10_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path))
    folder, spec = tmp_path / "cifar10", DataSpec(source="cifar10")
    folder.mkdir()
    whole = cifar_files(3)
    for name, data, code, says in (
        ("data_batch_3.bin", whole["data_batch_3.bin"][:-1], "L102", "truncated: 9,218 bytes"),
        ("data_batch_3.bin", b"", "L102", "truncated"),
        ("test_batch.bin", b"\x0a" + whole["test_batch.bin"][1:], "L110", "label 10 of record 0 is out of range"),
        ("batches.meta.txt", b"\n", "L102", "names no classes"),
    ):
        for each, content in whole.items():
            (folder / each).write_bytes(content)
        (folder / name).write_bytes(data)
        refused(spec, tmp_path, code, name, says)
    (folder / "data_batch_4.bin").unlink()
    refused(spec, tmp_path, "L101", "data_batch_4.bin")
    for path in folder.iterdir():
        path.unlink()
    archive = tar_bytes(whole, "x")
    (folder / cifar10.ARCHIVE).write_bytes(archive[: len(archive) // 2])
    refused(spec, tmp_path, "L102", cifar10.ARCHIVE, "ends early")
    (folder / cifar10.ARCHIVE).write_bytes(b"no archive at all" * 99)
    refused(spec, tmp_path, "L102", cifar10.ARCHIVE)
    del whole["test_batch.bin"]
    (folder / cifar10.ARCHIVE).write_bytes(tar_bytes(whole, "x"))
    refused(spec, tmp_path, "L102", "holds no test_batch.bin")


def test_flowers_are_downloaded_and_scaled(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_images(tmp_path / "origin", classes=("daisy", "tulips"), each=5, size=20)
    files = {str(p.relative_to(tmp_path / "origin")): p.read_bytes() for p in sorted((tmp_path / "origin").rglob("*.png"))}
    serve(home, monkeypatch, flowers, tar_bytes({**files, "LICENSE.txt": b"CC-BY"}, "flower_photos"))
    data = open_data(DataSpec(source="flowers"), tmp_path)
    assert data.classes == ("daisy", "tulips")
    assert data.train.x.shape == (8, 3, 128, 128)
    assert open_data(DataSpec(source="flowers", size=10, grey=True), tmp_path).train.x.shape == (8, 1, 10, 10)
    assert len(home.asked) == 1
    assert (tmp_path / "cache" / "flowers" / "flower_photos" / "LICENSE.txt").is_file()


def evil(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "member",
    [
        evil("top/../../outside"),
        evil("/outside"),
        evil("top/link", tarfile.SYMTYPE, "/etc"),
        evil("top/link", tarfile.LNKTYPE, "top/a"),
        evil("top/pipe", tarfile.FIFOTYPE),
        evil("other/file"),
        evil("loose"),
        evil("top\\..\\x"),
    ],
    ids=lambda member: member.name,
)
def test_an_archive_that_reaches_out_is_refused(member: tarfile.TarInfo, tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_bytes({"a": b"1"}, "top", member))
    with pytest.raises(LaminarError) as caught:
        unpack(tmp_path / "a.tgz", tmp_path / "in" / "out", silent)
    assert caught.value.code == "L102"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.name[0] != ".") == ["a.tgz", "in"]


def test_half_an_unpacked_archive_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / ".out.unpacking").mkdir()
    (tmp_path / ".out.unpacking" / "left").write_text("from a process that was killed")
    (tmp_path / "a.tgz").write_bytes(tar_bytes({"b/a": b"1", "c": b"2"}, "top"))
    told: list[tuple[int, int | None]] = []
    unpack(tmp_path / "a.tgz", tmp_path / "out", lambda _, done, total: told.append((done, total)))
    assert sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*")) == ["b", "b/a", "c"]
    assert told
    unpack(tmp_path / "none.tgz", tmp_path / "out", silent)  # it is there, so nothing is read
