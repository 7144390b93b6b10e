"""Tables, arrays in files of their own, and data sets by name, held to the contract of sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_makers import digits_like, write_images
from safetensors.numpy import save_file
from table_makers import cifar_files, pictures, save_to_disk, tar_bytes, write_csv, write_parquet

from laminar.data.spec import DataSpec
from laminar.testing.source_contract import SourceContract


class TestNpy(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        x, y = digits_like()
        np.save(folder / "x.npy", np.asfortranarray(x))
        np.save(folder / "y.npy", y)
        return DataSpec(source="npy:x.npy, y.npy")

    def change(self, folder: Path) -> bool:
        x, _ = digits_like()
        np.save(folder / "x.npy", x[::-1])
        return True


class TestNpyWithTest(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        for name, rows in (("", 30), ("t", 10)):
            x, y = digits_like(rows)
            np.save(folder / f"x{name}.npy", x / 3)  # real numbers
            np.save(folder / f"y{name}.npy", np.array(["ape", "bee", "cow", "doe"])[y])
        return DataSpec(source="npy:x.npy,y.npy,xt.npy,yt.npy")


class TestSafetensors(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        x, y = digits_like()
        save_file({"x": x, "y": y, "other": y}, folder / "d.safetensors", metadata={"classes": "ape, bee, cow, doe"})
        return DataSpec(source="safetensors:d.safetensors")

    def change(self, folder: Path) -> bool:
        x, y = digits_like(seed=4)
        save_file({"x": x, "y": y}, folder / "d.safetensors")
        return True


class TestCsv(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_csv(folder / "d.csv")
        return DataSpec(source="csv:d.csv")

    def change(self, folder: Path) -> bool:
        write_csv(folder / "d.csv", bump=1)
        return True


class TestCsvRegressionWithTest(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        for name, rows in (("train", 30), ("test", 8)):
            (folder / f"{name}.csv").write_text("y;a;b\n" + "".join(f"{i / 4};{i};{i % 5}\n" for i in range(rows)))
        return DataSpec(source="csv:train.csv", args={"label": 0, "delimiter": ";", "test": "test.csv"})


class TestParquetNumbers(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_parquet(folder / "d.parquet", {"a": np.arange(40), "b": np.linspace(0, 1, 40), "kind": ["x", "y"] * 20})
        return DataSpec(source="parquet:d.parquet")

    def change(self, folder: Path) -> bool:
        write_parquet(folder / "d.parquet", {"a": np.arange(40), "b": np.linspace(0, 2, 40), "kind": ["x", "y"] * 20})
        return True


class TestParquetImages(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_parquet(folder / "set" / "data" / "train-00000-of-00002.parquet", pictures(20), row_group_size=6)
        write_parquet(folder / "set" / "data" / "train-00001-of-00002.parquet", pictures(10))
        write_parquet(folder / "set" / "data" / "test-00000-of-00001.parquet", pictures(6))
        return DataSpec(source="parquet:set", size=4)

    def change(self, folder: Path) -> bool:
        write_parquet(folder / "set" / "data" / "test-00000-of-00001.parquet", pictures(6, bump=1))
        return True


class TestSavedToDisk(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        save_to_disk(folder / "saved" / "train", pictures(30))
        save_to_disk(folder / "saved" / "test", pictures(9))
        (folder / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        return DataSpec(source="hf:saved")

    def change(self, folder: Path) -> bool:
        save_to_disk(folder / "saved" / "train", pictures(30, bump=1))
        return True


class TestSavedToDiskWithoutTest(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        save_to_disk(folder / "saved", pictures(30, grey=True))
        return DataSpec(source="hf:saved")


@pytest.mark.parametrize("form", ["folder", "archive"])
class TestCifar10(SourceContract):
    @pytest.fixture(autouse=True)
    def _here(self, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.form, self.shared = form, tmp_path / "shared" / "cifar10"
        monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
        self.put(cifar_files(10))

    def put(self, files: dict[str, bytes]) -> None:
        self.shared.mkdir(parents=True, exist_ok=True)
        if self.form == "archive":
            (self.shared / "cifar-10-binary.tar.gz").write_bytes(tar_bytes(dict(reversed(files.items())), "cifar-10-batches-bin"))
        else:
            for name, data in files.items():
                (self.shared / name).write_bytes(data)

    def make(self, folder: Path) -> DataSpec:
        return DataSpec(source="cifar10", classes=["thing0", "thing3", "thing9"])

    def change(self, folder: Path) -> bool:
        self.put(cifar_files(10, bump=1))
        return True


class TestFlowers(SourceContract):
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
        self.shared = tmp_path / "shared" / "flowers"
        write_images(self.shared, classes=("daisy", "roses"))
        (self.shared / "LICENSE.txt").write_text("CC-BY")

    def make(self, folder: Path) -> DataSpec:
        return DataSpec(source="flowers")

    def change(self, folder: Path) -> bool:
        write_images(self.shared, classes=("daisy", "roses"), each=6)
        return True
