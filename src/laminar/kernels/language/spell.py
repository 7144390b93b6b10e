"""How constants and functions are written in C."""

from __future__ import annotations

from laminar.kernels.language.intrinsics import TESTS
from laminar.kernels.language.tree import Call, Constant
from laminar.kernels.language.types import to_float


def called_as(one: Call) -> str:
    if one.name in TESTS:
        return one.name
    if one.name == "abs":
        return "labs" if one.type == "long" else "abs"
    return f"{one.name}f" if one.type == "float" else one.name


def literal_of(one: Constant) -> str:
    """Text that is read as the same value of the same type."""
    value = one.value
    if one.type == "bool":
        return "true" if value else "false"
    if one.type in ("int", "long"):
        least = -(2**31) if one.type == "int" else -(2**63)
        if value == least:
            return "INT_MIN" if one.type == "int" else "LONG_MIN"
        text = f"{abs(int(value))}{'L' * (one.type == 'long')}"
        return f"(-{text})" if value < 0 else text
    if value != value or value in (float("inf"), float("-inf")):
        text = "NAN" if value != value else "INFINITY"
        text = text if one.type == "float" else f"((double){text})"
        return f"(-{text})" if value < 0 else text
    text = _shortest(float(value), one.type == "float")
    return f"(-{text[1:]})" if text.startswith("-") else text


def _shortest(value: float, single: bool) -> str:
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if (to_float(float(text)) if single else float(text)) == value:
            break
    if not any(letter in text for letter in ".e"):
        text += ".0"
    return f"{text}f" if single else text


def bare(text: str) -> str:
    """Without brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    open_ = 0
    for place, letter in enumerate(text):
        open_ += (letter == "(") - (letter == ")")
        if open_ == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
