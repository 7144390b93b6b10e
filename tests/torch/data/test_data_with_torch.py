"""Batches and sources, seen from torch."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from laminar.data.batches import Batches
from laminar.data.dataset import as_float
from laminar.data.open import open_data
from laminar.data.spec import DataSpec

REAL = os.environ.get("LAMINAR_DATA")


def test_scaling_has_the_bits_of_torch() -> None:
    x = np.arange(256, dtype=np.uint8)
    assert torch.equal(torch.from_numpy(as_float(x)), torch.from_numpy(x).float() / 255)


def test_a_block_becomes_tensors_without_a_copy() -> None:
    data = open_data(DataSpec(source="digits", limit=100), Path())
    with Batches(data.train.x, data.train.y, batch=32, seed=0) as batches:
        for block in batches.epoch(0):
            x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)
            assert x.data_ptr() == block.x[0].ctypes.data
            assert x.dtype == torch.float32
            assert y.dtype == torch.int64
            assert [len(x[s]) for s in block.slices] == [32, 32, 32, 4]


def accuracy(spec: DataSpec, epochs: int) -> float:
    torch.manual_seed(0)
    data = open_data(spec, Path())
    assert data.classes is not None
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, len(data.classes)),
    )  # fmt: skip
    test = torch.from_numpy(as_float(data.test.x))
    model(test[:1])
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, fused=True)
    with Batches(data.train.x, data.train.y, batch=32, seed=0, epochs=epochs) as batches:
        for epoch in range(epochs):
            for block in batches.epoch(epoch):
                x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)
                for s in block.slices:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x[s]), y[s]).backward()
                    optimizer.step()
    with torch.no_grad():
        return float((model(test).argmax(1) == torch.from_numpy(data.test.y)).float().mean())


def test_glyphs_can_be_learned() -> None:
    assert accuracy(DataSpec(source="glyphs"), epochs=5) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["letters", "shapes"])
def test_harder_glyphs_can_be_learned(domain: str) -> None:
    assert accuracy(DataSpec(source="glyphs", args={"domain": domain, "size": 28}), epochs=16) > 0.9


@pytest.mark.skipif(not REAL, reason="LAMINAR_DATA names no folder with real data")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_data_is_what_we_would_download(name: str, tmp_path: Path) -> None:
    from laminar.data.formats.idx import read_idx
    from laminar.data.sources.idx import standard_files
    from laminar.data.sources.mnist import SHA256

    folder = Path(str(REAL)) / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing")
    for role, path in standard_files(folder).items():
        assert read_idx(path)[1] == SHA256[name][role]
    data = open_data(DataSpec(source=name), tmp_path)
    assert data.train.x.shape == (60000, 1, 28, 28)
    assert data.test.x.shape == (10000, 1, 28, 28)
