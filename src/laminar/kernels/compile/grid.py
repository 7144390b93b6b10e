"""Values of a block of instances: rows x vectors x lanes.

A value that is the same for all instances of the block is one scalar; one that differs among rows only is a scalar for each row; one that
differs among lanes is a vector for each group of lanes, and so on: nothing is computed more often than it differs. This is what makes
blocks in registers of a kernel for one instance (Karrenberg and Hack, "Whole-Function Vectorization", 2011, for the lanes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from laminar.kernels.compile.assembly import KINDS, Code, Word, lanes, number
from laminar.kernels.language.tree import Type

ROWS: Final = 1
LANES: Final = 2
FARTHEST: Final = 1 << 20  # of lanes that follow each other by a fixed step


@dataclass(frozen=True)
class Shape:
    """rows = vectors = width = 1: one instance, nothing differs."""

    rows: int = 1
    vectors: int = 1
    width: int = 1

    @property
    def bits(self) -> int:
        """In what values may differ."""
        return (ROWS if self.rows > 1 else 0) | (LANES if self.width > 1 or self.vectors > 1 else 0)

    @property
    def instances(self) -> int:
        return self.rows * self.vectors * self.width

    def cells(self, bits: int) -> Iterator[tuple[int, int]]:
        """(row, vector) of each word that a value with these bits has."""
        for row in range(self.rows if bits & ROWS else 1):
            for vector in range(self.vectors if bits & LANES else 1):
                yield row, vector

    def size(self, bits: int) -> int:
        return (self.rows if bits & ROWS else 1) * (self.vectors if bits & LANES else 1)

    def wide(self, bits: int) -> int:
        """Lanes of a word; 0: a scalar."""
        return self.width if bits & LANES else 0


@dataclass(frozen=True)
class Value:
    """`words`: row by row. With a `stride` a word is that of the first lane, and each lane is that much more than the one before."""

    type: Type
    bits: int
    words: tuple[Word, ...]
    stride: int | None = None

    @property
    def whole(self) -> Word:
        """Of a value that is the same for all."""
        assert not self.bits, "a value that differs"
        return self.words[0]


def scalar(type_: Type, word: Word) -> Value:
    return Value(type_, 0, (word,))


def constant(type_: Type, value: float) -> Value:
    return scalar(type_, number(KINDS[type_], value))


def base(shape: Shape, value: Value, row: int, vector: int) -> Word:
    """The word of a cell as it is kept."""
    across = shape.vectors if value.bits & LANES else 1
    return value.words[(row if value.bits & ROWS else 0) * across + (vector if value.bits & LANES else 0)]


def cell(code: Code, shape: Shape, value: Value, row: int, vector: int, width: int) -> Word:
    """The word of a cell, as a vector of `width` lanes; 0: as a scalar."""
    word = base(shape, value, row, vector)
    if not width:
        return word
    if value.stride is None and value.bits & LANES:
        return word
    spread = code.splat(word, width)
    return code.binary("add", spread, lanes(word.type, width, value.stride)) if value.stride else spread


def spread(code: Code, shape: Shape, value: Value, bits: int) -> Value:
    """The same, as one that has all these bits and no stride."""
    if value.bits == bits and value.stride is None:
        return value
    width = shape.wide(bits)
    return Value(value.type, bits, tuple(cell(code, shape, value, row, vector, width) for row, vector in shape.cells(bits)))


def each(code: Code, shape: Shape, type_: Type, values: Sequence[Value], operate: Callable[..., Word]) -> Value:
    """`operate` on the words of each cell."""
    bits = 0
    for one in values:
        bits |= one.bits
    width = shape.wide(bits)
    words = [operate(*(cell(code, shape, one, row, vector, width) for one in values)) for row, vector in shape.cells(bits)]
    return Value(type_, bits, tuple(words))
