"""An adjoint by hand: `kernel check` tells what does not fit the kernel, without torch."""

from __future__ import annotations

import pytest

from laminar.kernels.derive.by_hand import by_hand, entry_of
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError

FORWARD = """void kernel(int i, int n, float s, const int at[n], const float x[n], const float w[3][3], float y[n]) {
    y[i] = s * x[at[i]] * w[0][0];
}
"""
BACKWARD = "void kernel_backward(int i, int n, {}) {{ {} }}\n"


def fitted(parameters: str, body: str = "") -> None:
    by_hand(read_kernel(FORWARD + BACKWARD.format(parameters, body), "k.c"), "k.c")


@pytest.mark.parametrize(
    ("parameters", "body", "column", "said", "instead"),
    [
        ("const float grad_z[n]", "", 48, "`grad_z` of kernel_backward is neither a parameter of the kernel nor grad_ and one", "grad_"),
        ("const float other[n]", "", 48, "`other` of kernel_backward is neither", "one of s, at, x, w, y, grad_s, grad_x, grad_w, grad_y"),
        ("const float grad_n[n]", "", 48, "`grad_n` of kernel_backward is neither", "grad_"),
        ("const double grad_y[n]", "", 49, "is double, and `y` is float", "`const float grad_y[n]`"),
        ("double grad_x[n]", "grad_x[i] = 1;", 43, "is double, and `x` is float", "`float grad_x[n]`"),
        ("int s", "", 40, "is int, and `s` is float", "`float s`"),
        ("double grad_s[1]", "grad_s[0] = 1;", 43, "is double, and `s` is float", "`float grad_s[1]`"),
        ("const float s[1]", "", 48, "is an array, and `s` is one number", "`float s`"),
        ("float x", "", 42, "is one number, and `x` is an array", "`const float x[n]`"),
        ("float grad_y", "", 42, "is one number, and nothing could be written", "`const float grad_y[n]`"),
        ("float grad_s", "", 42, "is one number, and nothing could be written", "`float grad_s[1]`"),
        ("int grad_at[n]", "grad_at[i] = 1;", 40, "is the gradient of `at`, which is int and has none", "leave it out"),
        (
            "float grad_y[n]",
            "grad_y[i] = 1;",
            42,
            "written and never read: it is the gradient of the output `y`",
            "`const float grad_y[n]`",
        ),
        ("const float grad_x[n]", "", 48, "is const: it is the gradient of the input `x`", "`float grad_x[n]`"),
        ("const float grad_s[1]", "", 48, "is const: it is the gradient of the input `s`", "`float grad_s[1]`"),
        ("float grad_s[2]", "grad_s[0] = 1;", 42, "has 2 elements, and `s` has 1", "`float grad_s[1]`"),
        ("const float w[4][3]", "", 48, "has 12 elements, and `w` has 9", "`const float w[3][3]`"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(parameters: str, body: str, column: int, said: str, instead: str) -> None:
    with pytest.raises(KernelError) as caught:
        fitted(parameters, body)
    error = caught.value
    assert (error.rule, error.at) == ("K20", (4, column)) and said in error.what and instead in error.instead
    assert error.message.startswith(f"k.c:4:{column}: ") and error.message.split("\n")[2].index("^") == column + 1


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("const float grad_y[n], float grad_x[n]", "grad_x[i] = grad_y[i];"),
        ("float s, const int at[n], const float w[9], const float y[n], const float grad_y[n], float grad_x[n]", "grad_x[i] = s * w[8];"),
        ("float grad_y[n], float grad_x[n]", "grad_y[i] *= 2; grad_x[i] = grad_y[i];"),  # a copy to work on
        ("const float grad_y[n], float grad_s[1]", "atomic_add(&grad_s[0], grad_y[i]);"),
    ],
)
def test_what_fits(parameters: str, body: str) -> None:
    fitted(parameters, body)


def test_by_which_names_it_is_found() -> None:
    for name, file, found in [
        ("kernel_backward", "leaky.c", "kernel_backward"),
        ("leaky_backward", "leaky.c", "leaky_backward"),
        ("leaky_backward", "other.c", None),
    ]:
        assert entry_of(f"{FORWARD}void {name}(int i, int n) {{}}", file) == found
