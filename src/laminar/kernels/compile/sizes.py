"""Sizes: expressions of values and the number of instances, computed with 64 bits by LLVM's code, as `arguments.evaluated` does."""

from __future__ import annotations

from collections.abc import Mapping

from laminar.kernels.analyse.space import Cut, Space
from laminar.kernels.compile import arithmetic
from laminar.kernels.compile.assembly import Code, Word, number
from laminar.kernels.language.tree import Binary, Cast, Constant, Expression, Read, Unary, Variable


def size_word(code: Code, one: Expression, given: Mapping[Variable, Word], space: Space | None = None) -> Word:
    if space is not None:
        one = space.resolved(one)
    match one:
        case Constant():
            return number("i64", int(one.value))
        case Read():
            word = given[one.variable]
            return word if word.type == "i64" else code.convert("sext" if word.type == "i32" else "zext", word, "i64")
        case Cast():
            return size_word(code, one.value, given, space)
        case Unary():
            return arithmetic.unary(code, one.operator, "long", size_word(code, one.value, given, space))
        case Binary():
            left, right = size_word(code, one.left, given, space), size_word(code, one.right, given, space)
            return arithmetic.binary(code, one.operator, "long", left, right)
    raise AssertionError(f"{type(one).__name__} in a size")


def product_word(code: Code, cut: Cut, given: Mapping[Variable, Word], space: Space) -> Word:
    made = number("i64", 1)
    for factor in cut:
        made = code.binary("mul", made, size_word(code, space.sizes[factor], given, space))
    return made
