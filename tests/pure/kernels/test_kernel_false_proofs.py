"""Kernels of which something was once believed that is not so: reads and writes outside of arrays, elements that nobody wrote."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.arguments import arguments
from laminar.kernels.compile import statements
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

OUTSIDE = {
    "a break tells nothing of who comes behind the loop": (
        "int k, int m, const float x[n], out float y[n]",
        "for (int j = 0; j < m; j++) { if (k > 3) break; y[i] = x[i]; } y[k] = 7.0f;",
        [{"k": 16, "m": 3}, {"k": 1_000_000_000, "m": 3}],
    ),
    "nor does the loop's condition": (
        "int k, int m, const float x[n], out float y[n]",
        "for (int j = 0; j < m && k < 4; j++) y[i] = x[i]; y[k] = 7.0f;",
        [{"k": 16, "m": 3}],
    ),
    "nor one that varies": (
        "int taps, const float x[n], out float y[n]",
        "float s = 0; for (int t = 0; t < taps && i < 8; t++) s += x[i] * t; y[i + 1] = s;",
        [{"taps": 2}],
    ),
    "a read": (
        "int k, int m, const float x[n], out float y[n]",
        "float s = 0; for (int j = 0; j < m; j++) { if (k > 3) break; s += 1; } y[i] = x[k] + s;",
        [{"k": 1000, "m": 3}],
    ),
    "`continue` goes to the update, too": (
        "int k, out float y[n]",
        "for (int j = 0; j < 3; y[k] = 1.0f) { j++; if (k > 3) continue; y[i] = 1.0f; }",
        [{"k": 100}],
    ),
    "a return from a function comes behind it, too": (
        "int k, out float y[n]",
        "float v = chosen(k, 2.0f); y[k] = v;",
        [{"k": 100}],
    ),
    "a sum of ints wraps around, that of longs does not": (
        "int a, int b, out float y[n]",
        "if (a + b < n) y[(long)a + b] = 1.0f;",
        [{"a": 2**31 - 1, "b": 2**31 - 1}],
    ),
}
CHOSEN = "float chosen(int k, float v) { if (k > 3) return v; return v + 1.0f; }\n"


def kernel_of(parameters: str, body: str) -> str:
    return f"{CHOSEN if 'chosen' in body else ''}void kernel(int i, int n, {parameters}) {{ {body} }}\n"


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("name", OUTSIDE)
def test_an_access_outside_is_found(name: str, lanes: bool) -> None:
    parameters, body, calls = OUTSIDE[name]
    kernel = read_kernel(kernel_of(parameters, body))
    native = compiled(kernel, Options(lanes=lanes, cached=False))
    for values in calls:
        arrays = [np.zeros(16, np.float32) for _ in kernel.arrays]
        with pytest.raises(LaminarError) as error:
            native.run(arrays, [values[one.name] for one in kernel.values], 16)
        assert error.value.code == "L703"
        report = emulate(kernel, {one.name: array for one, array in zip(kernel.arrays, arrays, strict=True)}, values, 16)
        outside = {one.at for one in report.findings if one.kind == "out-of-bounds"}
        assert outside and outside.isdisjoint(one.at for one in verdicts(kernel) if one.kind == "bounds" and one.verdict == "proved")


def test_a_store_in_a_loop_without_rounds_writes_nothing() -> None:
    text = kernel_of("int c, const float x[n], out float y[n]", "if (c > 0) y[i] = x[i]; else { for (int k = 0; k < c; k++) y[i] = 2.0f; }")
    kernel = read_kernel(text)
    assert [one.verdict for one in verdicts(kernel) if one.kind == "written"] == ["run-time"]


COUNTED_BY_A_LONG = "for (int k = 2147483640; k < m; k++) { if (k < n) y[k] = 5.0f; if (k == -2147483640) break; }"


def test_an_int_may_never_reach_a_long() -> None:
    kernel = read_kernel(kernel_of("long m, out float y[n]", COUNTED_BY_A_LONG))
    assert {one.verdict for one in verdicts(kernel) if one.kind in ("bounds", "end")} == {"run-time"}
    report = emulate(kernel, {}, {"m": 3_000_000_000}, 4)
    assert [one.kind for one in report.findings if one.kind != "race"] == ["out-of-bounds"]


def test_an_int_that_never_reaches_a_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "MOST_ROUNDS", 10_000)
    body = "float s = 0; for (int k = 2147483000; k < m; k++) s += x[i]; y[i] = s;"
    kernel = read_kernel(kernel_of("long m, const float x[n], out float y[n]", body))
    arrays = [np.zeros(16, np.float32), np.zeros(16, np.float32)]
    native = compiled(kernel, Options(cached=False))
    native.run(arrays, [2**31 - 1], 16)
    with pytest.raises(LaminarError) as error:
        native.run(arrays, [3_000_000_000], 16)
    assert error.value.code == "L704"


def test_an_int_beside_an_int_made_wide_ends() -> None:
    kernel = read_kernel(kernel_of("out float y[n]", "for (int k = 0; (long)k < (long)n; k++) y[k] = 1.0f;"))
    assert [one.verdict for one in verdicts(kernel) if one.kind == "end"] == ["proved"]


def test_sizes_are_not_wrapped_around() -> None:
    """65,537 x 65,537 elements are not 131,073, which an int would make of it."""
    kernel = read_kernel(kernel_of("int a, int b, const float x[a * b], int k, out float y[n]", "y[i] = x[k];"))
    values = {"a": 65_537, "b": 65_537, "k": 2_000_000_000}
    with pytest.raises(LaminarError, match=r"131073.*4295098369") as error:
        arguments(kernel, {"x": np.zeros(131_073, np.float32), **values}, 16)
    assert error.value.code == "L702"
    with pytest.raises(LaminarError) as error:
        native = compiled(kernel, Options(cached=False))
        native.run([np.zeros(131_073, np.float32), np.zeros(16, np.float32)], [*values.values()], 16)
    assert error.value.code == "L702"
