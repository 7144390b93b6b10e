"""Functions of mathematics as polynomials, for one value or for lanes alike, so that both give the same bits.

Ranges are reduced as Cody and Waite do ("Software Manual for the Elementary Functions", 1980). Polynomials of float are those of Cephes
(Moshier, "Methods and Programs for Mathematical Functions", 1989); of double, the logarithm's, sine's and cosine's are those of fdlibm
(Sun, 1993), the exponential's are Taylor's. Largest errors, in ulp, are in ULPS, and are tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from laminar.kernels.compile.assembly import Word, number
from laminar.kernels.compile.real import Real

ULPS: Final[dict[str, tuple[float, float]]] = {
    "exp": (1, 1),
    "exp2": (1.5, 1.5),
    "expm1": (1, 2),
    "log": (1, 1),
    "log2": (2, 2),
    "log10": (1, 3),
    "log1p": (1, 2),
    "tanh": (1.5, 3),
    "sin": (2, 3),
    "cos": (2, 2),
    "erf": (3, 1),
    "pow": (1, 1),
}
"""Of float and of double (where erf and pow are the C library's, as is all that is not here)."""

LN2: Final = ((0.693359375, -2.12194440e-4), (6.93147180369123816490e-01, 1.90821492927058770002e-10))
LOG2E: Final = 1.0 / math.log(2.0)
_EXP: Final = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXP_DOUBLE: Final = tuple(1.0 / math.factorial(one) for one in range(13, 1, -1))
_LOG: Final = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
    -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LOG_DOUBLE: Final = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01,
    3.999999999940941908e-01, 6.666666666666735130e-01,
)  # fmt: skip
_TANH: Final = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
_SIN: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN_DOUBLE: Final = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
_COS_DOUBLE: Final = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip
_HALF_PI: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_ERF: Final = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1,
    -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
_ERFC: Final = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1, 6.210004621745983e-1,
    -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1, 5.638259427386472e-1,
)  # fmt: skip


def _reduced(x: Real) -> tuple[Real, Word]:
    """x = n ln 2 + r, |r| <= ln 2 / 2."""
    n = (x * LOG2E).by("rint")
    high, low = LN2[x.double]
    return n.fma(-low, n.fma(-high, x)), n.integer()


def _scaled(value: Real, n: Word) -> Real:
    """value 2^n, in two steps: the result may be below the normal numbers, or beyond all."""
    first, second = _halves(value, n)
    return value * value.power_of_two(first) * value.power_of_two(second)


def _halves(value: Real, n: Word) -> tuple[Word, Word]:
    half = value.code.binary("ashr", n, number(n.kind, 1, n.width))
    return half, value.code.binary("sub", n, half)


def _exp_less_one(r: Real) -> Real:
    return (r * r).fma(r.polynomial(_EXP_DOUBLE if r.double else _EXP), r)


def exp(x: Real) -> Real:
    r, n = _reduced(x.within(-750.0, 720.0) if x.double else x.within(-110.0, 100.0))
    return _scaled(_exp_less_one(r) + 1.0, n)


def exp2(x: Real) -> Real:
    x = x.within(-1080.0, 1030.0) if x.double else x.within(-155.0, 135.0)
    n = x.by("rint")
    r = (x - n) * math.log(2.0)
    return _scaled(_exp_less_one(r) + 1.0, n.integer())


def expm1(x: Real) -> Real:
    if not x.double:
        return expm1(x.as_double()).as_float()
    r, n = _reduced(x.within(-60.0, 720.0))
    first, second = _halves(r, n)
    one, other = r.power_of_two(first), r.power_of_two(second)
    inverse = r.power_of_two(r.code.binary("sub", number(n.kind, 0, n.width), second))
    made = (_exp_less_one(r) * one + (one - inverse)) * other
    return x.where(x.compare("oeq", 0.0), made)


def _split(x: Real) -> tuple[Real, Real, Word]:
    """x = m 2^e, sqrt(1/2) <= m < sqrt(2): m - 1, e as a real; and where x is none that has a logarithm that is finite."""
    code, double = x.code, x.double
    kind, width = ("i64" if double else "i32"), x.word.width
    tiny = x.compare("olt", 2.2250738585072014e-308 if double else 1.1754943508222875e-38)
    steps, shift, bias = (54.0, 52, 1022) if double else (24.0, 23, 126)
    normal = (x * 2.0**steps).where(tiny, x)
    bits = normal.bits()
    exponent = code.binary("sub", code.binary("lshr", bits, number(kind, shift, width)), number(kind, bias, width))
    mantissa = code.binary("and", bits, number(kind, (1 << shift) - 1, width))
    m = x.from_bits(code.binary("or", mantissa, number(kind, bias << shift, width)))  # from 1/2 to 1
    small = m.compare("olt", math.sqrt(0.5))
    e = x.from_integer(exponent)
    e = (e - steps).where(tiny, e)
    wrong = code.binary("or", x.compare("ule", 0.0), x.compare("oeq", math.inf))
    return (m + m - 1.0).where(small, m - 1.0), (e - 1.0).where(small, e), wrong


def _no_log(x: Real) -> Real:
    """The logarithm of what is 0, negative, infinite or no number."""
    made = x.constant(-math.inf).where(x.compare("oeq", 0.0), math.nan)
    return x.where(x.compare("oeq", math.inf), made)


def _log_of_one_and(f: Real, e: Real | None) -> Real:
    """log(1 + f) + e ln 2."""
    if not f.double:
        z = f * f
        y = f.polynomial(_LOG) * f * z
        y = y if e is None else e.fma(LN2[0][1], y)
        y = z.fma(-0.5, y)
        return f + y if e is None else e.fma(LN2[0][0], f + y)
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    inner = s * (half + z * z.polynomial(_LOG_DOUBLE))
    if e is None:
        return f - (half - inner)
    return e.fma(LN2[1][0], -((half - e.fma(LN2[1][1], inner)) - f))


def log(x: Real) -> Real:
    f, e, wrong = _split(x)
    return _no_log(x).where(wrong, _log_of_one_and(f, e))


def log2(x: Real) -> Real:
    f, e, wrong = _split(x)
    return _no_log(x).where(wrong, _log_of_one_and(f, None).fma(LOG2E, e))


def log10(x: Real) -> Real:
    return log(x) * (1.0 / math.log(10.0)) if x.double else log10(x.as_double()).as_float()


def log1p(x: Real) -> Real:
    """By log(u) + (x - (u - 1)) / u with u = 1 + x as it is rounded."""
    if not x.double:
        return log1p(x.as_double()).as_float()
    u = x + 1.0
    plain = log(u)
    mended = plain + (x - (u - 1.0)) / u
    edge = x.code.binary("or", u.compare("oeq", 0.0), u.compare("oeq", math.inf))
    return x.where(x.compare("oeq", 0.0), plain.where(edge, mended))


def tanh(x: Real) -> Real:
    size = abs(x)
    if x.double:
        t = expm1(size.within(0.0, 22.0) * 2.0)
        made = t / (t + 2.0)
    else:
        z = x * x
        large = x.constant(1.0) - x.constant(2.0) / (exp(size.within(0.0, 10.0) * 2.0) + 1.0)
        made = (size * z).fma(z.polynomial(_TANH), size).where(size.compare("olt", 0.625), large)
    return made.by("copysign", x)


def erf(x: Real) -> Real:
    """Of float."""
    size = abs(x).within(0.0, 4.5)
    z = x * x
    far = size.constant(1.0) / size
    complement = exp(-(size * size)) * far * (far * far).polynomial(_ERFC)
    return (x * z.polynomial(_ERF)).where(abs(x).compare("olt", 1.0), (size.constant(1.0) - complement).by("copysign", x))


def _turned(x: Real, quarter: int) -> Real:
    """sin(x + quarter pi / 2), for |x| up to LARGE."""
    code = x.code
    wide = x if x.double else x.as_double()
    n = (wide * (2.0 / math.pi)).by("rint")
    r = n.fma(-_HALF_PI[1], n.fma(-_HALF_PI[0], wide))
    if x.double:
        r = n.fma(-_HALF_PI[2], r)
    turns = code.binary("add", n.integer(), number("i64", quarter, x.word.width))
    r = r if x.double else r.as_float()
    z = r * r
    sine = (r * z).fma(z.polynomial(_SIN_DOUBLE if x.double else _SIN), r)
    cosine = (z * z).fma(z.polynomial(_COS_DOUBLE if x.double else _COS), z.fma(-0.5, 1.0))
    odd = code.compare("ne", code.binary("and", turns, number("i64", 1, x.word.width)), number("i64", 0, x.word.width))
    down = code.compare("ne", code.binary("and", turns, number("i64", 2, x.word.width)), number("i64", 0, x.word.width))
    made = cosine.where(odd, sine)
    return (-made).where(down, made)


LARGE: Final = 1.0e5


def sin(x: Real) -> Real:
    return x.where(x.compare("oeq", 0.0), _turned(x, 0))


def cos(x: Real) -> Real:
    return _turned(x, 1)


def pow_(x: Real, y: Real) -> Real:
    """Of float, x > 0 and both finite: by double, so that nothing is lost."""
    return exp2(log2(x.as_double()) * y.as_double()).as_float()


ONE: Final[dict[str, Callable[[Real], Real]]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "tanh": tanh, "erf": erf,
    "sin": sin, "cos": cos,
}  # fmt: skip
