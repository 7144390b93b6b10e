"""Functions of mathematics on words: instructions of the processor, polynomials (elementary.py), or the C library lane by lane."""

from __future__ import annotations

import math
from typing import Final

from laminar.kernels.compile import arithmetic
from laminar.kernels.compile.assembly import Code, Word, number, wide
from laminar.kernels.compile.elementary import LARGE, ONE, pow_
from laminar.kernels.compile.real import Real

_DIRECT: Final = frozenset({"sqrt", "fabs", "floor", "ceil", "round", "trunc", "rint", "copysign", "fma"})
_PURE: Final = "memory(none) nounwind willreturn"


def function(code: Code, name: str, words: list[Word]) -> Word:
    """By its name in language/intrinsics.py."""
    one = words[0]
    if name in _DIRECT:
        return code.intrinsic(name, *words)
    if name in ("fmin", "fmax"):
        return arithmetic.least(code, name[1:], words[0], words[1])
    if name == "abs":
        return code.call(f"llvm.abs.{f'v{one.width}' if one.width else ''}{one.kind}", one.type, [one, number("i1", 0)])
    if name in ("isnan", "isinf", "isfinite", "signbit"):
        return _test(code, name, one)
    if name == "pow" and one.kind == "float":
        usual = code.binary("and", _finite(code, words[0], above=True), _finite(code, words[1]))
        return _unless(code, name, words, pow_(Real(code, words[0]), Real(code, words[1])).word, usual)
    if name in ("sin", "cos"):
        usual = abs(Real(code, one)).compare("ole", LARGE)
        return _unless(code, name, words, ONE[name](Real(code, one)).word, usual)
    if name in ONE and not (name == "erf" and one.kind == "double"):
        return ONE[name](Real(code, one)).word
    return _by_library(code, name, words)


def _test(code: Code, name: str, one: Word) -> Word:
    if name == "isnan":
        return code.compare("uno", one, one)
    if name == "signbit":
        real = Real(code, one)
        return code.compare("slt", real.bits(), number("i64" if real.double else "i32", 0, one.width))
    size = code.intrinsic("fabs", one)
    return code.compare("oeq" if name == "isinf" else "olt", size, arithmetic.same(one, math.inf))


def _finite(code: Code, one: Word, *, above: bool = False) -> Word:
    """`above`: and greater than 0."""
    size = code.compare("olt", code.intrinsic("fabs", one), arithmetic.same(one, math.inf))
    return code.binary("and", size, code.compare("ogt", one, arithmetic.same(one, 0.0))) if above else size


def _unless(code: Code, name: str, words: list[Word], fast: Word, usual: Word) -> Word:
    """The library's where it is not the usual case."""
    room = code.room(fast.type)
    code.store(fast, room)
    rare = code.binary("xor", usual, number("i1", 1, usual.width))
    some = code.compare("ne", code.as_bits(rare, f"i{rare.width}"), number(f"i{rare.width}", 0)) if rare.width else rare
    with code.when(some):
        slow = _by_library(code, name, words)
        code.store(code.select(usual, fast, slow), room)
    return code.load(fast.type, room)


def _by_library(code: Code, name: str, words: list[Word]) -> Word:
    one = words[0]
    full = name + ("f" if one.kind == "float" else "")
    if not one.width:
        return code.call(full, one.type, words, _PURE)
    rooms = [code.room(word.type, align=64) for word in words]
    for word, room in zip(words, rooms, strict=True):
        code.store(word, room)
    again, after = code.fresh("lanes"), code.fresh("after")
    lane = code.room("i64")
    code.store(number("i64", 0), lane)
    code.label(again)
    now = code.load("i64", lane)
    given = [code.load(one.kind, code.address(one.kind, room, now)) for room in rooms]
    code.store(code.call(full, one.kind, given, _PURE), code.address(one.kind, rooms[0], now))
    following = code.binary("add", now, number("i64", 1))
    code.store(following, lane)
    code.branch(code.compare("ult", following, number("i64", one.width)), again, after)
    code.label(after)
    return code.load(wide(one.kind, one.width), rooms[0])
