"""Models of this stack."""

from torch import Tensor, nn


class ConvNet(nn.Module):
    def __init__(self, channels_in: int, channels: list[int], classes: int) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        before = channels_in
        for after in channels:
            modules += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
            before = after
        self.features = nn.Sequential(*modules, nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.head = nn.Linear(before * 16, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def convnet(channels_in: int, channels: list[int], classes: int) -> nn.Module:
    """Laminar gives `classes`, the number of class folders."""
    return ConvNet(channels_in, channels, classes)
