"""What networks share: how wide a part of them is, which images they take, and how their weights are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from laminar.core.errors import LaminarError

from ..builtin import FeaturesAndHead as FeaturesAndHead  # noqa: TID252 - keys follow relative imports (see __init__.py)


def wide(channels: int, width: float) -> int:
    """`channels` at a width that is a share of the paper's: an even number, as AlexNet's groups need, and 2 at the least."""
    return max(2, 2 * round(channels * width / 2))


def image_sides(name: str, input_shape: Sequence[int], least: int, width: float) -> tuple[int, int, int]:
    """Channels, height and width of the samples, or L202 where the network cannot take them."""
    if width <= 0:
        raise LaminarError("L202", f"laminar:{name}: width = {width}, expected a share above 0", hint="args = { width = 0.25 }")
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        raise LaminarError(
            "L202",
            f"laminar:{name} needs images (channels, height, width) of {least}x{least} pixels or more, got {tuple(input_shape)}",
            hint=f'size = {least} in the [data] section scales images of files; or model = "laminar:convnet"',
        )
    channels, height, across = input_shape
    return channels, height, across


def pooled(side: int, kernel: int, stride: int, padding: int = 0) -> int:
    """What a convolution or a pooling makes of a side."""
    return (side + 2 * padding - kernel) // stride + 1


def draw_weights(network: nn.Module) -> None:
    """For ReLUs, and independent of the width: K. He et al., Delving Deep into Rectifiers, 2015. Biases begin at zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def with_head(features: nn.Module, units: int, classes: int) -> FeaturesAndHead:
    """The network with a linear head, which begins with small numbers: no class is preferred."""
    draw_weights(features)
    head = nn.Linear(units, classes)
    nn.init.normal_(head.weight, std=0.01)
    nn.init.zeros_(head.bias)
    return FeaturesAndHead(features, head)
