"""Native code with counters: the emulator's counts, and its findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated_kernels import SIZE, TYPES, kernels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laminar.kernels.arguments import DTYPES, arguments
from laminar.kernels.compile.instrumented import instrumented
from laminar.kernels.emulate.report import Report
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def same(source: str, count: int | None = None, **given: Any) -> Report:
    kernel = read_kernel(source)
    called = arguments(kernel, given, count)
    wanted = emulate(kernel, called.arrays, called.values, called.count)
    got = instrumented(kernel, called.arrays, called.values, called.count)
    assert got.counts == wanted.counts
    assert got.lines == wanted.lines
    assert got.objects == wanted.objects
    assert got.findings == wanted.findings
    for name, array in wanted.outputs.items():
        assert np.array_equal(got.outputs[name], array, equal_nan=array.dtype.kind == "f")
    return got


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_counts_of_blocks_in_registers() -> None:
    source = """void kernel(int i, int count, int n, int m, int depth, const float a[n][depth], const float b[depth][m], float c[n][m]) {
        int row = i / m;
        int col = i % m;
        float sum = 0.0f;
        for (int k = 0; k < depth; k++)
            if (k > 0 && col > k && b[k][col] > 0.0f) sum += a[row][k] * b[k][col];
        c[row][col] += sum;
    }"""
    found = same(source, 9 * 70, a=numbers(9, 4), b=numbers(4, 70), c=np.ones((9, 70), "float32"))
    assert found.counts["global"].writes == 9 * 70


def test_races_are_found_where_they_are_not_excluded() -> None:
    found = same("void kernel(int i, int n, float y[n]) { if (i > 0) y[i] = y[i] + y[i - 1]; }", y=numbers(30))
    assert [one.kind for one in found.findings] == ["race"]


def test_a_scatter_without_a_race() -> None:
    source = "void kernel(int i, int n, const int at[n], const float x[n], float y[n]) { y[at[i]] = x[i] + y[at[i]]; }"
    found = same(source, at=np.random.default_rng(0).permutation(40).astype("int32"), x=numbers(40), y=numbers(40))
    assert not found.findings


def test_division_by_zero_and_bounds() -> None:
    zero = same("void kernel(int i, int n, const int a[n], int y[n]) { y[i] = 7 / a[i]; }", a=np.arange(20, dtype="int32"))
    assert [one.kind for one in zero.findings] == ["division-by-zero"]
    beyond = same("void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i + 1]; }", x=numbers(20))
    assert [one.kind for one in beyond.findings] == ["out-of-bounds"]


def test_barriers_are_the_emulators() -> None:
    source = """void kernel(int i, int n, const float x[n], float y[n]) {
        shared float t[8];
        t[i] = x[i];
        barrier();
        y[i] = t[n - 1 - i];
    }"""
    assert not same(source, x=numbers(8)).findings


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.one_of(kernels(), kernels(digits=True)))
def test_generated_programs_are_counted_alike(text: str) -> None:
    count, rng = 21, np.random.default_rng(1)
    arrays = {"xi": rng.integers(-5, 20, count).astype("int32"), "xf": rng.standard_normal(count).astype("float32")}
    arrays |= {"ti": rng.integers(-5, 20, SIZE).astype("int32"), "tf": rng.standard_normal(SIZE).astype("float32")}
    arrays |= {f"y_{type_}": np.zeros(count, DTYPES[type_]) for type_ in TYPES}
    kernel = read_kernel(text)
    wanted, got = emulate(kernel, arrays, {"s": 0.75}, count), instrumented(kernel, arrays, {"s": 0.75}, count)
    assert got.counts == wanted.counts, text
    assert got.lines == wanted.lines, text
