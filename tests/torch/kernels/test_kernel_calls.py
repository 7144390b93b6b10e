"""Kernels called with tensors: what they give, in which shapes, and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from kernel_texts import BOTH, CONVOLUTION, LEAKY, MATMUL, POOL, SOFTMAX
from torch.nn import functional

import laminar
from laminar.core.errors import LaminarError
from laminar.kernels.operator.function import KernelFunction


def made(text: str, name: str = "k.c") -> KernelFunction:
    return laminar.kernel(name, source=text)


def test_values_of_the_usual_kernels() -> None:
    x, a, b = torch.randn(5, 7), torch.randn(4, 6), torch.randn(6, 3)
    torch.testing.assert_close(made(LEAKY)(x, slope=0.1), functional.leaky_relu(x, 0.1), rtol=0, atol=0)
    torch.testing.assert_close(made(SOFTMAX)(x), functional.softmax(x, 1))
    torch.testing.assert_close(made(MATMUL)(a, b), a @ b)
    images, weight, bias = torch.randn(2, 3, 6, 5), torch.randn(4, 3, 3, 3), torch.randn(4)
    torch.testing.assert_close(made(CONVOLUTION)(images, weight, bias), functional.conv2d(images, weight, bias, padding=1))
    torch.testing.assert_close(made(POOL)(images[:, 0]), functional.max_pool2d(images[:, 0], 2))


def test_a_kernel_of_elements_takes_any_shape() -> None:
    leaky = made(LEAKY)
    for shape in [(1,), (4, 3), (2, 1, 5, 3), ()]:
        assert leaky(torch.randn(shape), slope=0.1).shape == shape


def test_tensors_that_are_not_contiguous() -> None:
    x = torch.randn(6, 4).T
    torch.testing.assert_close(made(LEAKY)(x, slope=0.2), functional.leaky_relu(x, 0.2))
    torch.testing.assert_close(made(SOFTMAX)(x), functional.softmax(x, 1))
    negative = torch.randn(5, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(made(LEAKY)(negative, slope=0.2), functional.leaky_relu(negative.clone(), 0.2))


def test_arrays_that_are_changed_are_copied_and_given_back() -> None:
    x, a = torch.randn(5), torch.randn(5)
    before = a.clone()
    changed, y = made(BOTH)(x, a)
    assert torch.equal(a, before)
    torch.testing.assert_close(changed, x * a)
    torch.testing.assert_close(y, torch.sin(x * a))


def test_inputs_by_name_and_another_number_of_instances() -> None:
    x = torch.ones(6)
    leaky = made("void kernel(int i, int count, int n, const float x[n], float y[n]) { y[i] = x[i] * 2; }")
    assert leaky(x=x, instances=2).tolist() == [2, 2, 0, 0, 0, 0]
    assert leaky(x, instances=6).tolist() == [2] * 6
    assert leaky(x, instances=2).tolist() == [2, 2, 0, 0, 0, 0]


def test_whole_numbers_and_truth() -> None:
    text = """void kernel(int i, int n, bool b, long k, const int x[n], const bool c[n], long y[n], bool z[n]) {
        y[i] = x[i] + k; z[i] = c[i] && b; }"""
    y, z = made(text)(torch.arange(3, dtype=torch.int32), torch.tensor([True, False, True]), b=True, k=2**40)
    assert y.tolist() == [2**40, 2**40 + 1, 2**40 + 2] and z.tolist() == [True, False, True]


def test_barriers_and_shared_memory() -> None:
    text = "void kernel(int i, int n, const float x[n], float y[n]) { shared float t[64]; t[i] = x[i]; barrier(); y[i] = t[n - 1 - i]; }"
    x = torch.randn(8)
    assert torch.equal(made(text)(x), x.flip(0))


def test_a_local_array_that_is_only_written_behind_a_barrier() -> None:
    body = "float w[2]; w[0] = x[i]; y[i] = w[0]; barrier(); w[1] = 1;"
    x = torch.randn(8)
    assert torch.equal(made(f"void kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")(x), x)


def test_many_instances_by_several_threads() -> None:
    x = torch.randn(300, 250)
    assert torch.equal(made(LEAKY)(x, slope=0.1), functional.leaky_relu(x, 0.1))


def test_plans_are_kept_apart() -> None:
    """Of other shapes, other values and other types of numbers; and there are not too many."""
    leaky, x = made(LEAKY), -torch.ones(3)
    for slope in (0.5, 1, True, 0.25, 0.5):
        assert leaky(x, slope=slope).tolist() == [-float(slope)] * 3
    for number in range(600):
        assert leaky(x, slope=number).tolist() == [-number] * 3
    assert leaky(-torch.ones(4), slope=0.5).shape == (4,)


REFUSED: dict[str, tuple[Any, str]] = {
    "another dtype": (
        lambda f: f(torch.ones(3, dtype=torch.float64), slope=1),
        "`x` is float64, and the kernel takes float32 (float x[n])",
    ),
    "a value missing": (lambda f: f(torch.ones(3)), "the value `slope` (float) is not given"),
    "a name that is wrong": (lambda f: f(torch.ones(3), slop=1), "there is no parameter `slop`; did you mean 'slope'?"),
    "an input missing": (lambda f: f(slope=1), "the input `x` (float x[n]) is not given"),
    "too many tensors": (lambda f: f(torch.ones(3), torch.ones(3), slope=1), "2 tensors, and the kernel takes 1"),
    "twice": (lambda f: f(torch.ones(3), x=torch.ones(3), slope=1), "`x` is given twice"),
    "an output": (lambda f: f(torch.ones(3), y=torch.ones(3), slope=1), "`y` is an output"),
    "no tensor": (lambda f: f([1.0], slope=1), "`x` is a list"),
    "nothing": (lambda f: f(torch.ones(0), slope=1), "`x` has the shape [0]"),
    "another device": (lambda f: f(torch.ones(3, device="meta"), slope=1), "`x` is on meta, and kernels run on the CPU"),
    "a text for a value": (lambda f: f(torch.ones(3), slope="1"), "`slope` is one float, and str is given"),
    "a tensor of two for a value": (lambda f: f(torch.ones(3), slope=torch.ones(2)), "`slope` is one float"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_are_refused(name: str) -> None:
    call, said = REFUSED[name]
    leaky = made(LEAKY, "leaky.c")
    leaky(torch.ones(3), slope=1)  # plans that are known already refuse as well
    with pytest.raises(LaminarError) as caught:
        call(leaky)
    assert caught.value.code == "L702" and said in caught.value.message


def test_shapes_that_do_not_agree() -> None:
    with pytest.raises(LaminarError, match=r"`b` has the shape \[5, 3\], and the kernel takes \[6, 3\], with l = 6, p = 3") as caught:
        made(MATMUL)(torch.ones(4, 6), torch.ones(5, 3))
    assert caught.value.code == "L702"
    with pytest.raises(LaminarError, match="different shapes: x \\[2\\], a \\[3\\]"):
        made(BOTH)(torch.ones(2), torch.ones(3))


def test_what_goes_wrong_as_it_runs() -> None:
    text = "void kernel(int i, int n, const int at[n], const float x[n], float y[n]) {\n    y[i] = x[at[i]];\n}"
    with pytest.raises(LaminarError, match=r"far.c:2:\d+: instance 1 uses element 7 of `x`") as caught:
        made(text, "far.c")(torch.tensor([0, 7], dtype=torch.int32), torch.ones(2))
    assert caught.value.code == "L703"


def test_a_kernel_without_outputs_is_refused() -> None:
    with pytest.raises(LaminarError, match="the kernel writes no array"):
        made("void kernel(int i, int n, const float x[n]) {}")


def test_copies_and_pickles() -> None:
    leaky, x = made(LEAKY), torch.randn(4)
    for other in (copy.copy(leaky), copy.deepcopy(leaky), pickle.loads(pickle.dumps(leaky))):  # noqa: S301 - its own
        assert torch.equal(other(x, slope=0.1), leaky(x, slope=0.1))
    assert repr(leaky) == "<kernel k.c: float x[n], float slope>"


def test_a_kernel_is_found_beside_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "leaky.c").write_text(LEAKY)
    names: dict[str, Any] = {"__file__": str(tmp_path / "net" / "model.py")}
    exec("import laminar\nleaky = laminar.kernel('leaky.c')", names)
    assert names["leaky"].file == "leaky.c"
    with pytest.raises(LaminarError, match=r"there is no file other\.c in"):
        exec("laminar.kernel('other.c')", names)
    monkeypatch.chdir(tmp_path / "net")
    assert laminar.kernel("leaky.c").text == LEAKY
    assert laminar.kernel(tmp_path / "net" / "leaky.c").text == LEAKY


ASSUMED = """#pragma laminar assume 0 <= k && k < rows
void kernel(int i, int n, int rows, int k, const float x[rows][n], out float y[n]) {
    y[i] = 2 * x[k][i];
}
"""


def test_what_a_kernel_assumes_is_checked_in_each_call_and_derived_with() -> None:
    row, x = made(ASSUMED, "row.c"), torch.randn(3, 4, requires_grad=True)
    for _ in range(2):  # a plan that is known, too
        y = row(x, k=2)
        torch.testing.assert_close(y, 2 * x[2])
        with pytest.raises(LaminarError, match=r"row.c:1:1: the kernel assumes .* and here k = 3, rows = 3"):
            row(x, k=3)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0] * 4, [0.0] * 4, [2.0] * 4]
    with pytest.raises(LaminarError, match="k = -1"):
        row.operator()(x, 3, -1, None)
