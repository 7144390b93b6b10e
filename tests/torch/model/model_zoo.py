"""Small models, each with one thing that is hard to keep without its source."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]


class Cnn(nn.Module):
    """BatchNorm, in-place activation, pooling, dropout, flatten by view."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.3)
        )
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        return self.head(x.view(x.shape[0], -1))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.conv(x)))


class Residual(nn.Module):
    """Skips, a module called twice, and one that does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 1)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.shared = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU())
        self.nothing = nn.Identity()
        self.features = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.shared(self.shared(x)) + x
        return self.head(self.nothing(self.features(x).flatten(1)))  # type: ignore[no-any-return]


class Tied(nn.Module):
    """One tensor under two names, one module at two paths."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Linear(64, 16)
        self.back = nn.Linear(16, 64, bias=False)
        self.back.weight = nn.Parameter(self.features.weight.detach().t().clone())
        self.again = nn.Linear(64, 16)
        self.again.weight = self.features.weight
        self.other_name = self.again
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.features(x.flatten(1)))
        x = torch.tanh(self.other_name(self.back(x)) + F.linear(self.back(x), self.features.weight))
        return self.head(x)  # type: ignore[no-any-return]


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x) if self.training else x


class Modes(nn.Module):
    """Python that asks for `self.training`, functional dropout, and a module that vanishes in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), Noise(), nn.Linear(64, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(torch.relu(self.features(x)), 0.2, training=self.training)
        if self.training:
            x = x * 1.5
        return self.head(x)  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Token embedding, a transformer encoder layer, keyword arguments between modules."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.features = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(1)[:, :12].abs().mul(4).long().clamp(max=15)
        return self.head(self.features(src=self.embed(tokens)).mean(1))  # type: ignore[no-any-return]


class Constants(nn.Module):
    """A buffer that is saved, one that is not, one that is replaced in forward, plain tensors, numbers made in forward, no_grad."""

    mean: Tensor
    mask: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
        self.head = nn.Linear(16, 5)
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("mask", torch.arange(16.0) / 16, persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.scale = torch.tensor([2.0, 0.5] * 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x) * self.scale + torch.tensor(0.25)
        with torch.no_grad():
            centre = x.mean(0)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * centre
            self.count += 1
        return self.head((x - self.mean) * self.mask)  # type: ignore[no-any-return]


class NoGradPrefix(nn.Module):
    """Modules inside a `no_grad` block."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.features(x)
        return self.head(torch.relu(x))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """Modules that take and give nests of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.GRU(8, 6, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        every, last = self.features(x.reshape(x.shape[0], 8, 8))
        return self.head(every[:, -1] + last[0])  # type: ignore[no-any-return]


ZOO: dict[str, Callable[[], nn.Module]] = {
    "mlp": Mlp,
    "cnn": Cnn,
    "residual": Residual,
    "tied": Tied,
    "modes": Modes,
    "attention": Attention,
    "constants": Constants,
    "no_grad": NoGradPrefix,
    "recurrent": Recurrent,
}


def make(name: str) -> nn.Module:
    torch.manual_seed(7)
    return ZOO[name]()


def batch(size: int = 6) -> Tensor:
    return torch.randn(size, 1, 8, 8, generator=torch.Generator().manual_seed(3))
