"""Models that are split in tests: an MLP, a CNN with all kinds of windows, transformer blocks in three spellings, an Inception-like net."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 16, 5, stride=2, padding=2),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding="same", groups=4),
            nn.Conv2d(16, 16, 3, padding=2, dilation=2),
            nn.AvgPool2d(2),
        )
        self.head = nn.Linear(16 * 3 * 3, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(x).flatten(1))
        return out


class Block(nn.Module):
    """With torch's own attention, which has queries, keys and values in one product, and folds heads into the batch."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.between = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.between(x))))


class Permuted(nn.Module):
    """The three in one product, seen as five dimensions."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.inner, self.outer, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.inner(x).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.outer(y.transpose(1, 2).reshape(rows, length, width))


class Chunked(nn.Module):
    """The three in one product, cut in chunks, and a softmax written out."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.inner, self.outer, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in self.inner(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        return x + self.outer((weights @ v).transpose(1, 2).reshape(rows, length, width))


class Words(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32, padding_idx=0)
        self.places = nn.Parameter(torch.randn(1, 10, 32) / 10)
        self.block, self.norm, self.head = block, nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(self.block(self.embed(x) + self.places)).mean(1))
        return out


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 16)
        self.inner = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.inner(self.embed(x % 10)).mean(1)), self.embed.weight)


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.one = nn.Conv2d(8, 8, 1)
        self.three = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1))
        out: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return out


class Signal(nn.Module):
    """One-dimensional convolutions, one of them channel by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1, groups=8), nn.MaxPool1d(2), nn.Conv1d(8, 4, 1)
        )
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.net(x).mean(2))
        return out


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 32), nn.ReLU(), nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 10))


def images(rows: int = 6) -> Tensor:
    return torch.randn(rows, 1, 28, 28)


def words(rows: int = 6) -> Tensor:
    return torch.randint(0, 50, (rows, 10))


def signals(rows: int = 6) -> Tensor:
    return torch.randn(rows, 4, 24)
