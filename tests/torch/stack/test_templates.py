"""Templates of `laminar init` that need data from elsewhere: they build as they stand on a few samples of the same form."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import laminar
from laminar.stack.init import init


def write_idx(path: Path, array: np.ndarray) -> None:
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes(), 1))


@pytest.fixture
def few_garments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fashion-MNIST in small, where $LAMINAR_DATA says: a garment is a bright row of its own."""
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for side, count in (("train", 300), ("t10k", 100)):
        y = (np.arange(count) % 10).astype(np.uint8)
        x = rng.integers(0, 100, (count, 28, 28), dtype=np.uint8)
        x[np.arange(count), 2 * y + 4] = 250
        write_idx(folder / f"{side}-images-idx3-ubyte.gz", x)
        write_idx(folder / f"{side}-labels-idx1-ubyte.gz", y)
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "data"))
    return folder


def test_fashion_mnist_builds_as_it_stands(few_garments: Path, tmp_path: Path) -> None:
    init(tmp_path / "clothes", "fashion-mnist")
    stack = laminar.Stack.load(tmp_path / "clothes" / "laminar.toml")
    report = stack.build()
    assert [(layer.name, layer.action) for layer in report.layers] == [("cloth", "built"), ("shoes", "built"), ("tops", "built")]
    store = stack.store
    cloth, shoes, tops = (store.layer(layer.id) for layer in report.layers)
    assert shoes.parent == tops.parent == cloth.id
    assert cloth.classes is not None and len(cloth.classes) == 10
    assert shoes.classes == ["Sandal", "Sneaker", "Ankle boot"]
    frozen = [name for name in tops.tensors if name.startswith("features.")]
    assert frozen and all(tops.tensors[name] == cloth.tensors[name] for name in frozen)
    assert all(layer.graph.train and layer.graph.eval for layer in (cloth, shoes, tops))
    assert {layer.action for layer in stack.build().layers} == {"cached"}


@pytest.mark.slow
def test_what_fashion_mnist_specialises_on_is_learnt(few_garments: Path, tmp_path: Path) -> None:
    """Its recipe works, not only its spelling: more epochs on the few samples tell shoes apart."""
    init(tmp_path / "clothes", "fashion-mnist")
    path = tmp_path / "clothes" / "laminar.toml"
    path.write_text(path.read_text().replace("epochs = 3, batch = 128", "epochs = 12, batch = 32"))
    report = laminar.Stack.load(path).build("shoes")
    assert report.layers[-1].metrics["accuracy"] > 0.8
