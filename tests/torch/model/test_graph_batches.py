"""A stored graph holds for batches of every size, or there is none: a model that was traced for some sizes only needs its source."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from laminar.model.graph import export_forms, load_forms


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Parts(Head):
    """Parts of four rows: traced with three rows, there is one part."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.linear(part) for part in x.split(4)])


class Odd(Head):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) if x.shape[0] % 2 else 2 * self.linear(x)


class Small(Head):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) if (x.shape[0] - 3) ** 2 < 10 else 0 * self.linear(x)


class Thirds(Head):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + torch.cat([part.sum(0, keepdim=True) for part in x.tensor_split(3)]).sum()


class Capped(Head):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * (2 if x.shape[0] > 100 else 1)


@pytest.mark.parametrize("kind", [Parts, Odd, Small, Thirds, Capped])
def test_a_graph_for_some_batches_only_is_no_graph(kind: type[Head]) -> None:
    forms = export_forms(kind(), torch.zeros(3, 6))
    assert forms.train is None and forms.eval is None
    assert "does not hold for a batch of" in forms.note


class Slices(Head):
    """Conditions of the batch size that hold for all sizes do no harm."""

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x[: x.shape[0] // 2 * 2])


@pytest.mark.parametrize("kind", [Head, Slices])
def test_a_graph_for_all_batches_is_kept(kind: type[Head]) -> None:
    model = kind()
    forms = export_forms(model, torch.zeros(3, 6))
    assert not forms.note
    loaded = load_forms(forms.train, forms.eval, dict(model.named_parameters()))
    for rows in (2, 5, 64):
        x = torch.randn(rows, 6)
        assert torch.equal(loaded.eval()(x), model.eval()(x))
