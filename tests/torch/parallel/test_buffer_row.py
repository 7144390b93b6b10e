"""Buffers told by workers: nothing of them is lost on the way, whatever they are made of."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from laminar.parallel import buffer_row

TABLES = [
    torch.tensor([0.955 + 0.296j, -2.5j]),
    torch.tensor(2**62 + 1),
    torch.tensor([True, False]),
    torch.full((2, 2), float("-inf")).triu(1),
    torch.tensor([0.1], dtype=torch.float64),
    torch.tensor([0.1], dtype=torch.float16),
    torch.zeros(0, 3),
]


def copies(buffers: list[Tensor]) -> list[Tensor]:
    return [buffer.clone() for buffer in buffers]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_what_nobody_has_changed_stays_bit_by_bit(workers: int) -> None:
    own = copies(TABLES)
    rows = torch.stack([buffer_row.row_of(own) for _ in range(workers)])
    assert rows.shape[1] == buffer_row.count(own)
    buffer_row.put_back(own, buffer_row.mean(rows))
    assert all(torch.equal(one, before) and one.dtype == before.dtype for one, before in zip(own, TABLES, strict=True))


def test_what_was_changed_is_the_mean() -> None:
    one = [torch.tensor([1.0, 2.0]), torch.tensor([1 + 2j]), torch.tensor(7), torch.tensor(2**62 + 1)]
    other = [torch.tensor([3.0, 2.0]), torch.tensor([3 - 1j]), torch.tensor(10), torch.tensor(2**62 + 1)]
    rows = torch.stack([buffer_row.row_of(one), buffer_row.row_of(other)])
    buffer_row.put_back(one, buffer_row.mean(rows))
    assert [buffer.tolist() for buffer in one] == [[2.0, 2.0], [2 + 0.5j], 8, 2**62 + 1]
    buffer_row.put_back(other, buffer_row.mean(rows), whole=rows[1])
    assert [buffer.tolist() for buffer in other] == [[2.0, 2.0], [2 + 0.5j], 10, 2**62 + 1]


def test_no_buffers_are_an_empty_row() -> None:
    assert buffer_row.row_of([]).tolist() == [] and buffer_row.count([]) == 0
