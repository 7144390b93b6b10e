"""What an adjoint looks like, what has none, and generated kernels against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import by_element, derived
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.kernels.derive.adjoint import adjoint, adjoint_by_element
from laminar.kernels.language.kernel import read_kernel

LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}"""


def of(source: str, **settings: Any) -> str:
    return adjoint(read_kernel(source, "t.c"), file="t.c", **settings)


def test_only_what_is_wanted_is_derived() -> None:
    assert of(LEAKY, wanted=["x"]) == (
        "/* derived from t.c */\n"
        "void kernel_backward(int i, int n, float slope, const float x[n], const float y[n], const float grad_y[n], float grad_x[n]) {\n"
        "    float v = x[i];\n"
        "    bool test = v < 0.0f;\n"
        "    float d_v = grad_y[i];\n"
        "    if (test) {\n"
        "        float d = d_v;\n"
        "        d_v = d * slope;\n"
        "    }\n"
        "    grad_x[i] = d_v;\n"
        "}\n"
    )


def test_parameters_of_an_adjoint() -> None:
    kernel = read_kernel(of(LEAKY), entry="kernel_backward")
    assert [(one.name, one.mode) for one in kernel.arrays] == [
        ("x", "in"),
        ("y", "in"),
        ("grad_y", "in"),
        ("grad_x", "out"),
        ("grad_slope", "inout"),
    ]


@pytest.mark.parametrize(
    ("body", "atomic"),
    [
        ("y[i] = x[i] * x[i];", False),
        ("y[i] = x[i] * x[(i + 1) % n];", True),
        ("if (i < n / 2) y[i] = x[i];", False),
        ("y[i] = x[n - 1 - i];", False),
        ("y[i] = x[i / 2];", True),
        ("y[i] = x[0];", True),
    ],
)
def test_elements_of_one_instance_need_no_atomic(body: str, atomic: bool) -> None:
    assert ("atomic_add" in of(f"void kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")) == atomic


def test_settings_of_the_kernel_stay() -> None:
    text = of("#pragma laminar instances n\n#pragma laminar contract off\n" + LEAKY)
    assert "#pragma laminar instances n\n" in text and "#pragma laminar contract off\n" in text


def test_sums_keep_no_values_and_their_order() -> None:
    text = of(
        """void kernel(int i, int n, int m, const float x[n][m], float y[n]) {
        float s = 0; for (int k = 0; k < m; k++) s += x[i][k]; y[i] = s; }"""
    )
    assert "kept" not in text and "k = k + 1" in text and text.count("for (") == 1


BY_ELEMENT = {
    "matmul": (
        """#pragma laminar instances m * p
        void kernel(int i, int n, int m, int l, int p, const double a[m][l], const double b[l][p], double c[m][p]) {
        int r = i / p, s = i % p; double sum = 0; for (int k = 0; k < l; k++) sum += a[r][k] * b[k][s]; c[r][s] = sum; }""",
        {"a": (2, 3), "b": (3, 4)},
        8,
        "a",
    ),
    "convolution": (
        """void kernel(int i, int n, int ins, int outs, int h, int w, const double x[ins][h][w], const double k[outs][ins][3][3],
        double y[outs][h][w]) { int c = i % w, r = i / w % h, o = i / (w * h); double sum = 0;
        for (int s = 0; s < ins; s++) for (int a = 0; a < 3; a++) for (int b = 0; b < 3; b++) {
            int yy = r + a - 1, xx = c + b - 1;
            if (yy < 0 || yy >= h || xx < 0 || xx >= w) continue;
            sum += x[s][yy][xx] * k[o][s][a][b]; }
        y[o][r][c] = sum; }""",
        {"x": (2, 3, 4), "k": (2, 2, 3, 3)},
        24,
        "x",
    ),
    "stencil": (
        "void kernel(int i, int n, const double x[n + 2], double y[n]) { y[i] = x[i] * x[i + 1] + 0.5 * x[i + 2]; }",
        {"x": (9,)},
        7,
        "x",
    ),
    "bias": (
        """void kernel(int i, int count, int n, int m, const double x[n][m], const double b[m], double y[n][m]) {
        int c = i % m, r = i / m; y[r][c] = x[r][c] * b[c]; }""",
        {"x": (3, 4), "b": (4,)},
        12,
        "b",
    ),
    "some instances only": (
        "void kernel(int i, int n, int m, const double x[m], double y[n]) { if (i + 1 < m && i > 0) y[i] = x[i - 1] * x[i + 1]; }",
        {"x": (6,)},
        8,
        "x",
    ),
}


@pytest.mark.parametrize("name", BY_ELEMENT)
def test_a_gradient_by_elements_is_the_same_without_atomics(name: str) -> None:
    source, shapes, instances, wanted = BY_ELEMENT[name]
    made = np.random.default_rng(5)
    found = by_element(source, {key: made.normal(size=shape) for key, shape in shapes.items()}, instances, wanted)
    assert found is not None
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "source",
    [
        "void kernel(int i, int n, const double x[n], double y[n]) { y[i] = x[i]; }",  # is the instance's own
        "void kernel(int i, int n, const int at[n], const double x[n], double y[n]) { y[i] = x[at[i]]; }",  # no sum of numbers that count
        "void kernel(int i, int n, const double x[n], double y[n]) { y[i] = x[i / 2]; }",
        "void kernel(int i, int n, const double x[4], double y[n]) { for (int k = 0; k < 4; k++) y[i] += x[k]; }",  # short rows
        "void kernel(int i, int n, int m, const double x[m], double y[n]) { int c = i % m; y[i] = x[c]; }",  # not the whole number
        """void kernel(int i, int n, int m, const double x[m], double y[n]) {
        double s = 0; for (int k = 0; k < m; k++) s += x[k]; y[i] = s * s; }""",
    ],
)
def test_what_is_not_turned_round(source: str) -> None:
    assert adjoint_by_element(read_kernel(source), "x") is None


REFUSED = {
    "a break": (
        "for (int k = 0; k < n; k++) { if (x[k] > 1) break; y[i] = x[k]; }",
        "2:45: no gradient can be derived: this loop ends by a break",
    ),
    "a loop that does not count": (
        "float v = x[i]; while (v > 1) v = v / 2; y[i] = v;",
        "2:17: no gradient can be derived: this loop does not count",
    ),
    "a return from a loop": ("for (int k = 0; k < 3; k++) if (x[i] > k) return; y[i] = x[i];", "return"),
    "a barrier": ("y[i] = x[i]; barrier();", "2:14: no gradient can be derived: instances meet at a barrier"),
    "the largest of all": ("atomic_max(&y[0], x[i]);", "atomic_max does not tell whose value it kept"),
    "what others add to, read": ("atomic_add(&y[0], x[i]); y[i] = y[i] * 2;", "`y` is added to by all instances, and used in line 2"),
    "shared memory": ("shared float t[8]; t[i % 8] = x[i]; y[i] = t[i % 8] * 2;", "`t` is shared by the instances"),
    "an array that a loop overwrites": ("for (int k = 0; k < n; k++) y[k] = y[k] * y[k] + x[k];", "overwrites elements of `y`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_statement(name: str) -> None:
    body, said = REFUSED[name]
    with pytest.raises(LaminarError) as caught:
        of(f"void kernel(int i, int n, const float x[n], float y[n]) {{\n{body} }}")
    assert caught.value.code == "L705" and said in caught.value.message
    assert "write kernel_backward in the same file" in (caught.value.hint or "")


SMOOTH = (
    "sin({})",
    "tanh({})",
    "exp(0.3 * sin({}))",
    "({} * {})",
    "({} + {})",
    "({} - 0.5 * {})",
    "({} / (2.5 + sin({})))",
    "sqrt({} * {} + 1)",
)


@st.composite
def smooth_kernels(draw: st.DrawFn) -> str:
    """Without edges: conditions and choices look at whole numbers only."""
    names, lines = ["x[i][0]", "x[i][1]", "z[i]", "s"], list[str]()
    writable: list[str] = []

    def value(depth: int = 2) -> str:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from([*names, "0.7"]))
        form = draw(st.sampled_from(SMOOTH))
        return form.format(*(value(depth - 1) for _ in range(form.count("{}"))))

    def statement(depth: int, pad: str) -> None:
        kind = draw(st.sampled_from(["new", "set", "if", "choice", "for", "for", "element"] if depth else ["new", "set", "element"]))
        if kind == "new":
            made = f"v{len(lines)}"
            lines.append(f"{pad}double {made} = {value()};")
            names.append(made)
            writable.append(made)
        elif kind == "set" and writable:
            target = draw(st.sampled_from(writable))
            lines.append(f"{pad}{target} {draw(st.sampled_from(['=', '+=', '*=', '-=']))} {value()};")
        elif kind == "element":
            lines.append(f"{pad}a[(i + {draw(st.integers(0, 2))}) % 3] {draw(st.sampled_from(['=', '+=', '*=']))} {value()};")
        elif kind == "choice":
            lines.append(f"{pad}a[1] = c[i] > 0 ? {value()} : {value()};")
        elif kind in ("if", "for"):
            k = f"k{len(lines)}"
            bound = draw(st.sampled_from(["3", "m", "c[i] + 1"]))
            head = (
                f"for (int {k} = 0; {k} < {bound}; {k}++)" if kind == "for" else draw(st.sampled_from(["if (c[i] > 0)", "if (i % 2 == 0)"]))
            )
            known, could = len(names), len(writable)
            lines.append(f"{pad}{head} {{")
            if kind == "for":
                names.append(f"x[i][{k} % 2]")
            for _ in range(draw(st.integers(1, 3))):
                statement(depth - 1, pad + "  ")
            lines.append(f"{pad}}}")
            del names[known:], writable[could:]

    for _ in range(draw(st.integers(2, 5))):
        statement(2, "  ")
    body = "\n".join(lines)
    last = value()
    return (
        "void kernel(int i, int n, int m, double s, const double x[n][2], const double z[n], const int c[n], double y[n]) {\n"
        f"  double a[3] = {{0.1, 0.2, 0.3}};\n{body}\n  y[i] = tanh({last}) + tanh(a[0] * a[1] - a[2]);\n}}"
    )


@settings(max_examples=25, deadline=None)
@given(source=smooth_kernels())
def test_generated_kernels_against_differences(source: str) -> None:
    made = np.random.default_rng(1)
    given = {"x": made.normal(size=(2, 2)) * 0.5, "z": made.normal(size=2) * 0.5, "c": np.array([0, 2], "int32"), "s": 0.4, "m": 2}
    found, wanted = derived(source, given, 2)
    for name, gradient in found.items():
        scale = max(1.0, float(np.abs(wanted[name]).max()))
        if np.isfinite(scale) and scale < 1e4:
            np.testing.assert_allclose(gradient, wanted[name], rtol=0, atol=1e-5 * scale, err_msg=name)
