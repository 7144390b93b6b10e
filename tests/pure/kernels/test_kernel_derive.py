"""Adjoints against finite differences, in double: element-wise functions, reductions, stencils, convolutions, pooling, conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import derived

made = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return made.normal(size=shape)


HEAD = "void kernel(int i, int n, "
ROW = HEAD + "int m, const double x[n][m], double y[n]) { "
FUNCTIONS = "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh atan erf fabs floor round".split()  # noqa: SIM905
PAIRS = "pow fmin fmax fmod copysign atan2 hypot".split()  # noqa: SIM905


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    check(HEAD + f"const double x[n], double y[n]) {{ y[i] = 2 * {name}(x[i] * 0.5); }}", {"x": made.uniform(0.2, 1.4, 5)}, 5)


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two(name: str) -> None:
    source = HEAD + f"const double x[n], const double z[n], double y[n]) {{ y[i] = {name}(x[i], z[i]) * x[i]; }}"
    check(source, {"x": made.uniform(0.2, 3, 6), "z": made.uniform(-2, 2, 6) if name == "copysign" else made.uniform(0.4, 2, 6)}, 6)


CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "leaky": (
        HEAD + "double slope, const double x[n], double y[n]) { double v = x[i]; if (v < 0) v = slope * v; y[i] = v; }",
        {"x": normal(9), "slope": 0.1},
        9,
    ),
    "gelu": (HEAD + "const double x[n], double y[n]) { y[i] = 0.5 * x[i] * (1 + erf(x[i] * M_SQRT1_2)); }", {"x": normal(6)}, 6),
    "a side that is not taken": (
        HEAD + "const double x[n], double y[n]) { y[i] = x[i] > 0 ? sqrt(x[i]) : (x[i] < -1 ? 1 / x[i] : x[i] * x[i]); }",
        {"x": normal(12)},
        12,
    ),
    "quotients": (
        HEAD + "const double x[n], const double z[n], double y[n]) { double q = x[i] / z[i]; y[i] = (q - x[i]) / (q * q + 1) - -q; }",
        {"x": normal(5), "z": made.uniform(1, 2, 5)},
        5,
    ),
    "float in between": (
        HEAD + "const double x[n], double y[n]) { double v = x[i]; int k = (int)floor(v); y[i] = (v - k) * (double)k; }",
        {"x": made.uniform(0.2, 0.8, 4) + np.arange(4)},
        4,
    ),
    "sum": (ROW + "double s = 0; for (int k = 0; k < m; k++) s += x[i][k]; y[i] = s * s; }", {"x": normal(3, 4)}, 3),
    "mean and variance": (
        HEAD
        + """int m, const double x[n][m], double y[n][m]) {
        double s = 0, q = 0;
        for (int k = 0; k < m; k++) s += x[i][k];
        double mean = s / m;
        for (int k = 0; k < m; k++) { double d = x[i][k] - mean; q += d * d; }
        for (int k = 0; k < m; k++) y[i][k] = (x[i][k] - mean) / sqrt(q / m + 1e-5); }""",
        {"x": normal(2, 5)},
        2,
    ),
    "dot": (
        HEAD
        + """int m, const double a[n][m], const double b[m], double y[n]) {
        double s = 0; for (int k = 0; k < m; k++) s += a[i][k] * b[k]; y[i] = s; }""",
        {"a": normal(3, 4), "b": normal(4)},
        3,
    ),
    "softmax": (
        HEAD
        + """int m, const double x[n][m], double y[n][m]) {
        double top = x[i][0], s = 0;
        for (int k = 1; k < m; k++) if (x[i][k] > top) top = x[i][k];
        for (int k = 0; k < m; k++) s += exp(x[i][k] - top);
        for (int k = 0; k < m; k++) y[i][k] = exp(x[i][k] - top) / s; }""",
        {"x": normal(3, 5)},
        3,
    ),
    "largest and least": (
        ROW
        + """double h = -INFINITY, l = x[i][0];
        for (int k = 0; k < m; k++) h = fmax(h, x[i][k]);
        for (int k = 1; k < m; k++) l = x[i][k] < l ? x[i][k] : l;
        y[i] = h * l; }""",
        {"x": normal(3, 5)},
        3,
    ),
    "the last of equal ones": (
        ROW
        + """double top = -9; int at = 0;
        for (int k = 0; k < m; k++) { double v = sin(x[i][k]); if (v >= top) { top = v; at = k; } }
        y[i] = top * x[i][at]; }""",
        {"x": normal(3, 6)},
        3,
    ),
    "where the largest is, used on the way": (
        ROW
        + """double top = -9, s = 0; int at = 0;
        for (int a = 0; a < 2; a++) {
            for (int k = 0; k < m; k++) if (x[i][k] * (a + 1) > top) { top = x[i][k] * (a + 1); at = k; }
            s += x[i][at] * x[i][at] * (a + 2); }
        y[i] = top * s; }""",
        {"x": normal(3, 4)},
        3,
    ),
    "largest of largest": (
        ROW
        + """double s = 0;
        for (int a = 0; a < 3; a++) { double top = -9;
            for (int k = 0; k < m; k++) { double v = sin(x[i][k] + a); if (v > top) top = v; }
            s += top * top; }
        y[i] = s; }""",
        {"x": normal(3, 4)},
        3,
    ),
    "an input that does not matter": (
        HEAD + "const double x[n], const double z[n], double y[n]) { double v = x[i]; v = 0; y[i] = z[i] * z[i] + v; }",
        {"x": normal(3), "z": normal(3)},
        3,
    ),
    "rows, numbered through": (
        HEAD
        + "int m, const double x[n * m], double y[n]) { double s = 0; for (int k = 0; k < m; k++) s += x[i * m + k] * k; y[i] = s * s; }",
        {"x": normal(6), "m": 2},
        3,
    ),
    "stencil": (HEAD + "const double x[n + 2], double y[n]) { y[i] = x[i] * x[i + 1] + 0.5 * x[i + 2]; }", {"x": normal(8)}, 6),
    "matmul": (
        HEAD
        + """int m, int l, int p, const double a[m][l], const double b[l][p], double c[m][p]) {
        int r = i / p, s = i % p; double sum = 0; for (int k = 0; k < l; k++) sum += a[r][k] * b[k][s]; c[r][s] = sum; }""",
        {"a": normal(2, 3), "b": normal(3, 4)},
        8,
    ),
    "convolution": (
        HEAD
        + """int ins, int outs, int h, int w, const double x[ins][h][w], const double k[outs][ins][3][3], double y[outs][h][w]) {
        int c = i % w, r = i / w % h, o = i / (w * h); double sum = 0;
        for (int s = 0; s < ins; s++) for (int a = 0; a < 3; a++) for (int b = 0; b < 3; b++) {
            int yy = r + a - 1, xx = c + b - 1;
            if (yy < 0 || yy >= h || xx < 0 || xx >= w) continue;
            sum += x[s][yy][xx] * k[o][s][a][b]; }
        y[o][r][c] = sum; }""",
        {"x": normal(2, 3, 3), "k": normal(2, 2, 3, 3)},
        18,
    ),
    "max pooling": (
        HEAD
        + """int w, const double x[2 * n][w], double y[n][w / 2]) {
        for (int c = 0; c < w / 2; c++) { double m = -INFINITY;
            for (int a = 0; a < 2; a++) for (int b = 0; b < 2; b++) { double v = x[2 * i + a][2 * c + b]; if (v > m) m = v; }
            y[i][c] = m; } }""",
        {"x": normal(4, 6)},
        2,
    ),
    "product of unknown length": (ROW + "double p = 1; for (int k = 0; k < m; k++) p *= x[i][k]; y[i] = p; }", {"x": normal(2, 4)}, 2),
    "product with a zero": (
        ROW + "double p = 1; for (int k = 0; k < m; k++) p *= x[i][k]; y[i] = p; }",
        {"x": normal(2, 3) * [1, 0, 1]},
        2,
    ),
    "recurrence": (
        HEAD + "const double x[n][6], double y[n]) { double h = 0; for (int k = 0; k < 6; k++) h = tanh(h * 0.5 + x[i][k]); y[i] = h; }",
        {"x": normal(2, 6)},
        2,
    ),
    "recurrence within a recurrence": (
        ROW
        + """double h = 1;
        for (int a = 0; a < 3; a++) { double t = h; for (int k = 0; k < m; k++) t = t * 0.9 + sin(t * x[i][k]); h = h * t + a; }
        y[i] = h * h; }""",
        {"x": normal(2, 3)},
        2,
    ),
    "steps of three, downwards": (
        HEAD + "const double x[n][9], double y[n]) { double h = 0.3; for (int k = 8; k > 0; k -= 3) h = h * x[i][k] + sin(h); y[i] = h; }",
        {"x": normal(2, 9)},
        2,
    ),
    "steps of two, with conditions": (
        ROW
        + """double h = 0.3;
        for (int k = 1; k <= m - 1; k += 2) { double t = h * x[i][k]; if (t > 0.01) h = t * t + h; else h = t - x[i][k - 1]; }
        y[i] = h; }""",
        {"x": normal(3, 7)},
        3,
    ),
    "no iteration": (
        HEAD + "int m, const double x[n], double y[n]) { double h = x[i]; for (int k = 0; k < m; k++) h = h * h; y[i] = 3 * h; }",
        {"x": normal(3), "m": 0},
        3,
    ),
    "a while that counts": (
        HEAD
        + "const double x[n], double y[n]) { int k = 0; double h = x[i]; while (k < 4) { h = h * h * 0.5 + x[i]; k++; } y[i] = h + k; }",
        {"x": normal(3)},
        3,
    ),
    "local array, written once": (
        HEAD
        + """const double x[n][4], double y[n]) { double a[4];
        for (int k = 0; k < 4; k++) a[k] = x[i][k] * x[i][k]; y[i] = a[0] * a[1] + a[2] * a[3]; }""",
        {"x": normal(2, 4)},
        2,
    ),
    "local array, written again": (
        HEAD
        + """const double x[n][4], double y[n][4]) { double a[4];
        for (int k = 0; k < 4; k++) a[k] = x[i][k];
        for (int p = 0; p < 3; p++) for (int k = 0; k < 3; k++)
            if (a[k] > a[k + 1]) { double t = a[k]; a[k] = a[k + 1]; a[k + 1] = t; }
        for (int k = 0; k < 4; k++) y[i][k] = a[k] * a[k] * (k + 1); }""",
        {"x": normal(2, 4)},
        2,
    ),
    "local sums": (
        HEAD
        + """const double x[n][6], const int b[n][6], double y[n]) { double h[3] = {0, 0, 0};
        for (int k = 0; k < 6; k++) h[b[i][k]] += x[i][k] * x[i][k]; y[i] = h[0] * h[1] + sin(h[2]); }""",
        {"x": normal(2, 6), "b": made.integers(0, 3, (2, 6)).astype("int32")},
        2,
    ),
    "functions with returns": (
        """double f(double a, double b) { if (a > b) return a * b; return a + b * b; }
        void g(const double *a, double *b) { *b = *a * *b; }
        void kernel(int i, int n, const double x[n], double y[n]) { double t = f(x[i], 0.2), q = x[i]; g(&t, &q); y[i] = f(q, t); }""",
        {"x": normal(6)},
        6,
    ),
    "in place": (
        HEAD + "double s, double a[n]) { a[i] = a[i] * a[i] * s; a[i] = sin(a[i]) + a[i]; }",
        {"a": normal(4), "s": 1.3},
        4,
    ),
    "written twice": (
        HEAD + "const double x[n], double y[n]) { y[i] = x[i] * x[i]; if (x[i] > 0) y[i] = 3 * x[i]; }",
        {"x": normal(6)},
        6,
    ),
    "two outputs": (
        HEAD + "const double x[n], double y[n], double z[2 * n]) { y[i] = x[i] * x[i]; z[2 * i] = sin(x[i]); z[2 * i + 1] = x[i] * 4; }",
        {"x": normal(4)},
        4,
    ),
    "added by all": (
        HEAD + "const double x[n], const int b[n], double y[3]) { atomic_add(&y[b[i]], x[i] * x[i]); }",
        {"x": normal(6), "b": made.integers(0, 3, 6).astype("int32"), "y": normal(3)},
        6,
    ),
    "a table, in between": (
        HEAD
        + """int m, const double t[m], const double x[n], double y[n]) {
        int k = (int)x[i]; double w = x[i] - k; y[i] = t[k] * (1 - w) + t[k + 1] * w; }""",
        {"t": normal(6), "x": made.uniform(0, 4.9, 5)},
        5,
    ),
    "a value that changes": (
        HEAD + "double s, const double x[n], double y[n]) { for (int k = 0; k < 3; k++) s = s * x[i] + 1; y[i] = s; }",
        {"x": normal(3), "s": 0.7},
        3,
    ),
    "elements of others, with longs": (
        """void kernel(long i, long n, const double x[n], double y[n]) {
        double s = 0; for (long k = 0; k <= i; k++) s += x[k] * x[i]; y[i] = s; }""",
        {"x": normal(4)},
        4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    check(*CASES[name])


def check(source: str, given: dict[str, Any], instances: int) -> None:
    found, wanted = derived(source, given, instances)
    assert found
    for name, gradient in found.items():
        scale = max(1.0, float(np.abs(wanted[name]).max()))
        np.testing.assert_allclose(gradient, wanted[name], rtol=0, atol=2e-7 * scale, err_msg=name)
