"""AlexNet and T-CNN-3, which is made of AlexNet's first three convolutions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from .parts import FeaturesAndHead, image_sides, pooled, wide, with_head


def alexnet(classes: int, input_shape: Sequence[int], width: float = 1.0, dropout: float = 0.5) -> FeaturesAndHead:
    """A. Krizhevsky, I. Sutskever, G. E. Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.

    The second, fourth and fifth convolution have two groups, as the paper's two processors had. The first is padded by two pixels: images
    of 224x224 then give the paper's 55x55, and those of 227x227 the same 6x6 at the end.
    """
    channels, *sides = image_sides("alexnet", input_shape, 63, width)
    c1, c2, c3, c5, units = (wide(n, width) for n in (96, 256, 384, 256, 4096))
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, c1, 11, stride=4, padding=2),
        act1=nn.ReLU(),
        # torch divides alpha by the number of channels that are summed over, the paper does not
        norm1=nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0),
        pool1=nn.MaxPool2d(3, stride=2),
        conv2=nn.Conv2d(c1, c2, 5, padding=2, groups=2),
        act2=nn.ReLU(),
        norm2=nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0),
        pool2=nn.MaxPool2d(3, stride=2),
        conv3=nn.Conv2d(c2, c3, 3, padding=1),
        act3=nn.ReLU(),
        conv4=nn.Conv2d(c3, c3, 3, padding=1, groups=2),
        act4=nn.ReLU(),
        conv5=nn.Conv2d(c3, c5, 3, padding=1, groups=2),
        act5=nn.ReLU(),
        pool5=nn.MaxPool2d(3, stride=2),
        flatten=nn.Flatten(),
    )
    height, across = (pooled(pooled(pooled(pooled(side, 11, 4, 2), 3, 2), 3, 2), 3, 2) for side in sides)
    parts |= _two_linear(c5 * height * across, units, dropout)
    return with_head(nn.Sequential(parts), units, classes)


def tcnn(classes: int, input_shape: Sequence[int], width: float = 1.0, dropout: float = 0.5) -> FeaturesAndHead:
    """T-CNN-3 of V. Andrearczyk, P. F. Whelan, Using Filter Banks in Convolutional Neural Networks for Texture Classification, 2016.

    Each filter of the third convolution gives one number, its mean over the whole image: where in the image a texture lies is of no use.
    Groups, and normalisation after pooling, are those of the network that its authors published.
    """
    channels, *_ = image_sides("tcnn", input_shape, 31, width)
    c1, c2, c3, units = (wide(n, width) for n in (96, 256, 384, 4096))
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, c1, 11, stride=4, padding=2),
        act1=nn.ReLU(),
        pool1=nn.MaxPool2d(3, stride=2),
        norm1=nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0),
        conv2=nn.Conv2d(c1, c2, 5, padding=2, groups=2),
        act2=nn.ReLU(),
        pool2=nn.MaxPool2d(3, stride=2),
        norm2=nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0),
        conv3=nn.Conv2d(c2, c3, 3, padding=1),
        act3=nn.ReLU(),
        energy=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
    )
    parts |= _two_linear(c3, units, dropout)
    return with_head(nn.Sequential(parts), units, classes)


def _two_linear(inputs: int, units: int, dropout: float) -> OrderedDict[str, nn.Module]:
    return OrderedDict(
        linear6=nn.Linear(inputs, units),
        act6=nn.ReLU(),
        drop6=nn.Dropout(dropout),
        linear7=nn.Linear(units, units),
        act7=nn.ReLU(),
        drop7=nn.Dropout(dropout),
    )
