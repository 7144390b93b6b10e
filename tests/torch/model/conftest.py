"""One thread, so that tests beside each other do not fight for cores and sums are the same every time."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
