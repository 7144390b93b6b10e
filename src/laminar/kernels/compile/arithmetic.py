"""Operators and casts on words, scalars and vectors alike; what each gives is said in language/tree.py."""

from __future__ import annotations

from typing import Final

from laminar.kernels.compile.assembly import BITS, KINDS, Code, Word, number, wide
from laminar.kernels.language.tree import WHOLE, Type

_WHOLE: Final = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "and": "and", "or": "or"}
_REAL: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARE: Final = {
    "<": ("slt", "olt"),
    "<=": ("sle", "ole"),
    ">": ("sgt", "ogt"),
    ">=": ("sge", "oge"),
    "==": ("eq", "oeq"),
    "!=": ("ne", "une"),
}
_UNSIGNED: Final = {"slt": "ult", "sle": "ule", "sgt": "ugt", "sge": "uge"}  # of bool: true is more than false


def same(word: Word, value: float) -> Word:
    """A constant of the same type."""
    return number(word.kind, value, word.width)


def binary(code: Code, operator: str, operands: Type, left: Word, right: Word) -> Word:
    """Both operands are of one type."""
    whole = operands in WHOLE
    if operator in _COMPARE:
        test = _COMPARE[operator][0 if whole else 1]
        return code.compare(_UNSIGNED.get(test, test) if operands == "bool" else test, left, right)
    if operator in ("<<", ">>"):
        by = code.binary("and", right, same(right, BITS[right.kind] - 1))
        return code.binary("shl" if operator == "<<" else "ashr", left, by)
    if operator in ("/", "%") and whole:
        return divided(code, operator, left, right)
    return code.binary(_WHOLE[operator] if whole else _REAL[operator], left, right)


def divided(code: Code, operator: str, left: Word, right: Word) -> Word:
    """Towards zero; by zero it gives 0. Nothing traps: the least number by -1 is itself. Lanes of int go by double, which is exact: the
    distance of a quotient to the next whole number is at least 1 / 2^31 of it."""
    zero, none, minus = same(right, 0), code.compare("eq", right, same(right, 0)), code.compare("eq", right, same(right, -1))
    safe = code.select(code.binary("or", none, minus), same(right, 1), right)
    if left.width and left.kind == "i32":
        real = code.binary("fdiv", code.convert("sitofp", left, "double"), code.convert("sitofp", safe, "double"))
        quotient = code.convert("fptosi", real, "i32")
        made = quotient if operator == "/" else code.binary("sub", left, code.binary("mul", quotient, safe))
    else:
        made = code.binary("sdiv" if operator == "/" else "srem", left, safe)
    if operator == "/":
        made = code.select(minus, code.binary("sub", zero, left), made)
    return code.select(none, zero, made)


def unary(code: Code, operator: str, type_: Type, value: Word) -> Word:
    if operator == "!":
        return code.binary("xor", value, same(value, 1))
    if operator == "~":
        return code.binary("xor", value, same(value, -1))
    return code.binary("sub", same(value, 0), value) if type_ in WHOLE else code.unary("fneg", value)


def cast(code: Code, value: Word, given: Type, wanted: Type) -> Word:
    """Floats too large for a whole number become the nearest one, NaN 0."""
    kind = KINDS[wanted]
    if given == wanted:
        return value
    if wanted == "bool":
        return code.compare("ne" if given in WHOLE else "une", value, same(value, 0))
    if given in WHOLE and wanted in WHOLE:
        return code.convert("zext" if given == "bool" else "sext" if BITS[kind] > BITS[value.kind] else "trunc", value, kind)
    if given in WHOLE:
        return code.convert("uitofp" if given == "bool" else "sitofp", value, kind)
    if wanted in WHOLE:
        return _nearest(code, value, kind)
    return code.convert("fpext" if wanted == "double" else "fptrunc", value, kind)


def _nearest(code: Code, value: Word, kind: str) -> Word:
    short = {"float": "f32", "double": "f64"}[value.kind]
    prefix = f"v{value.width}" if value.width else ""
    type_ = wide(kind, value.width)
    return code.call(f"llvm.fptosi.sat.{prefix}{kind}.{prefix}{short}", type_, [value])


def least(code: Code, operator: str, left: Word, right: Word) -> Word:
    """fmin or fmax: NaN counts as missing; of two that are equal the second."""
    missing = code.compare("uno", right, right)
    chosen = code.compare("olt" if operator == "min" else "ogt", left, right)
    return code.select(code.binary("or", missing, chosen), left, right)
