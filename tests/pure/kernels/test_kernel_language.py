"""Reading kernels: roles and modes of parameters, sizes, constants, settings; and what odd expressions are worth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from emulated import emulated, floats, ints

from laminar.kernels.arguments import evaluated
from laminar.kernels.language.intrinsics import CONSTANTS, INTRINSICS
from laminar.kernels.language.kernel import entries, read_kernel
from laminar.kernels.language.tree import Call, Constant, Object, expressions, statements, walk

LEAKY = """
/* leaky.c: one instance per element */
void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""


def test_parameters_have_roles_and_modes() -> None:
    kernel = read_kernel(LEAKY)
    assert [(one.name, one.role, one.mode) for one in kernel.parameters] == [
        ("i", "instance", None),
        ("n", "count", None),
        ("slope", "value", None),
        ("x", "array", "in"),
        ("y", "array", "out"),
    ]
    assert (kernel.instance.name, kernel.count.name, kernel.name, kernel.contract) == ("i", "n", "kernel", True)


@pytest.mark.parametrize(
    ("declared", "body", "mode"),
    [
        ("const float y[n]", "", "in"),
        ("float y[n]", "y[i] = 1;", "out"),
        ("float y[n]", "y[i] += 1;", "inout"),
        ("float y[n]", "if (y[i] > 0) y[i] = 1;", "inout"),
        ("float y[n]", "atomic_add(&y[0], 1);", "inout"),
        ("float y[n]", "float v = y[i];", "inout"),
        ("in float y[n]", "", "in"),
        ("in global const float y[n]", "", "in"),
        ("out float y[n]", "y[i] = y[i];", "out"),
        ("inout float y[n]", "y[i] = 1;", "inout"),
        ("float y[restrict n]", "y[i] = 1;", "out"),
    ],
)
def test_modes(declared: str, body: str, mode: str) -> None:
    assert read_kernel(f"void kernel(int i, int n, {declared}) {{ {body} }}").arrays[0].mode == mode


def test_sizes_may_be_named_after_the_array() -> None:
    kernel = read_kernel("void kernel(int i, int c, const float x[rows][2 * cols + 1], int rows, int cols) {}")
    x = kernel.arrays[0].of
    assert isinstance(x, Object)
    known = {one.of: value for one, value in zip(kernel.values, (3, 4), strict=True)}
    assert [evaluated(size, known) for size in x.shape] == [3, 9]  # type: ignore[arg-type]


def test_words_of_the_language_are_names_elsewhere() -> None:
    report = emulated(
        "void kernel(int i, int n, int y[n]) { int in = 2, out = 3, shared = 4, local = 5; y[i] = in * out + shared - local; }", 2
    )
    assert report.outputs["y"].tolist() == [5, 5]


def test_constants_and_settings() -> None:
    text = (
        "#include <math.h>\n#define TAPS (SIDE * SIDE)   /* of the window */\n#define SIDE 3\n#define HALF 0.5f\n"
        "#pragma laminar instances rows * TAPS\n#pragma laminar contract off\n"
        "void kernel(int i, int count, int rows, float y[rows][TAPS]) { float w[TAPS]; w[0] = HALF; y[i / 9][i % 9] = w[0]; }"
    )
    kernel = read_kernel(text)
    assert not kernel.contract and kernel.instances is not None
    assert emulated(text, rows=2).outputs["y"].tolist() == [[0.5] * 9] * 2


def test_a_file_may_have_several_kernels() -> None:
    text = LEAKY + LEAKY.replace("void kernel", "void kernel_backward")
    assert entries(text) == ("kernel", "kernel_backward")
    assert read_kernel(text, entry="kernel_backward").name == "kernel_backward"
    assert read_kernel(text).name == "kernel"


def test_products_that_are_added_are_one_rounding() -> None:
    text = "void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i] * x[i] - 1.0f; }"
    x = floats(1 + 2**-12)
    fused, apart = emulated(text, x=x).outputs["y"][0], emulated("#pragma laminar contract off\n" + text, x=x).outputs["y"][0]
    assert fused == np.float32(float(x[0]) ** 2 - 1) != apart == x[0] * x[0] - np.float32(1)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_by_name(name: str) -> None:
    report = emulated(f"void kernel(int i, int n, double y[1]) {{ y[0] = {name}; }}", 1)
    assert report.outputs["y"][0] == CONSTANTS[name][1] or (name == "NAN" and math.isnan(report.outputs["y"][0]))


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_function_can_be_called(name: str) -> None:
    one = INTRINSICS[name]
    call = f"{name}({', '.join(['0.5', '0.25', '2'][: len(one.arguments)])})"
    kernel = read_kernel(f"void kernel(int i, int n, double y[1]) {{ y[0] = {call}; }}")
    found = [part for node in statements(kernel.body) for whole in expressions(node) for part in walk(whole) if isinstance(part, Call)]
    assert [part.name for part in found] == [one.name] and found[0].type == one.result


EXPRESSIONS: dict[str, tuple[str, str, Any]] = {
    "wraps": ("int", "2147483647 + i + 1", -(2**31)),
    "wraps in products": ("int", "65536 * (i + 65536)", 0),
    "a long does not": ("long", "2147483647L + 1", 2**31),
    "nor a number that is too long for an int": ("long", "2147483648", 2**31),
    "int and long make long": ("long", "2147483647 + (i + 1L)", 2**31),
    "the smallest by -1": ("int", "INT_MIN / (i - 1)", -(2**31)),
    "the rest of it": ("int", "INT_MIN % (i - 1)", 0),
    "division goes towards zero": ("int", "-7 / (i + 2)", -3),
    "the rest has the sign of the left": ("int", "-7 % (i + 2)", -1),
    "and not that of the right": ("int", "7 % (i - 2)", 1),
    "the negative of the smallest": ("int", "-(INT_MIN + i)", -(2**31)),
    "abs of the smallest": ("int", "abs(INT_MIN + i)", -(2**31)),
    "a shift by more than there is": ("int", "1 << (i + 33)", 2),
    "a shift below zero": ("int", "-8 >> (i + 1)", -4),
    "out at the top": ("int", "1 << (i + 31)", -(2**31)),
    "a shift has the type of its left": ("long", "1L << (i + 40)", 2**40),
    "bits": ("int", "(12 & 10) | (1 ^ 3) | (~5 & 64)", 74),
    "a float too large": ("int", "(int)(3e9 + i)", 2**31 - 1),
    "a float too small": ("int", "(int)(-3e9 + i)", -(2**31)),
    "no number": ("int", "(int)(NAN + i)", 0),
    "infinity to long": ("long", "(long)(INFINITY + i)", 2**63 - 1),
    "fractions are cut": ("int", "(int)(-2.9 + i)", -2),
    "a long to an int": ("int", "(int)(4294967297L + i)", 1),
    "comparisons are 0 or 1": ("int", "(i < 1) + (i == 0) + (i != 0)", 2),
    "not": ("int", "!i + !!(i + 5) + !0.5", 2),
    "and, or": ("int", "(i || 2) && !(i && 1)", 1),
    "no number is true": ("int", "NAN + i ? 3 : 4", 3),
    "and is not equal to itself": ("int", "NAN + i == NAN", 0),
    "the right of && is not looked at": ("int", "i != 0 && 1 / i > 0", 0),
    "nor that of ||": ("int", "i == 0 || 1 / i > 0", 1),
    "nor the side of ?: that is not chosen": ("int", "i == 0 ? 7 : 1 / i", 7),
    "both sides of ?: have one type": ("double", "(i == 0 ? 1 : 2.5) / 2", 0.5),
    "whole numbers divide as such": ("double", "(i + 1) / 2", 0.0),
    "a bool of a half": ("int", "(bool)(0.5 + i)", 1),
    "a float of a large int": ("double", "(float)(16777217 + i)", 16777216.0),
    "a float of a large long, rounded once": ("double", "(float)(9007199791611905L + i)", 9007200328482816.0),
    "floats are rounded": ("double", "0.1f + 0.2f", float(np.float32(0.1) + np.float32(0.2))),
    "doubles are not": ("double", "0.1 + 0.2 + i", 0.1 + 0.2),
    "a float and a double make a double": ("double", "0.1f + 0.2 + i", float(np.float32(0.1)) + 0.2),
    "by zero": ("double", "1.0 / i", math.inf),
    "by zero, below": ("double", "-1.0f / i", -math.inf),
    "by minus zero": ("double", "1.0 / -(0.0 + i)", -math.inf),
    "too large for a float": ("double", "3e38f * (10.0f + i)", math.inf),
    "a small float": ("double", "1e-45f + i", float(np.float32(1e-45))),
    "a hexadecimal number": ("int", "0xff + i", 255),
    "an octal number": ("int", "010 + i", 8),
    "a hexadecimal float": ("double", "0x1.8p3 + i", 12.0),
    "a sign": ("int", "-+-5 + i", 5),
    "precedence": ("int", "1 + 2 * 3 << 1 == 14 | 16", 17),
    "round half away": ("double", "round(-2.5) + rint(-2.5)", -5.0),
    "minus zero stays": ("int", "signbit(floor(-0.0 + i)) + signbit(trunc(-0.5 + i))", 1),
    "fmin of no number": ("double", "fmin(NAN, 2.0 + i)", 2.0),
    "the root of -1": ("int", "isnan(sqrt(-1.0 + i))", 1),
    "the logarithm of 0": ("double", "log(0.0 + i)", -math.inf),
    "e to the 1000": ("double", "exp(1000.0 + i)", math.inf),
    "e to the 100, as a float": ("double", "expf(100.0f + i)", math.inf),
    "0 to the -1": ("double", "pow(0.0 + i, -1.0)", math.inf),
    "-8 to the 3": ("double", "pow(-8.0 + i, 3.0)", -512.0),
    "fmod": ("double", "fmod(-7.5 + i, 2.0)", -1.5),
    "fma once": ("double", "fma(1.0 + 0x1p-52 + i, 1.0 + 0x1p-52, -1.0)", 2**-51 + 2**-104),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str) -> None:
    """`i` is 0, and keeps the expression from being computed while it is read."""
    type_, expression, value = EXPRESSIONS[name]
    report = emulated(f"#include <math.h>\nvoid kernel(int i, int n, {type_} y[1]) {{ y[0] = {expression}; }}", 1)
    assert report.findings == ()
    assert report.outputs["y"][0] == value


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("int k = 0; while (k < 5) k += 2; y[i] = k;", 6),
        ("int k = 9; do k++; while (k < 5); y[i] = k;", 10),
        ("int s = 0; for (int k = 0; k < 5; k++) { if (k == 3) continue; s += k; } y[i] = s;", 7),
        ("int s = 0; for (int k = 0; ; k++) { if (k == 3) break; s += k; } y[i] = s;", 3),
        ("int s = 0, k = 0; do { k++; if (k == 2) continue; s += k; } while (k < 4); y[i] = s;", 8),
        ("int s = 0; for (int a = 0; a < 3; a++) for (int b = 0; b < 3; b++) { if (b > a) break; s += 1; } y[i] = s;", 6),
        ("for (int a = 0; a < 3; a++) { for (int b = 0; b < 3; b++) { if (a * b == 2) { y[i] = 10 * a + b; return; } } } y[i] = -1;", 12),
        ("int a = 1; { int a = 2; a++; } y[i] = a;", 1),
        ("int a = 1, b = 2; swap(&a, &b); y[i] = 10 * a + b;", 21),
        ("int a[2][2] = {{1, 2}, {3}}; y[i] = a[0][0] + 10 * a[0][1] + 100 * a[1][0] + 1000 * a[1][1];", 321),
        ("y[i] = first(4) + first(40);", 13),
        ("int v = 3; maybe(&v); maybe(NULL); y[i] = v;", 4),
        ("int a[] = {5, 6, 7}; y[i] = sum(a);", 18),
        ("int k = 7; k -= 2; k *= 3; k /= 2; k %= 4; k <<= 3; k |= 1; k ^= 2; k >>= 1; k--; y[i] = k;", 12),
        ("bool b = 7; y[i] = b + b;", 2),
        ("if (i > 0) ; else y[i] = 5;", 5),
        ("for (int a = 0, b = 9; a < b; a++, b--) y[i] = a;", 4),
        ("int y2 = y[i] = 3;", None),
    ],
)
def test_statements(body: str, wanted: int | None) -> None:
    functions = (
        "void swap(int *a, int *b) { int old = *a; *a = *b; *b = old; }\n"
        "int first(int k) { for (int d = 2; d < k; d++) { if (k % d == 0) { if (k > 30) return 11; return d; } } return -1; }\n"
        "void maybe(int *p) { if (p != NULL) *p += 1; }\n"
        "int sum(const int a[3]) { return a[0] + a[1] + a[2]; }\n"
    )
    text = f"{functions}void kernel(int i, int n, int y[1]) {{ {body} }}"
    if wanted is None:
        from laminar.kernels.language.rules import KernelError

        with pytest.raises(KernelError):
            read_kernel(text)
        return
    report = emulated(text, 1, **({"y": ints(0)} if "y[i] + " in body else {}))
    assert (report.outputs["y"].tolist(), report.findings) == ([wanted], ())


def test_constant_sizes_are_computed() -> None:
    kernel = read_kernel(
        "#define K 3\nvoid kernel(int i, int n, float y[n]) { const int side = 2 * K + 1; float w[side][K << 1]; w[0][0] = 1; }"
    )
    shape = next(one.shape for one in kernel.objects if one.name == "w")
    assert [one.value for one in shape if isinstance(one, Constant)] == [7, 6]


def test_a_comment_goes_on_behind_a_backslash() -> None:
    """As in C99, where lines are joined before comments are looked for."""
    lines = "y[i] = 1; // so \\\n y[i] = 2; \\\n y[i] = 3;\n y[i] = 4; // C:\\ and on\n y[i] = 5; // the end"
    kernel = read_kernel(f"void kernel(int i, int n, float y[n]) {{ {lines}\n }} // \\")
    assert [(one.at.line, one.value.value) for one in kernel.body] == [(1, 1), (4, 4), (5, 5)]  # type: ignore[union-attr]
    defined = read_kernel("#define A 1 // one, \\\n#define A 2\nvoid kernel(int i, int n, float y[n]) { y[i] = A; }")
    assert defined.body[0].value.value == 1  # type: ignore[union-attr]
