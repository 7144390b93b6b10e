"""LSTM and transformer, which classify series: samples (channels, steps, features), also rows of a table with `shape`.

LSTM: S. Hochreiter, J. Schmidhuber, Long Short-Term Memory, 1997. Transformer: the encoder of A. Vaswani et al., Attention Is All You
Need, 2017, with the norms before what they feed (R. Xiong et al., On Layer Normalization in the Transformer Architecture, 2020) and
positions that are learnt. No published figure belongs to either at these sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from laminar.core.errors import LaminarError

from .parts import FeaturesAndHead


def lstm(classes: int, input_shape: Sequence[int], width: int = 128, depth: int = 1, dropout: float = 0.0) -> FeaturesAndHead:
    """`depth` LSTMs of `width` units, one above the other; the head sees the last step of the uppermost. Dropout is between them."""
    _, features = _steps("lstm", input_shape, width, depth)
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        steps=Steps(), lstm=LastStep(nn.LSTM(features, width, depth, batch_first=True, dropout=dropout if depth > 1 else 0.0))
    )
    return FeaturesAndHead(nn.Sequential(parts), nn.Linear(width, classes))


def transformer(
    classes: int, input_shape: Sequence[int], width: int = 64, depth: int = 2, heads: int = 4, dropout: float = 0.1
) -> FeaturesAndHead:
    """`depth` blocks of `width` features and `heads` heads; the head sees the mean of all steps."""
    count, features = _steps("transformer", input_shape, width, depth)
    if heads < 1 or width % heads:
        raise LaminarError(
            "L202", f"laminar:transformer: width = {width} cannot be shared out to heads = {heads}", hint="make width a multiple of heads"
        )
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        steps=Steps(),
        embed=nn.Linear(features, width),
        positions=Positions(count, width),
        blocks=nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth))),
        norm=nn.LayerNorm(width),
        mean=MeanOfSteps(),
    )
    return FeaturesAndHead(nn.Sequential(parts), nn.Linear(width, classes))


class Steps(nn.Module):
    """(samples, channels, steps, features) as (samples, steps, channels x features)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)


class LastStep(nn.Module):
    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, x: Tensor) -> Tensor:
        outputs, _ = self.lstm(x)
        return outputs[:, -1]  # type: ignore[no-any-return]


class Positions(nn.Module):
    """A vector for each step, added to it: without them the order of steps would make no difference."""

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(steps, width))
        nn.init.normal_(self.position, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.position


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention, then two linear modules for each step; both are added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads), nn.Dropout(dropout))
        self.each_step = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.each_step(x)  # type: ignore[no-any-return]


class MeanOfSteps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def _steps(name: str, input_shape: Sequence[int], width: int, depth: int) -> tuple[int, int]:
    """How many steps a sample has, and how many features a step."""
    if width < 1 or depth < 1:
        raise LaminarError("L202", f"laminar:{name}: width = {width}, depth = {depth}, expected 1 or more", hint="args = { width = 64 }")
    if len(input_shape) != 3:
        raise LaminarError(
            "L202",
            f"laminar:{name} needs series (channels, steps, features), got samples of shape {tuple(input_shape)}",
            hint="store x as (samples, steps, features); shape = [1, steps, features] in the [data] section says so of a table's rows",
        )
    channels, count, features = input_shape
    return count, channels * features
