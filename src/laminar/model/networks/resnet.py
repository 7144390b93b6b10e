"""ResNet-50 and ResNet-152: K. He, X. Zhang, S. Ren, J. Sun, Deep Residual Learning for Image Recognition, 2015.

A block halves the image in its first convolution, as in the paper; newer implementations do so in its second, with as many parameters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from .parts import FeaturesAndHead, image_sides, wide, with_head


def resnet50(classes: int, input_shape: Sequence[int], width: float = 1.0) -> FeaturesAndHead:
    return _resnet("resnet50", (3, 4, 6, 3), classes, input_shape, width)


def resnet152(classes: int, input_shape: Sequence[int], width: float = 1.0) -> FeaturesAndHead:
    return _resnet("resnet152", (3, 8, 36, 3), classes, input_shape, width)


class Bottleneck(nn.Module):
    """Three convolutions, of which the outer ones have one pixel, beside a shortcut."""

    def __init__(self, inputs: int, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, channels, 1, stride=stride, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.residual(x) + self.shortcut(x))  # type: ignore[no-any-return]


def _resnet(name: str, depths: Sequence[int], classes: int, input_shape: Sequence[int], width: float) -> FeaturesAndHead:
    channels, _, _ = image_sides(name, input_shape, 32, width)
    inputs = wide(64, width)
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, inputs, 7, stride=2, padding=3, bias=False),
        norm1=nn.BatchNorm2d(inputs),
        act1=nn.ReLU(),
        pool1=nn.MaxPool2d(3, stride=2, padding=1),
    )
    for stage, depth in enumerate(depths):
        inner, outputs = wide(64 << stage, width), wide(256 << stage, width)
        blocks = []
        for i in range(depth):
            blocks.append(Bottleneck(inputs, inner, outputs, 2 if stage and not i else 1))
            inputs = outputs
        parts[f"stage{stage + 2}"] = nn.Sequential(*blocks)
    parts["mean"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    return with_head(nn.Sequential(parts), inputs, classes)
