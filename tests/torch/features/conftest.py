from __future__ import annotations

from pathlib import Path

import pytest
import torch

from laminar.store.store import Store


@pytest.fixture(autouse=True)
def _one_thread_and_one_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")
