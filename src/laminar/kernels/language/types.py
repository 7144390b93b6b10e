"""Types as C writes them, and C's conversions (C99 6.3.1)."""

from __future__ import annotations

import struct
from typing import Final

from pycparser import c_ast

from laminar.kernels.language.parse import place
from laminar.kernels.language.text import Text
from laminar.kernels.language.tree import RANKS, At, Cast, Constant, Expression, Type

_NAMES: Final[dict[tuple[str, ...], Type]] = {
    ("_Bool",): "bool",
    ("bool",): "bool",
    ("int",): "int",
    ("signed",): "int",
    ("int", "signed"): "int",
    ("long",): "long",
    ("long", "signed"): "long",
    ("int", "long"): "long",
    ("long", "long"): "long",
    ("int", "long", "long"): "long",
    ("float",): "float",
    ("double",): "double",
}
_INSTEAD: Final = {
    "unsigned": "int, or long where 31 bits are too few",
    "size_t": "int or long",
    "short": "int",
    "char": "int",
    "void": "a type with values",
    "_Complex": "two floats",
}


def scalar(text: Text, node: c_ast.Node) -> Type:
    """The type that a declaration names, of IdentifierType and what surrounds it."""
    while isinstance(node, (c_ast.TypeDecl, c_ast.Typename, c_ast.ArrayDecl, c_ast.PtrDecl)):
        node = node.type
    if isinstance(node, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
        word = type(node).__name__.lower()
        instead = (
            "`#define NAME 0` for each of its constants, and int" if word == "enum" else "a variable or an array for each of its members"
        )
        text.fail("K03", place(node), f"{word} is not supported", instead)
    if isinstance(node, c_ast.FuncDecl):
        text.fail("K03", place(node), "the type of a pointer to a function is not supported", "call the function by its name")
    if not isinstance(node, c_ast.IdentifierType):
        text.fail("K03", place(node), "this type is not supported", "bool, int, long, float, double, or an array of one of them")
    found = _NAMES.get(tuple(sorted(node.names)))
    if found is None:
        said = " ".join(node.names)
        instead = next((_INSTEAD[one] for one in node.names if one in _INSTEAD), "bool, int, long, float or double")
        text.fail("K03", place(node), f"the type `{said}` is not supported", instead)
    return found


def literal(text: Text, node: c_ast.Constant) -> Constant:
    at, said = place(node), node.value
    if node.type in ("string", "char") or said[:1] in "\"'LuU":
        text.fail("K03", at, f"{said[:20]} is text, which kernels do not have", "a number")
    low = said.lower()
    if low.startswith("0x") and ("." in low or "p" in low):
        return _real(text, at, float.fromhex(low.rstrip("fl")), "f" if low.endswith("f") and "p" in low else "")
    if not low.startswith("0x") and any(one in low for one in ".e"):
        digits = low.rstrip("fl")
        return _real(text, at, float(digits), low[len(digits) :])
    digits = low.rstrip("ul")
    if "u" in low[len(digits) :]:
        text.fail("K03", at, f"{said} is unsigned, which kernels do not have", digits)
    try:
        value = int(digits, 8) if digits.startswith("0") and digits.isdigit() else int(digits, 0)
    except ValueError:
        text.fail("K01", at, f"{said[:40]} is no number of C99", "digits alone")
    if value >= 2**63:
        text.fail("K03", at, f"{said} does not fit 64 bits", "a smaller number, or a double: write a point")
    return Constant(at, "long" if value >= 2**31 or "l" in low[len(digits) :] else "int", value)


def _real(text: Text, at: At, value: float, suffix: str) -> Constant:
    if suffix == "l":
        text.fail("K03", at, "long double is not supported", "a double: leave the l out")
    if suffix == "f":
        return Constant(at, "float", to_float(value))
    return Constant(at, "double", value)


def to_float(value: float) -> float:
    """Rounded to 32 bits, once: of a whole number that 64-bit floats do not hold, bits that only matter by not being zero become one."""
    if isinstance(value, int) and abs(value) >= 2**53:
        value = (value >> 11 | (value & 2047 != 0)) << 11
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def cast(value: Expression, type_: Type, at: At | None = None) -> Expression:
    if value.type == type_:
        return value
    where = at or value.at
    if isinstance(value, Constant):
        return Constant(where, type_, converted(value.value, type_))
    return Cast(where, type_, value)


def converted(value: bool | int | float, type_: Type) -> bool | int | float:
    """As a Cast does at run time."""
    if type_ == "bool":
        return value != 0
    if type_ in ("int", "long"):
        bits = 32 if type_ == "int" else 64
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if isinstance(value, float):
            return 0 if value != value else low if value <= low else high if value >= high else int(value)
        return int((int(value) - low) % 2**bits + low)
    return to_float(value) if type_ == "float" else float(value)


def common(left: Type, right: Type) -> Type:
    """What both sides of an operator become."""
    first, second = promoted(left), promoted(right)
    return first if RANKS[first] >= RANKS[second] else second


def promoted(type_: Type) -> Type:
    return "int" if type_ == "bool" else type_
