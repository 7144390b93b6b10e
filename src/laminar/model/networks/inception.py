"""Inception-v3: C. Szegedy, V. Vanhoucke, S. Ioffe, J. Shlens, Z. Wojna, Rethinking the Inception Architecture for Computer Vision, 2015.

The paper's auxiliary head gives a second loss while training, and is no part of the network that it counts and tests. A model here gives
one tensor of logits, so that head is not there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .parts import FeaturesAndHead, image_sides, wide, with_head

Size = tuple[int, int]
Made = tuple[nn.Module, int]  # a module, and how many channels come out of it


def inceptionv3(classes: int, input_shape: Sequence[int], width: float = 1.0, dropout: float = 0.2) -> FeaturesAndHead:
    channels, _, _ = image_sides("inceptionv3", input_shape, 75, width)
    w32, w64, w80, w192 = (wide(n, width) for n in (32, 64, 80, 192))
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv(channels, w32, (3, 3), stride=2, whole=True),
        conv2=_conv(w32, w32, (3, 3), whole=True),
        conv3=_conv(w32, w64, (3, 3)),
        pool1=nn.MaxPool2d(3, stride=2),
        conv4=_conv(w64, w80, (1, 1)),
        conv5=_conv(w80, w192, (3, 3), whole=True),
        pool2=nn.MaxPool2d(3, stride=2),
    )
    made = w192
    for i, pooled in enumerate((32, 64, 64)):
        parts[f"mixed5_{i}"], made = _five_by_five(made, wide(pooled, width), width)
    parts["mixed6_0"], made = _halve_by_three(made, width)
    for i, inner in enumerate((128, 160, 160, 192), 1):
        parts[f"mixed6_{i}"], made = _seven_by_seven(made, wide(inner, width), width)
    parts["mixed7_0"], made = _halve_by_seven(made, width)
    for i in (1, 2):
        parts[f"mixed7_{i}"], made = _expanded(made, width)
    parts["mean"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    parts["drop"] = nn.Dropout(dropout)
    return with_head(nn.Sequential(parts), made, classes)


class Branches(nn.Module):
    """Modules side by side; their channels are put together."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branch = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branch], dim=1)


def _conv(inputs: int, outputs: int, size: Size, *, stride: int = 1, whole: bool = False) -> nn.Sequential:
    """`whole`: only where all of the filter lies in the image; otherwise the image keeps its size."""
    padding = (0, 0) if whole else (size[0] // 2, size[1] // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False), nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU()
    )


def _chain(inputs: int, *steps: tuple[int, Size], halved: bool = False) -> nn.Sequential:
    """Convolutions one after the other, each (channels, size); `halved`: the last one halves the image."""
    modules = []
    for i, (outputs, size) in enumerate(steps, 1):
        last = halved and i == len(steps)
        modules.append(_conv(inputs, outputs, size, stride=2 if last else 1, whole=last))
        inputs = outputs
    return nn.Sequential(*modules)


def _pool_and_project(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), _conv(inputs, outputs, (1, 1)))


def _five_by_five(inputs: int, pooled: int, width: float) -> Made:
    """Figure 5 of the paper, with one 5x5 convolution as its authors have it."""
    w48, w64, w96 = (wide(n, width) for n in (48, 64, 96))
    branches = Branches(
        _chain(inputs, (w64, (1, 1))),
        _chain(inputs, (w48, (1, 1)), (w64, (5, 5))),
        _chain(inputs, (w64, (1, 1)), (w96, (3, 3)), (w96, (3, 3))),
        _pool_and_project(inputs, pooled),
    )
    return branches, w64 + w64 + w96 + pooled


def _halve_by_three(inputs: int, width: float) -> Made:
    """Figure 10."""
    w64, w96, w384 = (wide(n, width) for n in (64, 96, 384))
    branches = Branches(
        _chain(inputs, (w384, (3, 3)), halved=True),
        _chain(inputs, (w64, (1, 1)), (w96, (3, 3)), (w96, (3, 3)), halved=True),
        nn.MaxPool2d(3, stride=2),
    )
    return branches, w384 + w96 + inputs


def _seven_by_seven(inputs: int, inner: int, width: float) -> Made:
    """Figure 6: a 7x7 convolution as a row and a column."""
    w192 = wide(192, width)
    row, column = (1, 7), (7, 1)
    branches = Branches(
        _chain(inputs, (w192, (1, 1))),
        _chain(inputs, (inner, (1, 1)), (inner, row), (w192, column)),
        _chain(inputs, (inner, (1, 1)), (inner, column), (inner, row), (inner, column), (w192, row)),
        _pool_and_project(inputs, w192),
    )
    return branches, 4 * w192


def _halve_by_seven(inputs: int, width: float) -> Made:
    w192, w320 = wide(192, width), wide(320, width)
    branches = Branches(
        _chain(inputs, (w192, (1, 1)), (w320, (3, 3)), halved=True),
        _chain(inputs, (w192, (1, 1)), (w192, (1, 7)), (w192, (7, 1)), (w192, (3, 3)), halved=True),
        nn.MaxPool2d(3, stride=2),
    )
    return branches, w320 + w192 + inputs


def _expanded(inputs: int, width: float) -> Made:
    """Figure 7: a row and a column side by side."""
    w192, w320, w384, w448 = (wide(n, width) for n in (192, 320, 384, 448))

    def both() -> Branches:
        return Branches(_conv(w384, w384, (1, 3)), _conv(w384, w384, (3, 1)))

    branches = Branches(
        _chain(inputs, (w320, (1, 1))),
        nn.Sequential(_conv(inputs, w384, (1, 1)), both()),
        nn.Sequential(_chain(inputs, (w448, (1, 1)), (w384, (3, 3))), both()),
        _pool_and_project(inputs, w192),
    )
    return branches, w320 + 4 * w384 + w192
