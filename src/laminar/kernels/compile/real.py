"""Words of float or double with their operations: what functions of mathematics are written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laminar.kernels.compile.assembly import Code, Word, number, wide


@dataclass(frozen=True)
class Real:
    """A value of float or double, scalar or vector."""

    code: Code
    word: Word

    @property
    def double(self) -> bool:
        return self.word.kind == "double"

    @property
    def whole(self) -> str:
        """The type of its bits."""
        return wide("i64" if self.double else "i32", self.word.width)

    def constant(self, value: float) -> Real:
        return Real(self.code, number(self.word.kind, value, self.word.width))

    def _with(self, operator: str, other: Real | float) -> Real:
        return Real(self.code, self.code.binary(operator, self.word, self.made(other).word))

    def made(self, value: Real | float) -> Real:
        return value if isinstance(value, Real) else self.constant(value)

    def __add__(self, other: Real | float) -> Real:
        return self._with("fadd", other)

    def __sub__(self, other: Real | float) -> Real:
        return self._with("fsub", other)

    def __mul__(self, other: Real | float) -> Real:
        return self._with("fmul", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._with("fdiv", other)

    def __neg__(self) -> Real:
        return Real(self.code, self.code.unary("fneg", self.word))

    def __abs__(self) -> Real:
        return self.by("fabs")

    def by(self, intrinsic: str, *others: Real) -> Real:
        return Real(self.code, self.code.intrinsic(intrinsic, self.word, *(one.word for one in others)))

    def fma(self, other: Real | float, more: Real | float) -> Real:
        return self.by("fma", self.made(other), self.made(more))

    def polynomial(self, coefficients: Sequence[float]) -> Real:
        """By Horner's rule, the highest power first."""
        made = self.constant(coefficients[0])
        for one in coefficients[1:]:
            made = made.fma(self, one)
        return made

    def compare(self, test: str, other: Real | float) -> Word:
        return self.code.compare(test, self.word, self.made(other).word)

    def where(self, test: Word, otherwise: Real | float) -> Real:
        """It where the test holds."""
        return Real(self.code, self.code.select(test, self.word, self.made(otherwise).word))

    def within(self, low: float, high: float) -> Real:
        """Not below and not above; NaN stays."""
        raised = self.constant(low).where(self.compare("olt", low), self)
        return raised.constant(high).where(raised.compare("ogt", high), raised)

    def bits(self) -> Word:
        return self.code.as_bits(self.word, self.whole)

    def from_bits(self, bits: Word) -> Real:
        return Real(self.code, self.code.as_bits(bits, self.word.type))

    def integer(self) -> Word:
        """Of a small whole number: as a word of whole numbers."""
        return self.code.convert("fptosi", self.word, "i64" if self.double else "i32")

    def from_integer(self, word: Word) -> Real:
        return Real(self.code, self.code.convert("sitofp", word, self.word.kind))

    def power_of_two(self, exponent: Word) -> Real:
        """2 to a whole number that is the exponent of a normal number."""
        bias, shift = (1023, 52) if self.double else (127, 23)
        moved = self.code.binary("add", exponent, number(exponent.kind, bias, exponent.width))
        return self.from_bits(self.code.binary("shl", moved, number(exponent.kind, shift, exponent.width)))

    def as_double(self) -> Real:
        return Real(self.code, self.code.convert("fpext", self.word, "double"))

    def as_float(self) -> Real:
        return Real(self.code, self.code.convert("fptrunc", self.word, "float"))
