"""Functions that kernels may call, as <math.h> has them: `exp` is of double, `expf` of float.

Every way of running a kernel has each of them: emulate/arithmetic.py for one value, compile/functions.py for lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laminar.kernels.language.tree import Type

_ONE: Final = [
    "sqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "atan",
    "erf",
    "fabs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
]
_TWO: Final = ["pow", "fmin", "fmax", "fmod", "copysign", "atan2", "hypot"]
_TEST: Final = ["isnan", "isinf", "isfinite", "signbit"]

CONSTANTS: Final[dict[str, tuple[Type, float | int]]] = {
    "INFINITY": ("float", float("inf")),
    "NAN": ("float", float("nan")),
    "M_PI": ("double", 3.141592653589793),
    "M_E": ("double", 2.718281828459045),
    "M_SQRT2": ("double", 1.4142135623730951),
    "M_SQRT1_2": ("double", 0.7071067811865476),
    "M_2_SQRTPI": ("double", 1.1283791670955126),
    "M_LN2": ("double", 0.6931471805599453),
    "FLT_MAX": ("float", 3.4028234663852886e38),
    "FLT_MIN": ("float", 1.1754943508222875e-38),
    "FLT_EPSILON": ("float", 1.1920928955078125e-07),
    "DBL_MAX": ("double", 1.7976931348623157e308),
    "DBL_MIN": ("double", 2.2250738585072014e-308),
    "DBL_EPSILON": ("double", 2.220446049250313e-16),
    "INT_MAX": ("int", 2**31 - 1),
    "INT_MIN": ("int", -(2**31)),
    "LONG_MAX": ("long", 2**63 - 1),
    "LONG_MIN": ("long", -(2**63)),
    "true": ("bool", 1),
    "false": ("bool", 0),
}


@dataclass(frozen=True)
class Intrinsic:
    name: str  # without an f for float
    arguments: tuple[Type, ...]
    result: Type


def _table() -> dict[str, Intrinsic]:
    table: dict[str, Intrinsic] = {}
    kinds: tuple[tuple[str, Type], ...] = (("", "double"), ("f", "float"))
    for letter, type_ in kinds:
        for name in _ONE:
            table[name + letter] = Intrinsic(name, (type_,), type_)
        for name in _TWO:
            table[name + letter] = Intrinsic(name, (type_, type_), type_)
        table["fma" + letter] = Intrinsic("fma", (type_, type_, type_), type_)
    table["abs"] = Intrinsic("abs", ("int",), "int")
    table["labs"] = Intrinsic("abs", ("long",), "long")
    return table


INTRINSICS: Final[dict[str, Intrinsic]] = _table()
TESTS: Final = frozenset(_TEST)  # of float or double, whichever it is: bool
ATOMICS: Final = {"atomic_add": "add", "atomic_min": "min", "atomic_max": "max"}
ALLOCATE: Final = frozenset({"malloc", "calloc", "realloc", "free", "alloca"})
OUTSIDE: Final[dict[str, str]] = {
    **dict.fromkeys(("printf", "fprintf", "puts", "putchar"), "leave it out; what is to be seen goes to an array that is an output"),
    **dict.fromkeys(("rand", "random", "drand48"), "random numbers as an input: `const float noise[n]`"),
    **dict.fromkeys(("memcpy", "memmove"), "a loop: `for (int k = 0; k < n; k++) to[k] = from[k];`"),
    "memset": "a loop: `for (int k = 0; k < n; k++) to[k] = 0;`; outputs start as zeros",
    **dict.fromkeys(("exit", "abort"), "`return;`"),
    "assert": "leave it out; `laminar kernel run` looks at bounds, values and divisors",
    **dict.fromkeys(("time", "clock", "scanf", "getchar"), "a parameter of the kernel"),
}
"""Functions of C that do something else than give a value of their arguments, and what to write instead."""
ELSEWHERE: Final[dict[str, str]] = {
    **dict.fromkeys(("get_global_id", "get_local_id", "get_group_id", "threadIdx", "blockIdx"), "the first parameter of the kernel"),
    **dict.fromkeys(("get_global_size", "get_local_size", "get_num_groups", "blockDim", "gridDim"), "the second parameter of the kernel"),
    **dict.fromkeys(("__syncthreads", "work_group_barrier"), "`barrier()`"),
}
"""Words of CUDA and OpenCL, and what kernels have for them."""
