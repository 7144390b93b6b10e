"""Models of this stack. A factory is any function or class that returns an nn.Module.

Laminar follows what a factory uses, in this file and in your other modules: change that, and the layers made with it are trained
again; change a comment, and nothing is.
"""

from torch import Tensor, nn


class ConvNet(nn.Module):
    """Convolutions that see strokes (`features`), and a linear module that names what they make (`head`)."""

    def __init__(self, channels: list[int], classes: int) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        before = 1
        for after in channels:
            modules += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
            before = after
        self.features = nn.Sequential(*modules, nn.Flatten())
        self.head = nn.Linear(before * (8 // 2 ** len(channels)) ** 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def convnet(channels: list[int], classes: int) -> nn.Module:
    return ConvNet(channels, classes)


def head(old: nn.Linear, classes: int) -> nn.Module:
    """A fresh head for the same features. Laminar gives `old` (the module replaced) and `classes` (of the layer's data)."""
    return nn.Linear(old.in_features, classes)
