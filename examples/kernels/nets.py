"""The models of this stack: the network of `laminar init`, with its first convolution and its activations as kernels.

`by = "torch"` makes the same network of the same random weights with torch's own modules, to compare with.
"""

from itertools import pairwise

from torch import Tensor, nn

import laminar

leaky = laminar.kernel("leaky.c")
convolution = laminar.kernel("convolution.c")


class Convolution(nn.Conv2d):
    """A 3x3 convolution that draws its weights as torch's does, and computes by convolution.c."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__(ins, outs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return convolution(x, self.weight, self.bias)


class ConvNet(nn.Module):
    """Convolutions that see strokes (`features`), and a linear module that names what they make (`head`)."""

    def __init__(self, channels: list[int], classes: int, first: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        modules: list[nn.Module] = [first, nn.BatchNorm2d(channels[0]), activation, nn.MaxPool2d(2)]
        for before, after in pairwise(channels):
            modules += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), activation, nn.MaxPool2d(2)]
        self.features = nn.Sequential(*modules, nn.Flatten())
        self.head = nn.Linear(channels[-1] * (8 // 2 ** len(channels)) ** 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def convnet(channels: list[int], classes: int, by: str = "kernels") -> nn.Module:
    if by == "torch":
        return ConvNet(channels, classes, nn.Conv2d(1, channels[0], 3, padding=1), nn.LeakyReLU(0.1))
    return ConvNet(channels, classes, Convolution(1, channels[0]), leaky.module(slope=0.1))


def head(old: nn.Linear, classes: int) -> nn.Module:
    """A fresh head for the same features. Laminar gives `old` (the module replaced) and `classes` (of the layer's data)."""
    return nn.Linear(old.in_features, classes)
