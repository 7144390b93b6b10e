"""Layout: which tensor is where in one flat gradient. No torch: a server that only forwards packets needs none."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Part(NamedTuple):
    """One tensor of the gradient."""

    name: str
    offset: int  # in values, from the start of the flat tensor
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        return self.offset + self.numel

    def of(self, flat: Tensor) -> Tensor:
        """This part of a flat tensor, as a view in its own shape."""
        return flat[self.offset : self.end].view(self.shape)


class Layout:
    """The parts of a flat gradient, in order and without gaps."""

    def __init__(self, parts: Iterable[tuple[str, int, tuple[int, ...]]]) -> None:
        self.parts = tuple(Part(name, offset, tuple(shape)) for name, offset, shape in parts)
        end = 0
        for part in self.parts:
            if part.offset != end:
                raise ValueError(f"'{part.name}' begins at {part.offset}, but the part before it ends at {end}")
            if any(side < 0 for side in part.shape):
                raise ValueError(f"'{part.name}' has the shape {list(part.shape)}")
            end = part.end
        if len({part.name for part in self.parts}) != len(self.parts):
            raise ValueError("two parts of the layout have one name")
        self.numel = end

    @classmethod
    def of(cls, shapes: Mapping[str, Iterable[int]]) -> Layout:
        """One part after the other: `Layout.of({name: p.shape for name, p in model.named_parameters()})`."""
        parts, offset = [], 0
        for name, shape in shapes.items():
            part = Part(name, offset, tuple(shape))
            parts.append(part)
            offset = part.end
        return cls(parts)

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that differ between layouts, as far as 32 bits can: a packet for another model is refused."""
        return zlib.crc32(repr([(part.name, part.shape) for part in self.parts]).encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.parts == other.parts

    def __hash__(self) -> int:
        return self.fingerprint

    def __repr__(self) -> str:
        return f"Layout({len(self.parts)} parts, {self.numel:,} values)"
