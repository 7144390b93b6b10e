"""Built-in models: `laminar:mlp`, `laminar:convnet`, `laminar:linear`, and `laminar:head` to replace a head by.

Every whole model has the modules `features` and `head`, so that `freeze = ["features"]` and `replace = { head = … }` always fit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

_ACTIVATIONS: Final[dict[str, Callable[[], nn.Module]]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "leaky_relu": nn.LeakyReLU,
}


class FeaturesAndHead(nn.Module):
    """`head(features(x))`."""

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]


def mlp(
    classes: int, input_shape: Sequence[int], hidden: Sequence[int] = (128,), activation: str = "relu", dropout: float = 0.0
) -> FeaturesAndHead:
    """Flatten, then a linear module with activation for every width in `hidden`, then a linear head."""
    act = _activation(activation)
    parts: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = math.prod(input_shape)
    for i, units in enumerate(hidden):
        parts[f"linear{i}"] = nn.Linear(width, units)
        parts[f"act{i}"] = act()
        if dropout:
            parts[f"drop{i}"] = nn.Dropout(dropout)
        width = units
    return FeaturesAndHead(nn.Sequential(parts), nn.Linear(width, classes))


def linear(classes: int, input_shape: Sequence[int]) -> FeaturesAndHead:
    """Softmax or linear regression: flatten, and a linear head."""
    return mlp(classes, input_shape, hidden=())


def convnet(
    classes: int,
    input_shape: Sequence[int],
    channels: Sequence[int] = (16, 32),
    kernel: int = 3,
    hidden: Sequence[int] = (),
    norm: bool = True,
    dropout: float = 0.0,
    activation: str = "relu",
) -> FeaturesAndHead:
    """Convolution, BatchNorm, activation and 2x2 pooling per entry of `channels`; then as `mlp` with `hidden` units."""
    if len(input_shape) != 3:
        raise LaminarError(
            "L202",
            f"laminar:convnet needs samples of (channels, height, width), got {tuple(input_shape)}",
            hint='use model = "laminar:mlp"',
        )
    act = _activation(activation)
    depth, height, width = input_shape
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for i, out in enumerate(channels):
        parts[f"conv{i}"] = nn.Conv2d(depth, out, kernel, padding=kernel // 2, bias=not norm)
        if norm:
            parts[f"norm{i}"] = nn.BatchNorm2d(out)
        parts[f"act{i}"] = act()
        depth, height, width = out, height + (1 - kernel % 2), width + (1 - kernel % 2)
        if min(height, width) >= 2:
            parts[f"pool{i}"] = nn.MaxPool2d(2)
            height, width = height // 2, width // 2
    parts["flatten"] = nn.Flatten()
    units = depth * height * width
    for i, out in enumerate(hidden):
        parts[f"linear{i}"] = nn.Linear(units, out)
        parts[f"act_linear{i}"] = act()
        units = out
    if dropout:
        parts["drop"] = nn.Dropout(dropout)
    return FeaturesAndHead(nn.Sequential(parts), nn.Linear(units, classes))


def head(old: nn.Module, classes: int, hidden: Sequence[int] = (), dropout: float = 0.0) -> nn.Module:
    """A fresh head that takes what `old` took: linear, or with `hidden` units in between."""
    width = _inputs_of(old)
    parts: list[nn.Module] = []
    for units in hidden:
        parts += [nn.Linear(width, units), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        width = units
    last = nn.Linear(width, classes)
    return nn.Sequential(*parts, last) if parts else last


def _inputs_of(old: nn.Module) -> int:
    for parameter in old.parameters():
        if parameter.ndim == 2:
            return int(parameter.shape[1])
    raise LaminarError(
        "L202",
        f"laminar:head cannot tell how many inputs the replaced {type(old).__name__} takes: it has no linear module",
        hint='write a head of your own: replace = { head = "models:head" }',
    )


def _activation(name: str) -> Callable[[], nn.Module]:
    if name not in _ACTIVATIONS:
        raise LaminarError(
            "L202", f"unknown activation '{name}'; {did_you_mean(name, _ACTIVATIONS)}", hint="use one of " + ", ".join(sorted(_ACTIVATIONS))
        )
    return _ACTIVATIONS[name]
