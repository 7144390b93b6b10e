"""What a kernel is called with: sizes told by arrays, the number of instances, and everything that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import Arguments, arguments, declared, fitted
from laminar.kernels.language.kernel import read_kernel

LEAKY = "void kernel(int i, int n, float slope, const float x[n], float y[n]) { y[i] = slope * x[i]; }"
X = np.zeros(5, "float32")


def called(source: str, instances: int | None = None, **given: Any) -> Arguments:
    return arguments(read_kernel(source), given, instances, "t.c")


def refused(source: str, instances: int | None = None, **given: Any) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        called(source, instances, **given)
    assert caught.value.code == "L702" and caught.value.message.startswith("t.c: ") and caught.value.hint
    return caught.value


def test_sizes_come_from_arrays_and_outputs_are_zeros() -> None:
    found = called(LEAKY, x=X, slope=0.1)
    assert found.count == 5 and found.values == {"slope": float(np.float32(0.1))}
    assert found.arrays["y"].tolist() == [0] * 5 and found.arrays["y"].dtype == np.float32


@pytest.mark.parametrize(
    ("shapes", "sizes", "values"),
    [
        ("const float x[a][b]", (3, 4), {"a": 3, "b": 4}),
        ("const float x[2 * a + 1][b]", (9, 4), {"a": 4, "b": 4}),
        ("const float x[a + b], const float z[b]", (7, 3), {"a": 4, "b": 3}),
        ("const float x[a * b], const float z[a]", (12, 3), {"a": 3, "b": 4}),
        ("const float x[b - 1], const float z[a * (b + 1)]", (4, 12), {"a": 2, "b": 5}),
    ],
)
def test_values_that_follow_from_sizes(shapes: str, sizes: tuple[int, ...], values: dict[str, int]) -> None:
    kernel = read_kernel(f"void kernel(int i, int n, int a, int b, {shapes}, float y[a * b]) {{}}")
    arrays = {"x": (sizes if "][" in shapes else sizes[:1], "float32")} | ({} if "z" not in shapes else {"z": (sizes[1:], "float32")})
    fit = fitted(kernel, arrays, {})
    assert fit.values == values
    assert (fit.shapes["y"], fit.count) == ((values["a"] * values["b"],), values["a"] * values["b"])


def test_the_number_of_instances() -> None:
    """Given; by the pragma; by a size; by the first output."""
    rows = "void kernel(int i, int n, int rows, const float x[rows][3], float y[rows]) {}"
    x = np.zeros((4, 3), "float32")
    assert called(rows, x=x).count == 4
    assert called(rows, 2, x=x).count == 2
    assert called("#pragma laminar instances rows * 3\n" + rows, x=x).count == 12
    assert called("#pragma laminar instances rows * 3\n" + rows, 5, x=x).count == 5
    assert called("void kernel(int i, int n, const float x[n], float y[1]) {}", x=X).count == 5
    assert called("void kernel(int i, int n, int m, float y[m][2]) {}", m=3).count == 6
    assert called("void kernel(int i, int n, float y[3][2]) {}", y=np.zeros((3, 2), "float32")).count == 6
    assert called("void kernel(int i, int n, float y[n]) {}", 7).arrays["y"].shape == (7,)


@pytest.mark.parametrize(
    ("type_", "given", "wanted"),
    [
        ("int", 3, 3),
        ("int", 3.0, 3),
        ("int", np.int64(3), 3),
        ("int", True, 1),
        ("bool", 2, True),
        ("float", 1, 1.0),
        ("float", np.float64(0.1), float(np.float32(0.1))),
        ("double", np.array(0.1), 0.1),
        ("long", 2**40, 2**40),
    ],
)
def test_values(type_: str, given: Any, wanted: Any) -> None:
    value = called(f"void kernel(int i, int n, {type_} v, float y[n]) {{}}", 1, v=given).values["v"]
    assert value == wanted and type(value) is type(wanted)


def test_what_is_missing_or_unknown() -> None:
    error = refused(LEAKY, x=X)
    assert "the value `slope` (float) is not given" in error.message and error.hint == "--param slope=0.1"
    assert "the input `x` (float x[n]) is not given" in refused(LEAKY, slope=1).message
    assert "did you mean 'slope'?" in refused(LEAKY, x=X, slop=1).message
    assert "`n` is the number of instances" in refused(LEAKY, x=X, slope=1, n=5).message
    assert "`i` is the instance" in refused(LEAKY, x=X, slope=1, i=5).message
    changed = "void kernel(int i, int n, float y[n]) { y[i] += 1; }"
    assert "array that is read and written `y`" in refused(changed, 3).message
    assert (
        "nothing tells the number of instances" in refused("void kernel(int i, int n, const int x[2]) {}", x=np.zeros(2, "int32")).message
    )


def test_what_does_not_fit() -> None:
    assert "`x` is float64, and the kernel takes float32 (float x[n])" in refused(LEAKY, x=X.astype("float64"), slope=1).message
    flat = refused(LEAKY, x=X[:, None], slope=1)
    assert "`x` has 2 dimensions [5, 1], and the kernel takes 1" in flat.message
    assert flat.hint == "x.reshape(-1), with 1 dimension; or float x[n][m] in the kernel"
    assert "`y` has the shape [4], and the kernel takes [5], with n = 5" in refused(LEAKY, x=X, slope=1, y=np.zeros(4, "float32")).message
    assert "`x` has the shape [5], and the kernel takes [6], with n = 6" in refused(LEAKY, 6, x=X, slope=1).message
    assert "`x` is an array (float x[n]), and one number is given" in refused(LEAKY, x=1, slope=1).message
    assert "`slope` is one float, and" in refused(LEAKY, x=X, slope=X).message
    assert "`slope` is one float, and str is given" in refused(LEAKY, x=X, slope="1").message
    whole = "void kernel(int i, int n, int v, float y[n]) {}"
    assert "`v` is of type int, and 0.5 is given" in refused(whole, 1, v=0.5).message
    error = refused(whole, 1, v=2**31)
    assert "2147483648 does not fit `v`" in error.message and error.hint == "long v"
    assert "inf is given" in refused(whole, 1, v=float("inf")).message
    fixed = "void kernel(int i, int n, const float x[4], float y[n]) {}"
    assert "`x` has the shape [5], and the kernel takes [4]" in refused(fixed, 1, x=X).message


def test_sizes_that_disagree() -> None:
    two = "void kernel(int i, int n, const float x[n], const float z[n], float y[n]) {}"
    assert "`z` has the shape [4], and the kernel takes [5], with n = 5" in refused(two, x=X, z=X[:4].copy()).message
    odd = "void kernel(int i, int n, int a, const float x[2 * a], float y[a]) {}"
    assert "the value `a` (int) is not given" in refused(odd, x=X).message  # 5 is not even
    small = "void kernel(int i, int n, int a, float y[a - 5]) {}"
    assert "`y` has the shape [-2]" in refused(small, 1, a=3).message


@pytest.mark.parametrize("count", [0, -1])
def test_no_instances(count: int) -> None:
    assert f"{count} instances" in refused(LEAKY, count, x=X, slope=1).message


def test_arrays_of_nothing() -> None:
    assert "`x` has the shape [0]" in refused(LEAKY, x=X[:0], slope=1).message


def test_more_instances_than_an_int_counts() -> None:
    assert "long i" in refused("void kernel(int i, int n, float y[1]) {}", 2**31).hint


def test_no_two_names_are_one_thing() -> None:
    error = refused(LEAKY, x=X, slope=1, y=X)
    assert "`y` and `x` are the same memory" in error.message
    both = "void kernel(int i, int n, const float x[n], const float z[n], float y[n]) {}"
    assert called(both, x=X, z=X).count == 5  # two that are only read may be one


def test_arrays_are_made_contiguous() -> None:
    found = called(LEAKY, x=np.arange(10, dtype="float32")[::2], slope=1)
    assert found.arrays["x"].tolist() == [0, 2, 4, 6, 8] and found.arrays["x"].flags.c_contiguous


def test_parameters_as_the_text_has_them() -> None:
    kernel = read_kernel("void kernel(int i, int n, double s, const int x[n][3][2 * n]) {}")
    assert [declared(one) for one in kernel.parameters] == ["int i", "int n", "double s", "int x[n][3][…]"]
