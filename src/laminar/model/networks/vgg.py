"""VGG-16."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from torch import nn

from .parts import FeaturesAndHead, image_sides, wide, with_head

BLOCKS: Final = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(classes: int, input_shape: Sequence[int], width: float = 1.0, dropout: float = 0.5) -> FeaturesAndHead:
    """Configuration D of K. Simonyan, A. Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014."""
    depth, height, across = image_sides("vgg16", input_shape, 32, width)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for i, block in enumerate(BLOCKS, 1):
        for j, channels in enumerate(block, 1):
            parts[f"conv{i}_{j}"] = nn.Conv2d(depth, wide(channels, width), 3, padding=1)
            parts[f"act{i}_{j}"] = nn.ReLU()
            depth = wide(channels, width)
        parts[f"pool{i}"] = nn.MaxPool2d(2)
        height, across = height // 2, across // 2
    parts["flatten"] = nn.Flatten()
    inputs, units = depth * height * across, wide(4096, width)
    for i in (6, 7):
        parts[f"linear{i}"] = nn.Linear(inputs, units)
        parts[f"act{i}"] = nn.ReLU()
        parts[f"drop{i}"] = nn.Dropout(dropout)
        inputs = units
    return with_head(nn.Sequential(parts), units, classes)
