"""The emulator: results, counts by memory, object and line, strides, orders, limits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from emulated import emulated, floats, found, ints

from laminar.core.errors import LaminarError
from laminar.kernels.emulate import arithmetic
from laminar.kernels.emulate.strides import NEAR

LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""
MATMUL = """#pragma laminar instances n * n
void kernel(int i, int c, int n, const float a[n][n], const float b[n][n], float y[n][n]) {
    int row = i / n, column = i % n;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row][k] * b[k][column];
    y[row][column] = sum;
}
"""
SUM = """void kernel(int i, int n, const int x[n], int y[1]) {
    shared int t[64];
    t[i] = x[i];
    barrier();
    for (int s = 32; s > 0; s /= 2) {
        if (i < s)
            t[i] += t[i + s];
        barrier();
    }
    if (i == 0) y[0] = t[0];
}
"""


def test_results_are_those_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal(100).astype("float32")
    report = emulated(LEAKY, x=x, slope=0.1)
    assert report.findings == ()
    assert (report.outputs["y"] == np.where(x < 0, np.float32(0.1) * x, x)).all()
    assert report.outputs["y"].dtype == np.float32


def test_a_product_of_matrices() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 7, 7)).astype("float32")
    report = emulated(MATMUL, a=a, b=b)
    wanted = np.zeros((7, 7), "float64")
    for k in range(7):  # one rounding for each product that is added
        wanted = (a[:, k, None].astype("float64") * b[None, k] + wanted).astype("float32").astype("float64")
    assert np.abs(report.outputs["y"] - wanted).max() <= 1e-6
    assert report.counts["global"].to_json() == {"reads": 2 * 343, "writes": 49, "bytes": 4 * (2 * 343 + 49)}
    assert {one.name: counts.reads for one, counts in report.objects.items()} == {"a": 343, "b": 343, "y": 0}


def test_arrays_that_are_given_stay_as_they_are() -> None:
    y = ints(1, 2)
    assert emulated("void kernel(int i, int n, inout int y[n]) { y[i] += 1; }", y=y).outputs["y"].tolist() == [2, 3]
    assert y.tolist() == [1, 2]


def test_counts_by_memory_and_line() -> None:
    report = emulated(SUM, x=np.arange(64, dtype="int32"))
    assert report.outputs["y"].tolist() == [2016]
    counts = {memory: (one.reads, one.writes, one.bytes) for memory, one in report.counts.items() if memory != "register"}
    assert counts == {"global": (64, 1, 260), "shared": (127, 127, 1016), "local": (0, 0, 0)}
    lines = report.lines
    assert lines[7]["shared"].to_json() == {"reads": 126, "writes": 63, "bytes": 756}
    assert (lines[3]["global"].reads, lines[3]["shared"].writes, lines[10]["global"].writes) == (64, 64, 1)
    assert set(lines) == {3, 5, 6, 7, 10}


def test_local_arrays_and_variables() -> None:
    report = emulated("void kernel(int i, int n, int y[n]) {\n int t[4] = {1, 2, 3, 4};\n int k = i;\n y[i] = t[k];\n}", 4)
    assert (report.counts["local"].reads, report.counts["local"].writes, report.counts["local"].bytes) == (4, 16, 80)
    register = {line: (row["register"].reads, row["register"].writes) for line, row in report.lines.items()}
    assert register == {2: (0, 0), 3: (4, 4), 4: (8, 0)}


def test_accesses_that_are_not_done_do_not_count() -> None:
    report = emulated("void kernel(int i, int n, const int x[n], int y[n]) { y[i] = x[i + 1]; }", x=ints(1, 2, 3, 4))
    assert (report.counts["global"].reads, report.counts["global"].writes) == (3, 4)
    assert found(report) == [("out-of-bounds", 1)]


def test_what_is_not_looked_at_does_not_count() -> None:
    body = "y[i] = i > 1 && x[i] > 0 ? x[i] : 0;"
    report = emulated(f"void kernel(int i, int n, const int x[n], int y[n]) {{ {body} }}", x=ints(1, 1, 0, 1))
    assert report.counts["global"].reads == 2 + 1


def test_jumps_are_counted_as_they_happen() -> None:
    text = """void kernel(int i, int n, const int x[n], int y[n]) {
    for (int k = 0; k < n; k++) {
        if (x[k] == 0) continue;
        if (x[k] > i) break;
        y[i] = x[k];
    }
}"""
    report = emulated(text, x=ints(1, 0, 2, 3))
    reads = {line: row["global"].reads for line, row in report.lines.items()}
    writes = {line: row["global"].writes for line, row in report.lines.items()}
    # instance 0 meets x[0] > 0 at once; 1 goes on to x[2]; 2 to x[3]; 3 to the end
    assert reads == {2: 0, 3: 1 + 3 + 4 + 4, 4: 1 + 2 + 3 + 3, 5: 0 + 1 + 2 + 3}
    assert writes[5] == 0 + 1 + 2 + 3


def test_an_index_of_a_sum_is_looked_at_once() -> None:
    report = emulated("void kernel(int i, int n, const int x[n], inout int y[n]) { y[x[i]] += 5; }", x=ints(1, 0), y=ints(0, 0))
    assert report.outputs["y"].tolist() == [5, 5]
    assert (report.counts["global"].reads, report.counts["global"].writes) == (4, 2)


def test_an_atomic_is_a_read_and_a_write() -> None:
    report = emulated("void kernel(int i, int n, inout float y[1]) { atomic_add(&y[0], 1); }", 5, y=floats(0))
    assert report.outputs["y"].tolist() == [5]
    assert report.counts["global"].to_json() == {"reads": 5, "writes": 5, "bytes": 40}


STRIDES = """void kernel(int i, int n, const int k[n], const float x[4 * n], const float c[n][8], float y[n]) {
    float v = x[i] + x[0] + x[4 * i] + x[k[i]];
    for (int j = 0; j < 8; j++) v += c[i][j];
    y[n - 1 - i] = v;
}
"""


@pytest.mark.parametrize("seed", [None, 3])
def test_strides(seed: int | None) -> None:
    n = 40
    k = np.random.default_rng(0).permutation(n).astype("int32")
    report = emulated(STRIDES, seed=seed, k=k, x=np.zeros(4 * n, "float32"), c=np.zeros((n, 8), "float32"))
    strides = [(one.object.name, one.stride.pattern, one.stride.stride) for one in report.accesses if one.stride]
    assert strides == [
        ("x", "contiguous", 1),
        ("x", "broadcast", 0),
        ("x", "strided", 4),
        ("k", "contiguous", 1),
        ("x", "gather", None),
        ("c", "strided", 8),
        ("y", "strided", -1),
    ]
    loop = next(one.stride for one in report.accesses if one.object.name == "c" and one.stride)
    assert loop.other == 8 * (n - 1)


def test_strides_compare_the_same_round_of_a_loop() -> None:
    """The number of rounds grows with the instance: round k is compared with round k."""
    report = emulated(
        "void kernel(int i, int n, const int x[n], int y[n]) { int s = 0; for (int k = 0; k <= i; k++) s += x[k]; y[i] = s; }",
        x=ints(*range(30)),
    )
    stride = next(one.stride for one in report.accesses if one.object.name == "x")
    assert stride and (stride.pattern, stride.contiguous, stride.other) == ("broadcast", 0, 0)


def test_strides_of_one_instance_and_of_many_in_any_order() -> None:
    text = "void kernel(int i, int n, int y[n]) { y[i] = 1; }"
    alone = emulated(text, 1).accesses[0].stride
    many = emulated(text, NEAR + 50, seed=1).accesses[0].stride
    assert alone and alone.pattern == "alone"
    assert many and many.contiguous == NEAR - 1


def test_the_order_does_not_matter() -> None:
    x = np.arange(64, dtype="int32")
    reports = [emulated(SUM, x=x, seed=seed) for seed in (None, 0, 1, 2)]
    for other in reports[1:]:
        assert other.outputs["y"].tolist() == reports[0].outputs["y"].tolist()
        assert other.counts == reports[0].counts and other.lines == reports[0].lines and other.findings == ()


def test_the_same_seed_is_the_same_order() -> None:
    text = "void kernel(int i, int n, int y[1]) { y[0] = i; }"
    results = [int(emulated(text, 50, seed=seed).outputs["y"][0]) for seed in (None, 1, 1, 2, 3)]
    assert results[0] == 49 and results[1] == results[2] and len(set(results)) > 2


@pytest.mark.parametrize("barrier", ["", "barrier();"])
def test_a_kernel_that_does_not_end(barrier: str) -> None:
    with pytest.raises(LaminarError) as caught:
        emulated(f"void kernel(int i, int n, int y[n]) {{\n    int k = 1;\n    while (k > 0) {{ {barrier} k = 1; }}\n}}", 1, steps=1000)
    assert caught.value.code == "L704"
    assert caught.value.message.startswith("t.c:3:5: the loop went on for more than 1,000 steps\n")
    assert "--steps 10000" in caught.value.hint


def test_steps_are_of_one_instance() -> None:
    text = "void kernel(int i, int n, int y[n]) { for (int k = 0; k < 100; k++) y[i] = k; }"
    assert emulated(text, 50, steps=100).outputs["y"].tolist() == [99] * 50


def test_values_belong_to_an_instance() -> None:
    report = emulated("void kernel(int i, int n, int k, int y[n]) { k += i; y[i] = k; }", 3, k=5)
    assert report.outputs["y"].tolist() == [5, 6, 7]


@pytest.mark.parametrize("kind", ["if", "else if", "for", "call", "choice", "sum"])
def test_deep_kernels(kind: str) -> None:
    """Python would not take loops within loops and conditions within conditions as deep as these."""
    head, functions = "void kernel(int i, int n, int y[n]) {", ""
    if kind == "if":
        body = "if (i >= 0) {" * 80 + "y[i] = 7;" + "}" * 80
    elif kind == "else if":
        body = "if (i == 9) y[i] = 0;" + "".join(f"else if (i == {k - 98}) y[i] = 7;" for k in range(100))
    elif kind == "for":
        names = [f"k{number}" for number in range(24)]
        body = "int s = 0;" + "".join(f"for (int {one} = 0; {one} < 2; {one}++) {{ if ({one} == 0) continue;" for one in names)
        body += "s += 1; if (s > 5) return; y[i] = 6 + s;" + "}" * 24
    elif kind == "call":
        functions = "int f0(int a) { if (a > 100) return 1; return a; }\n" + "".join(
            f"int f{k}(int a) {{ for (int q = 0; q < 2; q++) {{ if (a == q - 3) return 1; }} return f{k - 1}(a); }}\n" for k in range(1, 40)
        )
        body = "y[i] = f39(7);"
    elif kind == "choice":
        body = "y[i] = " + "".join(f"i == {k + 3} ? {k} : " for k in range(120)) + "7;"
    else:
        body = "y[i] = " + " + ".join(["i + 1"] * 60) + " - 53 - 60 * i;"
    for wait in ("", "barrier(); "):
        report = emulated(f"{functions}{head}{wait}{body}}}", 2)
        assert (report.outputs["y"].tolist(), report.findings) == ([7, 7], ())


def test_the_report_as_json() -> None:
    report = emulated(LEAKY, x=floats(1, -2), slope=0.5)
    shown = json.loads(json.dumps(report.to_json({"y": "y.npy"})))
    assert shown["outputs"] == {"y": "y.npy"}
    assert shown["counts"]["global"] == {"reads": 2, "writes": 2, "bytes": 16}
    assert shown["counts"]["shared"] == shown["counts"]["local"] == {"reads": 0, "writes": 0, "bytes": 0}
    assert shown["objects"][0] == {"name": "x", "type": "float", "shape": [2], "memory": "global", "reads": 2, "writes": 0, "bytes": 8}
    assert [row["line"] for row in shown["lines"]] == [2, 3, 4]
    assert shown["lines"][0]["text"] == "float v = x[i];"
    assert shown["strides"][1] == {
        "line": 4,
        "column": 5,
        "object": "y",
        "access": "write",
        "pattern": "contiguous",
        "stride": 1,
        "contiguous": 1,
        "broadcast": 0,
        "other": 0,
    }
    assert (shown["instances"], shown["findings"]) == (2, [])


def test_the_report_as_text() -> None:
    assert emulated(LEAKY, x=floats(1, -2), slope=0.5).text() == (
        "2 instances\n\n"
        "memory    reads  writes  bytes\n"
        "global        2       2     16\n"
        "register     10       3     52\n\n"
        "object  type   shape  memory  reads  writes  bytes\n"
        "x       float  2      global      2       0      8\n"
        "y       float  2      global      0       2      8\n\n"
        "line  global r  global w  register r  register w  bytes\n"
        "   2         2                     2           2     24  float v = x[i];\n"
        "   3                               4           1     20  if (v < 0.0f) v = slope * v;\n"
        "   4                   2           4                 24  y[i] = v;\n\n"
        "place  object  access  neighbours are  apart\n"
        "2:15   x       read    contiguous         +1\n"
        "4:5    y       write   contiguous         +1"
    )


def test_every_type_goes_in_and_out() -> None:
    text = """void kernel(int i, int n, const bool a[n], const int b[n], const long c[n], const double d[n],
                 bool e[n], long f[n], double g[n]) { e[i] = !a[i]; f[i] = c[i] + b[i]; g[i] = d[i] / 3; }"""
    given = {"a": np.array([True, False]), "b": ints(1, 2), "c": np.array([2**40, -1]), "d": np.array([1.0, 2.0])}
    outputs = emulated(text, **given).outputs
    assert [str(one.dtype) for one in outputs.values()] == ["bool", "int64", "float64"]
    assert [one.tolist() for one in outputs.values()] == [[False, True], [2**40 + 1, 1], [1 / 3, 2 / 3]]


def test_fma_of_floats_is_rounded_once() -> None:
    """Sums that lie just beside the middle of two floats, which two roundings would take to the middle first."""
    text = "void kernel(int i, int n, const float a[n], const float b[n], const float c[n], float y[n]) { y[i] = fmaf(a[i], b[i], c[i]); }"
    rng = np.random.default_rng(7)
    a, b = (1 + rng.integers(0, 2**23, (2, 500)) * 2.0**-23).astype("float32")
    c = (2.0 ** rng.integers(-60, 30, 500) * rng.choice([-1, 1], 500)).astype("float32")
    got = emulated(text, a=a, b=b, c=c).outputs["y"]
    from fractions import Fraction

    for one, other, more, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(one) * Fraction(other) + Fraction(more)
        below, above = np.nextafter(np.float32(result), np.float32([-np.inf, np.inf]))
        error = abs(Fraction(result) - exact)
        assert error <= abs(Fraction(float(below)) - exact) and error <= abs(Fraction(float(above)) - exact)


def test_fma_of_doubles() -> None:
    tiny, inf = 2.0**-1074, float("inf")
    assert arithmetic.fma(1e200, 1e200, -inf) == -inf
    assert arithmetic.fma(1e200, 1e200, 1.0) == inf and arithmetic.fma(-1e200, 1e200, 1.0) == -inf
    assert arithmetic.fma(tiny, 0.5, tiny) == 2 * tiny and arithmetic.fma(tiny, 0.5, -tiny) == -0.0
    assert str(arithmetic.fma(-1.0, 0.0, -0.0)) == "-0.0" and str(arithmetic.fma(1.0, 1.0, -1.0)) == "0.0"
    assert arithmetic.fma(inf, 0.0, 1.0) != arithmetic.fma(inf, 0.0, 1.0)


@pytest.mark.parametrize("body", ["", "barrier();", "int k = i;", "if (i) return; barrier();"])
def test_kernels_that_do_nothing(body: str) -> None:
    report = emulated(f"void kernel(int i, int n) {{ {body} }}", 3)
    assert (report.outputs, report.counts["global"].bytes, len(report.findings)) == ({}, 0, int("return" in body))
    assert report.text().startswith("3 instances")
