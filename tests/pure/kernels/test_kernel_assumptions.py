"""What a kernel assumes of its values: proofs stand on it, each call is checked for it, and `check` shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pycparser")

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.arguments import arguments
from laminar.kernels.compile.native import compiled
from laminar.kernels.language.digest import digest
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.print import print_kernel
from laminar.kernels.language.rules import KernelError

SHORTEST = """#pragma laminar instances n * n
void kernel(int i, int count, int n, int k, inout float d[n][n]) {
    int r = i / n, c = i % n;
    float via = d[r][k] + d[k][c];
    if (via < d[r][c]) d[r][c] = via;
}
"""
ASSUMED = f"#pragma laminar assume 0 <= k && k < n\n{SHORTEST}"


def open_bounds(source: str) -> set[str]:
    return {one.verdict for one in verdicts(read_kernel(source)) if one.kind == "bounds"}


def test_an_index_that_is_a_value_is_proved_by_what_is_assumed_of_it() -> None:
    assert open_bounds(SHORTEST) == {"proved", "witness"}
    assert open_bounds(ASSUMED) == {"proved"}
    assert open_bounds(f"#pragma laminar assume 0 <= k\n#pragma laminar assume k < n\n{SHORTEST}") == {"proved"}
    assert open_bounds(f"#pragma laminar assume k < n\n{SHORTEST}") == {"proved", "run-time"}  # below 0, which no small size shows


def test_each_call_is_checked_with_values() -> None:
    kernel, d = read_kernel(ASSUMED, "fw.c"), np.zeros((3, 3), "float32")
    said = r"fw\.c:1:1: the kernel assumes `\(0 <= k\) && \(k < n\)`, and here k = 3, n = 3\n *#pragma laminar assume 0 <= k"
    with pytest.raises(LaminarError, match=said) as raised:
        arguments(kernel, {"d": d, "k": 3}, file="fw.c")
    assert raised.value.code == "L702"
    with pytest.raises(LaminarError, match="k = -1, n = 3"):
        compiled(kernel).run([d], [3, -1], 9)
    compiled(kernel).run([d], [3, 2], 9)


def test_a_witness_keeps_to_what_is_assumed() -> None:
    source = "void kernel(int i, int n, int k, const int x[n], int y[n]) { y[i] = x[i + k]; }"
    (shown,) = [one for one in verdicts(read_kernel(f"#pragma laminar assume k == 1\n{source}")) if one.verdict == "witness"]
    assert shown.why == "with 2 instances and k = 1 it is x[2]"
    nothing = verdicts(read_kernel(f"#pragma laminar assume k == 1000000\n{source}"))
    assert not [one for one in nothing if one.verdict == "witness"]  # no small size keeps to it


def test_the_number_of_instances_may_be_in_it() -> None:
    source = (
        "#pragma laminar assume k <= n - 2\nvoid kernel(int i, int n, int k, const int x[n], int y[n]) { if (k >= 0) y[i] = x[k + 1]; }"
    )
    assert open_bounds(source) == {"proved"}
    with pytest.raises(LaminarError, match="and here k = 3, n = 4"):
        arguments(read_kernel(source), {"x": np.zeros(4, "int32"), "k": 3})


def test_it_is_part_of_what_a_kernel_is() -> None:
    kernel = read_kernel(ASSUMED)
    assert digest(kernel) != digest(read_kernel(f"\n{SHORTEST}"))  # code that is kept was proved by it
    assert open_bounds(print_kernel(kernel)) == {"proved"}


def test_an_adjoint_of_the_same_file_has_those_that_it_can() -> None:
    source = """#pragma laminar assume 0 <= k && k < n
#pragma laminar assume m > 0
void kernel(int i, int n, int k, int m, const float x[n], float y[n]) { y[i] = x[k] * m; }
void kernel_backward(int i, int n, int k, const float grad_y[n], float grad_x[n]) { grad_x[k] = grad_y[i]; }"""
    assert len(read_kernel(source).assumptions) == 2 and len(read_kernel(source, entry="kernel_backward").assumptions) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x[0] > 1", "without arrays"),
        ("i < k", "number of instances"),
        ("sqrtf(s) > 1", "without arrays, calls"),
        ("1 / s > 2", "quotients of floats"),
        ("k <", "is not an expression"),
        ("2 < 1", "never holds"),
        ("z > 1", "`z` is not declared"),
    ],
)
def test_what_cannot_be_assumed(words: str, said: str) -> None:
    source = f"#pragma laminar assume {words}\nvoid kernel(int i, int n, int k, float s, const float x[n], float y[n]) {{ y[i] = x[i]; }}"
    with pytest.raises(KernelError, match=said):
        read_kernel(source)


def test_a_float_may_be_assumed_something_of() -> None:
    body = "void kernel(int i, int n, float s, const float x[n], float y[n]) { y[i] = x[i] * s; }"
    source = f"#pragma laminar assume s > 0.5f && !(s >= 2)\n{body}"
    given: dict[str, Any] = {"x": np.zeros(2, "float32")}
    arguments(read_kernel(source), given | {"s": 1.0})
    for wrong in (0.5, 2.0):
        with pytest.raises(LaminarError, match=f"here s = {wrong}"):
            arguments(read_kernel(source), given | {"s": wrong})
