"""What is proved of values: forms, strides, ranges, loops that count, what varies, and accesses within bounds."""

from __future__ import annotations

import pytest

pytest.importorskip("pycparser")

from laminar.kernels.analyse.counted import counted, finite
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form
from laminar.kernels.analyse.granted import Granted
from laminar.kernels.analyse.proofs import symbolic
from laminar.kernels.analyse.values import Site
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Assign, Kernel, Load, Loop, Store, statements

MATMUL = """
#pragma laminar instances rows * cols
void kernel(int i, int n, int rows, int cols, int k, const float a[rows][k], const float b[k][cols], float c[rows][cols]) {
    int r = i / cols, q = i % cols;
    float s = 0;
    for (int j = 0; j < k; j++) s += a[r][j] * b[j][q];
    c[r][q] = s;
}
"""
CONVOLUTION = """
#pragma laminar instances batch * out * h * w
void kernel(int i, int n, int batch, int in, int out, int h, int w, const float x[batch][in][h][w],
            const float k[out][in][3][3], const float bias[out], float y[batch][out][h][w]) {
    int col = i % w, row = (i / w) % h, o = (i / (w * h)) % out, b = i / (w * h * out);
    float s = bias[o];
    for (int c = 0; c < in; c++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                int yy = row + dy - 1, xx = col + dx - 1;
                if (yy >= 0 && yy < h && xx >= 0 && xx < w) s += k[o][c][dy][dx] * x[b][c][yy][xx];
            }
    y[b][o][row][col] = s;
}
"""


def body(lines: str, parameters: str = "const float x[n], float y[n]") -> Kernel:
    return read_kernel(f"void kernel(int i, int n, {parameters}) {{ {lines} }}")


def sites(facts: Facts, name: str) -> list[Site]:
    return [site for found in facts.values.sites.values() for site in found if site.node.object.name == name]


def proved(kernel: Kernel, *, said: bool = False) -> dict[str, bool]:
    """Whether all accesses of each array are."""
    facts, ids = Facts.of(kernel), symbolic(Facts.of(kernel, said=said)).keys()
    return {one.name: all(id(site.node) in ids for site in sites(facts, one.name)) for one in kernel.objects}


def loops(kernel: Kernel) -> list[Loop]:
    return [one for one in statements(kernel.body) if isinstance(one, Loop)]


@pytest.mark.parametrize(
    "lines",
    [
        "y[i] = x[i];",
        "if (i + 1 < n) y[i] = x[i + 1];",
        "if (i > 0) y[i] = x[i - 1];",
        "int j = i > 0 ? i - 1 : 0; y[i] = x[j];",
        "int j = i + 1; if (j > n - 1) j = n - 1; y[i] = x[j];",
        "int j = i + 1; if (j >= n) return; y[j] = x[j];",
        "if (!(i >= n || i < 0)) y[i] = x[i];",
        "y[n - 1 - i] = x[n - i - 1];",
        "for (int k = 0; k < n; k++) y[i] += x[k];",
        "for (int k = n - 1; k >= 0; k--) y[i] += x[k];",
        "int k = 0; while (k < n) { y[i] += x[k]; k++; }",
        "for (int k = i; k < n; k += 1) y[i] += x[k];",
        "for (int k = 0; k < i; k++) y[i] += x[i - k];",
        "y[i] = x[i / 2] + x[i >> 1] + x[i % n];",
        "for (int k = 0; k <= i; k++) y[i] += x[k];",
        "for (int k = 0; k < n; k++) { if (k == i) continue; y[i] += x[k]; }",
        "int k = (int)x[i]; if (k >= 0 && k < n) y[i] = x[k];",
        "int k = (int)x[i]; y[i] = k >= 0 && k < n && x[k] > 0.0f ? x[k] : 0.0f;",
        "long k = i; y[k] = x[k];",
        "int k = i * 3 - 7 + n; if (0 <= k && k < n) y[i] = x[k];",
        "float t[4]; for (int k = 0; k < 4; k++) t[k] = 0; y[i] = t[i & 3] + t[i % 4];",
        "int k = i < n - 1 ? i + 1 : i; if (x[i] > 0) k = i; y[k] = x[i];",
    ],
)
def test_within_bounds_is_proved(lines: str) -> None:
    kernel = body(lines)
    assert proved(kernel) == {one.name: True for one in kernel.objects}


@pytest.mark.parametrize(
    "lines",
    [
        "y[i] = x[i + 1];",
        "y[i] = x[i - 1];",
        "y[i] = x[2 * i];",
        "if (i < n + 1) y[i] = x[i + 1];",
        "if (2 * i < n) y[i] = x[2 * i];",  # 2 * i may wrap around
        "for (int k = 0; k <= n; k++) y[i] += x[k];",
        "for (int k = 0; k < n; k++) y[i] += x[k + 1];",
        "int k = (int)x[i]; if (k < n) y[i] = x[k];",
        "int k = 0; for (int j = 0; j < n; j++) k += 1; y[i] = x[k];",
        "int k = 0; do { y[i] += x[k]; k++; } while (k < n + 1);",
        "if (i < 5 || x[i] > 0) y[i] = x[5];",
        "int k = i; if (x[i] > 0) k = n; y[i] = x[k];",
        "y[i] = x[i % (n + 1)];",
        "y[i] = x[(i * i) % n];",  # i * i may wrap around, and the rest be less than 0
        "int k = 0; for (;;) { y[i] = x[k]; k++; if (x[i] > k) break; }",
        "for (int k = 0; k < n; k += 2) y[i] += x[k + 1];",
    ],
)
def test_what_may_be_out_of_bounds_is_not_proved(lines: str) -> None:
    assert not proved(body(lines))["x"]


def test_products_of_sizes_are_within_bounds() -> None:
    assert all(proved(read_kernel(MATMUL), said=True).values())
    assert all(proved(read_kernel(CONVOLUTION), said=True).values())
    assert proved(read_kernel(MATMUL)) == {"a": False, "b": True, "c": False}  # with more instances rows run out
    flat = """
    if (i >= rows * cols) return;
    int r = i / cols, q = i % cols;
    for (int j = 0; j < k; j++) c[r * cols + q] += a[r * k + j] * b[j * cols + q];"""
    arrays = "int rows, int cols, int k, const float a[rows * k], const float b[k * cols], float c[rows * cols]"
    assert all(proved(body(flat, arrays)).values())


def test_what_is_granted_can_be_looked_at_before_a_run() -> None:
    granted = Granted.of(read_kernel(MATMUL), said=True)
    sizes = {"rows": 3, "cols": 2, "k": 4}
    assert granted.broken(sizes, 6) is None and granted.broken(sizes, 2) is None
    assert repr(granted.broken(sizes, 7)) == "rows * cols - n"
    assert repr(granted.broken({**sizes, "k": 0}, 6)) == "k - 1"
    assert granted.broken({"rows": 1 << 16, "cols": 1 << 16, "k": 1}, 1) is not None  # their product does not fit an int
    assert Granted.of(read_kernel(MATMUL)).broken(sizes, 7) is None


def test_a_stride_of_the_window_is_proved_by_its_guard() -> None:
    lines = """
    for (int k = 0; k < 3; k++) {
        int at = i * stride + k - pad;
        if (at >= 0 && at < w) y[i] += x[at];
    }"""
    assert all(proved(body(lines, "int stride, int pad, int w, const float x[w], float y[n]")).values())


def test_ids_are_of_the_kernel_that_was_given() -> None:
    kernel = contracted(read_kernel(MATMUL))
    ids = symbolic(Facts.of(kernel, said=True))
    stores = [one for one in statements(kernel.body) if isinstance(one, Store)]
    assert {id(one) for one in stores} <= ids.keys() and len(ids) == 3 + 1  # accesses and the loop


def test_forms_are_in_terms_of_the_instance_counters_and_parameters() -> None:
    kernel = body(
        "int row = i + 1; for (int k = 0; k < cols; k++) y[i] += x[row * cols + k - 2];", "int cols, const float x[n], float y[n]"
    )
    facts = Facts.of(kernel)
    (site,) = sites(facts, "x")
    assert repr(facts.flat(site.node)) == "cols * i + cols + k - 2"
    assert repr(facts.stride(site.node)) == "cols"
    (counter,) = [symbol for symbol in (facts.flat(site.node) or Form({})).symbols if symbol.kind == "counter"]
    assert counter.variable is not None and counter.variable.name == "k" and not counter.varying


def test_strides_along_instances_and_along_a_row() -> None:
    facts = Facts.of(read_kernel(MATMUL))
    strides = {name: (facts.stride(site.node), facts.stride(site.node, row=True)) for name in "abc" for site in sites(facts, name)}
    one, none = Form.constant(1), Form({})
    assert strides == {"a": (None, none), "b": (None, one), "c": (one, one)}
    facts = Facts.of(body("y[i] = x[n - 1 - i] + x[0] + x[i / 2] + x[(int)x[i]];"))
    assert [facts.stride(site.node) for site in sites(facts, "x")] == [Form.constant(-1), none, None, one, None]


def test_ranges_have_ends_of_parameters() -> None:
    kernel = body("for (int k = 2; k < 100; k++) { int at = k * 2 + i % 4; if (at < n) y[at] = x[i]; }")
    facts = Facts.of(kernel)
    (site,) = sites(facts, "y")
    assert repr(facts.range(site.node.index[0])) == "(4, n - 1)"
    (load,) = sites(facts, "x")
    assert repr(facts.range(load.node.index[0])) == "(0, n - 1)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("int k = 3 * n; y[i] = k;", {"i"}),
        ("int k = i; int m = k + 1; y[m] = n;", {"i", "k", "m"}),
        ("int k = 0; if (i > 3) k = 1; y[0] = k;", {"i", "k"}),
        ("if (i > 3) { int k = 1; for (int j = 0; j < n; j++) k += j; y[0] = k; }", {"i"}),
        ("int k = 0; for (int j = 0; j < i; j++) k = 2; y[0] = k;", {"i", "j", "k"}),
        ("int k = 0; for (int j = 0; j < n; j++) { if (x[i] > j) break; k = j; } y[0] = k;", {"i", "j", "k"}),
        ("int k = 0; for (int j = 0; j < n; j++) { if (n > j) break; k = j; } y[0] = k;", {"i"}),
        ("int k = 0; for (int j = 0; j < n; j++) { if (x[i] > j) continue; k = j; } y[0] = k;", {"i", "k"}),
        ("float t[2]; t[0] = 1; t[1] = i; float v = t[0]; y[0] = v;", {"i", "t", "v"}),
        ("float v = x[3]; float w = x[i]; y[0] = v + w;", {"i", "w"}),
        ("int a = 0; int b = 0; for (int j = 0; j < n; j++) { b = a; a = i; } y[0] = b;", {"i", "a", "b"}),
    ],
)
def test_what_varies(lines: str, expected: set[str]) -> None:
    assert {one.name for one in Facts.of(body(lines)).values.varying.what} == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("for (int k = 0; k < n; k++) y[k] = 0;", ("k", "<", 1, True, True)),
        ("for (int k = n; 0 < k; k -= 1) y[k] = 0;", ("k", ">", -1, True, True)),
        ("for (int k = 0; k <= n; k++) y[k] = 0;", ("k", "<=", 1, True, False)),
        ("for (int k = 0; k < 10; k += 3) y[k] = 0;", ("k", "<", 3, True, True)),
        ("for (int k = 0; k < n; k += 3) y[k] = 0;", ("k", "<", 3, True, False)),
        ("for (int k = 0; k < n; k++) if (x[k] > 0) break;", ("k", "<", 1, False, True)),
        ("for (int k = 0; k < n; k++) for (int j = 0; j < 2; j++) if (x[k] > 0) break;", ("k", "<", 1, True, True)),
        ("int k = 0; while (k < n) { y[k] = 0; k++; }", ("k", "<", 1, True, True)),
        ("int k = 0; while (k < n) { if (x[k] > 0) continue; k++; }", None),
        ("for (int k = 0; k < n; k++) k++;", None),
        ("int m = n; for (int k = 0; k < m; k++) m--;", None),
        ("for (int k = 0; k < n; k--) y[0] = 0;", None),
        ("for (int k = 1; k < n; k *= 2) y[k] = 0;", None),
        ("for (int k = 0; y[k] < 2; k++) y[k] = 0;", None),
        ("int k = 0; do k++; while (k < n);", None),
    ],
)
def test_loops_that_count(lines: str, expected: tuple[str, str, int, bool, bool] | None) -> None:
    kernel = body(lines)
    loop = loops(kernel)[0]
    found = counted(loop, kernel.body[: kernel.body.index(loop)])
    assert (found and (found.counter.name, found.operator, found.step, found.exact, finite(loop))) == expected
    if found is not None:
        assert found.start is not None and isinstance(found.update, Assign)
    else:
        assert not finite(loop)


def test_a_node_in_two_places_is_proved_in_both_or_not() -> None:
    kernel = body("if (i + 1 < n) y[i] = x[i + 1];")
    (guarded,) = [one for one in statements(kernel.body) if isinstance(one, Store)]
    twice = Kernel(kernel.name, kernel.text, kernel.parameters, (*kernel.body, guarded), kernel.variables, kernel.objects)
    ids = symbolic(Facts.of(twice))
    assert id(guarded) in ids and isinstance(guarded.value, Load) and id(guarded.value) not in ids
