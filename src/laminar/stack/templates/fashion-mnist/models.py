"""Models of this stack: a convolutional network for 28x28 images, and a fresh head for it."""

from torch import Tensor, nn


class ConvNet(nn.Module):
    def __init__(self, channels: list[int], classes: int) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        before = 1
        for after in channels:
            modules += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
            before = after
        self.features = nn.Sequential(*modules, nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(before * (28 // 2 ** len(channels)) ** 2, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def convnet(channels: list[int], classes: int) -> nn.Module:
    """Laminar gives `classes`, the number of classes of the layer's data, unless `args` do."""
    return ConvNet(channels, classes)


def head(old: nn.Sequential, classes: int) -> nn.Module:
    first = old[0]
    assert isinstance(first, nn.Linear)
    return nn.Sequential(nn.Linear(first.in_features, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, classes))
