"""A tree printed and read again means the same: its shape where nothing has to be written otherwise, what it computes in any case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated_kernels import VALUES, kernels, named
from hypothesis import given, settings

from laminar.kernels.arguments import arguments
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.print import print_kernel, show
from laminar.kernels.language.spell import literal_of
from laminar.kernels.language.tree import At, Constant, Kernel, Object, Type, Variable

HERE = At(1, 1)


def shape(kernel: Kernel) -> Any:
    """The tree without names and positions."""
    seen: dict[Any, int] = {}

    def plain(one: Any) -> Any:
        if isinstance(one, Variable | Object):
            number = seen.setdefault(one, len(seen))
            return (number, one.type, plain(one.shape) if isinstance(one, Object) else None)
        if isinstance(one, At):
            return None
        if isinstance(one, tuple):
            return tuple(plain(part) for part in one)
        if hasattr(one, "__dataclass_fields__"):
            return (type(one).__name__, *(plain(getattr(one, name)) for name in one.__dataclass_fields__ if name != "name"))
        return repr(one)

    return plain((kernel.parameters, kernel.body, kernel.instances, kernel.contract))


TEXTS = {
    "conditions": "if (x[i] > 0 && i < n / 2) y[i] = 1; else if (!(x[i] < -1)) y[i] = x[i] > 2 ? 3 : -4;",
    "loops": "float s = 0; for (int k = 0, j = 9; k < n; k++, j -= 2) { if (k == 3) continue; if (j < 0) break; s += x[k] * j; } y[i] = s;",
    "while": "int k = 0; while (k < 3) { k++; } do { k--; } while (k > 0); y[i] = k;",
    "arrays": "float a[2][3] = {{1, 2}, {3}}; int b[4]; b[0] = 1; a[1][b[0]] = x[i]; y[i] = a[1][1] + a[0][2];",
    "shared": "shared float t[4]; t[i % 4] = x[i]; barrier(); y[i] = t[0]; atomic_max(&y[0], 2.0f);",
    "types": "long k = i; bool c = k; double d = 1e300; int m = ~i << 2; y[i] = (float)(d * m) + c + (int)d % 7 + (k ^ 3L);",
    "functions": "y[i] = fmaf(sqrtf(fabsf(x[i])), pow(2.0, 3.0), isnan(x[i])) + abs(-i) + labs(3L) + hypotf(1, 2) + signbit(x[i]);",
    "return": "if (i > 2) { for (int k = 0; k < 3; k++) { if (k > x[i]) return; } } y[i] = 1;",
    "one name twice": "float v = x[i]; { float v = 2; y[i] = v; } for (int v = 0; v < 2; v++) { float f = v; y[i] += f; } y[i] += v;",
    "C's words": "float when = x[i]; int exp2f = 3; y[i] = when + exp2f;",
}


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_the_same_tree(body: str) -> None:
    kernel = read_kernel(f"#pragma laminar instances n * 2 + 1\nvoid kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")
    printed = print_kernel(kernel)
    assert shape(read_kernel(printed)) == shape(kernel)
    assert print_kernel(read_kernel(printed)) == printed


def test_parameters_and_settings() -> None:
    text = """#pragma laminar contract off
void kernel(int i, long n, double s, const bool c[n], out double y[n], inout int z[n][2 * n + 1]) { y[i] = y[i] + s; z[i][0] = c[i]; }"""
    kernel = read_kernel(text)
    printed = print_kernel(kernel, heading="of a test")
    assert printed.startswith(
        "/* of a test */\n#pragma laminar contract off\nvoid kernel(int i, long n, double s, const bool c[n], out double y[n]"
    )
    assert shape(read_kernel(printed)) == shape(kernel)


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 1e-45, 3.4028234663852886e38, 1 / 3, 1e10, float("inf"), float("-inf"), 123456789.0])
@pytest.mark.parametrize("type_", ["float", "double"])
def test_numbers(value: float, type_: Type) -> None:
    def read(constant: Constant) -> Constant:
        kernel = read_kernel(f"void kernel(int i, int n, {type_} y[n]) {{ y[i] = {literal_of(constant)}; }}")
        found: Constant = kernel.body[0].value  # type: ignore[union-attr,assignment]
        return found

    first = read(Constant(HERE, type_, value))
    again = read(first)
    assert (first.type, repr(first.value)) == (type_, repr(again.value))
    assert type_ == "float" or repr(first.value) == repr(value)


@pytest.mark.parametrize(
    ("type_", "value"), [("int", -(2**31)), ("int", 2**31 - 1), ("long", -(2**63)), ("long", 5), ("bool", True), ("int", -7)]
)
def test_whole_numbers(type_: Type, value: int) -> None:
    text = literal_of(Constant(HERE, type_, value))
    found = read_kernel(f"void kernel(int i, int n, {type_} y[n]) {{ {type_} v = {text}; y[i] = v; }}").body[1].value  # type: ignore[union-attr]
    assert (found.type, found.value) == (type_, value)


def test_an_expression_for_people() -> None:
    kernel = read_kernel("void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i + 1] * 2.0f; }")
    assert show(kernel.body[0].value) == "x[i + 1] * 2.0f"  # type: ignore[union-attr]


@settings(max_examples=40, deadline=None)
@given(text=kernels())
def test_generated_kernels_compute_the_same(text: str) -> None:
    kernel = read_kernel(text)
    again = read_kernel(print_kernel(kernel))
    made = np.random.default_rng(0)
    inputs = [
        made.integers(-5, 6, 4).astype("int32"),
        made.normal(size=4).astype("float32"),
        made.integers(-5, 6, 9).astype("int32"),
        made.normal(size=9).astype("float32"),
    ]
    called = arguments(kernel, named(kernel.values, VALUES) | named(kernel.arrays[: len(inputs)], inputs))
    for name, values in emulate(kernel, called.arrays, called.values, called.count).outputs.items():
        np.testing.assert_array_equal(emulate(again, called.arrays, called.values, called.count).outputs[name], values, err_msg=name)
