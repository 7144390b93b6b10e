"""Values as kernels compute them, one at a time: whole numbers that wrap around, floats of 32 bits, and the functions of intrinsics.py.

A float is kept as a Python float that 32 bits can hold. Sums, products, quotients and roots of such, rounded twice (to 64, then to 32
bits), are what one rounding gives (Figueroa, When is double rounding innocuous?, 1995); `fma` is not, and rounds to odd first (Boldo and
Melquiond, Emulation of FMA and correctly rounded sums, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from laminar.kernels.language.tree import Type
from laminar.kernels.language.types import converted

INF: Final = math.inf
NAN: Final = math.nan


def wrap_int(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap_long(value: int) -> int:
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def quotient(left: int, right: int) -> int:
    """Towards zero; not yet wrapped."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def remainder(left: int, right: int) -> int:
    """With the sign of `left`."""
    return left % abs(right) if left >= 0 else -(-left % abs(right))


def by_zero(left: float, zero: float) -> float:
    """A float divided by 0.0 or -0.0."""
    if left == 0 or left != left:
        return NAN
    return math.copysign(INF, left) * math.copysign(1.0, zero)


def odd(total: float, error: float) -> float:
    """`total` is a rounded sum, `error` what the rounding took away: the neighbour whose last bit is 1, unless it is so already."""
    if error != error or int(math.frexp(total)[0] * 9007199254740992.0) & 1:
        return total
    return math.nextafter(total, INF if error > 0 else -INF)


def fma(one: float, other: float, more: float) -> float:
    """Of double, rounded once: exact as fractions of whole numbers, whose quotient Python rounds to nearest."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return one * other + more
    if not math.isfinite(more):
        return more
    (a, a_below), (b, b_below), (c, c_below) = one.as_integer_ratio(), other.as_integer_ratio(), more.as_integer_ratio()
    above, below = a * b * c_below + c * a_below * b_below, a_below * b_below * c_below
    if above == 0:
        return one * other + more if a * b == 0 else 0.0
    try:
        return above / below
    except OverflowError:
        return INF if above > 0 else -INF


def to_int(value: float) -> int:
    return int(converted(value, "int"))


def to_long(value: float) -> int:
    return int(converted(value, "long"))


def fmin(one: float, other: float) -> float:
    """NaN counts as missing; of two that are equal the second."""
    return one if other != other or one < other else other


def fmax(one: float, other: float) -> float:
    return one if other != other or one > other else other


def _guarded(function: Callable[[float], float], special: Callable[[float], float]) -> Callable[[float], float]:
    """Where Python raises, C gives a value."""

    def guarded(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return special(value)

    return guarded


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """Of functions to whole numbers: large ones and zeros stay as they are, with their sign."""

    def whole(value: float) -> float:
        if not abs(value) < 4503599627370496.0:  # 2**52: it has no fraction
            return value
        return math.copysign(float(function(value)), value)

    return whole


def _away(value: float) -> int:
    below = math.floor(abs(value))
    return int(below + (abs(value) - below >= 0.5))


def _pow(base: float, power: float) -> float:
    try:
        return math.pow(base, power)
    except ValueError:
        if base != 0:
            return NAN
        return math.copysign(INF, base) if power % 2 == 1 else INF
    except OverflowError:
        return -INF if base < 0 and power % 2 == 1 else INF


def _fmod(one: float, other: float) -> float:
    try:
        return math.fmod(one, other)
    except ValueError:
        return NAN


def _log_special(value: float) -> float:
    return -INF if value == 0 else NAN


def _nan(_: float) -> float:
    return NAN


def _signed(value: float) -> float:
    return math.copysign(INF, value)


FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "sqrt": _guarded(math.sqrt, _nan),
    "exp": _guarded(math.exp, lambda _: INF),
    "exp2": _guarded(math.exp2, lambda _: INF),
    "expm1": _guarded(math.expm1, lambda _: INF),
    "log": _guarded(math.log, _log_special),
    "log2": _guarded(math.log2, _log_special),
    "log10": _guarded(math.log10, _log_special),
    "log1p": _guarded(math.log1p, lambda value: -INF if value == -1 else NAN),
    "sin": _guarded(math.sin, _nan),
    "cos": _guarded(math.cos, _nan),
    "tan": _guarded(math.tan, _nan),
    "tanh": math.tanh,
    "sinh": _guarded(math.sinh, _signed),
    "cosh": _guarded(math.cosh, lambda _: INF),
    "atan": math.atan,
    "erf": math.erf,
    "fabs": math.fabs,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _whole(_away),
    "trunc": _whole(math.trunc),
    "rint": _whole(round),
    "pow": _pow,
    "fmin": fmin,
    "fmax": fmax,
    "fmod": _fmod,
    "copysign": math.copysign,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "fma": fma,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "signbit": lambda value: math.copysign(1.0, value) < 0,
}
EXACT: Final = frozenset({"fabs", "floor", "ceil", "round", "trunc", "rint", "fmin", "fmax", "fmod", "copysign"})
"""Of floats these give floats: nothing is left to round."""

ZERO: Final[dict[Type, str]] = {"bool": "False", "int": "0", "long": "0", "float": "0.0", "double": "0.0"}
USED: Final = ("INF", "NAN", "wrap_int", "wrap_long", "quotient", "remainder", "by_zero", "odd", "to_int", "to_long")
"""What the lines of expressions.py call by these names."""
