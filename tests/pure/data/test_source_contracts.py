"""Every source, held to the contract that plug-ins get too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_makers import digits_like, write_idx_folder, write_images

from laminar.data.spec import DataSpec
from laminar.testing.source_contract import SourceContract


class TestDigits(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        return DataSpec(source="digits")


class TestGlyphs(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        return DataSpec(source="glyphs", args={"count": 60, "size": 10, "domain": "shapes"})


class TestIdxFolder(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_idx_folder(folder / "mine")
        return DataSpec(source="idx:mine")

    def change(self, folder: Path) -> bool:
        from data_makers import idx_bytes

        x, _ = digits_like(40)
        x[-1, -1, -1] ^= 1
        (folder / "mine" / "train-images-idx3-ubyte.gz").unlink()
        (folder / "mine" / "train-images-idx3-ubyte").write_bytes(idx_bytes(x))
        return True


class TestIdxFiles(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_idx_folder(folder, test=False, zipped=False)
        return DataSpec(source="idx:train-images-idx3-ubyte, train-labels-idx1-ubyte")

    def change(self, folder: Path) -> bool:
        path = folder / "train-labels-idx1-ubyte"
        data = bytearray(path.read_bytes())
        data[-1] = (data[-1] + 1) % 4
        path.write_bytes(data)
        return True


class TestImages(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_images(folder / "pets")
        return DataSpec(source="folder:pets", size=4, grey=True)

    def change(self, folder: Path) -> bool:
        write_images(folder / "pets", each=6)
        return True


class TestImagesWithTest(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_images(folder / "pets" / "train", mode="L")
        write_images(folder / "pets" / "test", each=2, mode="L")
        return DataSpec(source="folder:pets")

    def change(self, folder: Path) -> bool:
        (folder / "pets" / "test" / "eel" / "1.png").unlink()
        return True


class TestNpz(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        x, y = digits_like()
        np.savez_compressed(folder / "mine.npz", x=x, y=y)
        return DataSpec(source="npz:mine.npz")

    def change(self, folder: Path) -> bool:
        x, y = digits_like()
        np.savez(folder / "mine.npz", x=x[::-1], y=y[::-1])  # the same samples in another order
        return True


class TestNpzRegression(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        x = np.linspace(0, 1, 60, dtype=np.float64).reshape(20, 3)
        np.savez(folder / "mine.npz", x_train=x, y_train=x.sum(axis=1), x_test=x[:5], y_test=x[:5].sum(axis=1))
        return DataSpec(source="npz:mine.npz")


class TestPythonFunction(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        (folder / "rows.csv").write_text("".join(f"{i},{i * i % 7},{i % 3}\n" for i in range(30)))
        (folder / "tables.py").write_text(
            "import numpy as np\nfrom pathlib import Path\n"
            "def rows(scale=1.0):\n"
            "    t = np.loadtxt(Path(__file__).with_name('rows.csv'), delimiter=',', dtype=np.float32)\n"
            "    return t[:, :2] * scale, t[:, 2].astype(int)\n"
        )
        return DataSpec(source="python:tables:rows", args={"scale": 0.5})

    def change(self, folder: Path) -> bool:
        (folder / "rows.csv").write_text("".join(f"{i},{i * i % 5},{i % 3}\n" for i in range(30)))
        return True


@pytest.mark.parametrize("kind", ["mnist", "fashion-mnist"])
class TestMnist(SourceContract):
    @pytest.fixture(autouse=True)
    def _here(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind = kind
        monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "shared"))
        write_idx_folder(tmp_path / "shared" / kind)

    def make(self, folder: Path) -> DataSpec:
        return DataSpec(source=self.kind, classes=[0, 1, 2, 3])
