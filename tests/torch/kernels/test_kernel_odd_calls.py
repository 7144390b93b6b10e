"""Calls that are odd: what fails says so, each time, and what is nearly the same is not taken for the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from kernel_texts import LEAKY

import laminar
from laminar.core.errors import LaminarError

SCATTER = "void kernel(int i, int n, inout int a[n], out int y[4]) { int k = a[i]; a[i] = 0; y[k] = 1; }"
LONG = """
void kernel(int i, int n, const float x[n], const int at[n], out float y[n], out float z[n]) {
    float v = x[i];
    for (int k = 0; k < 20000; k++) v = sinf(v) + 0.5f;
    float w = x[i] * 2;
    for (int k = 0; k < 20000; k++) w = cosf(w) + 0.25f;
    z[i] = v;
    y[at[i]] = w;
}
"""
ROOM = "void kernel(int i, int n, int k, const float x[n], float y[k][k][k]) { y[0][0][i] = x[i]; }"


def test_what_a_kernel_changed_before_it_failed_does_not_hide_the_failure() -> None:
    scatter = laminar.kernel(source=SCATTER)
    with pytest.raises(LaminarError, match="instance 1 uses element 99 of `y`, which has 4") as caught:
        scatter(torch.tensor([1, 99], dtype=torch.int32))
    assert caught.value.code == "L703"
    assert scatter(torch.tensor([1, 3], dtype=torch.int32))[1].tolist() == [0, 1, 0, 1]


def test_threads_get_their_own_failures() -> None:
    scatter = laminar.kernel(source=SCATTER)

    def said(element: int) -> str:
        with pytest.raises(LaminarError) as caught:
            scatter(torch.full((1,), element, dtype=torch.int32))
        return caught.value.message

    with ThreadPoolExecutor(4) as pool:
        for element, message in enumerate(pool.map(said, range(100, 200)), 100):
            assert f"element {element} of" in message


def test_minus_zero_is_another_value_than_zero() -> None:
    leaky, x = laminar.kernel(source=LEAKY), torch.tensor([-1.0])
    for slope, negative in [(0.0, True), (-0.0, False), (0, True), (-0.0, False)] * 2:
        assert bool(torch.signbit(leaky(x, slope=slope))) is negative, slope


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"slope": 10**400}, "does not fit a float"),
        ({"slope": np.ones(3)}, "ndarray is given"),
        ({"slope": 0.1, "instances": "3"}, "'3' instances"),
        ({"slope": 0.1, "instances": 3.0}, "3.0 instances"),
        ({}, "`slope` .* is not given"),
    ],
)
def test_odd_values(named: dict[str, Any], words: str) -> None:
    leaky = laminar.kernel(source=LEAKY)
    leaky(torch.ones(3), slope=0.1)  # there is a plan
    with pytest.raises(LaminarError, match=words) as caught:
        leaky(torch.ones(3), **named)
    assert caught.value.code == "L702"
    assert "--" not in caught.value.hint  # nobody is at a command line


def test_whole_numbers_of_numpy_are_numbers_of_instances() -> None:
    assert laminar.kernel(source=LEAKY)(torch.ones(3), slope=0.1, instances=np.int64(3)).tolist() == [1, 1, 1]


def test_a_sparse_tensor_is_refused_each_time() -> None:
    leaky, x = laminar.kernel(source=LEAKY), torch.ones(3)
    leaky(x, slope=0.1)
    with pytest.raises(LaminarError, match="sparse"):
        leaky(x.to_sparse(), slope=0.1)


def test_an_output_that_no_machine_holds() -> None:
    with pytest.raises(LaminarError, match="no memory for `y`") as caught:
        laminar.kernel(source=ROOM)(torch.ones(3), k=2_000_000)
    assert caught.value.code == "L702"


def test_of_an_array_that_is_read_too_the_hint_says_how_it_becomes_an_output() -> None:
    double = laminar.kernel(source="void kernel(int i, int n, const float x[n], float y[n]) { y[i] += x[i]; }")
    with pytest.raises(LaminarError, match="`y`") as caught:
        double(torch.ones(3))
    assert "`out float y[n]`" in caught.value.hint


def test_a_failure_within_a_circuit_names_the_file_and_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.kernels.operator.split.LONG", 0.0)
    monkeypatch.setattr("laminar.kernels.operator.engine.LONG", 0.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    long = laminar.kernel("long.c", source=LONG)
    good, bad = torch.arange(4, dtype=torch.int32), torch.tensor([0, 1, 2, 99], dtype=torch.int32)
    try:
        long(torch.ones(4), good)  # as a whole; from now on as a circuit
        with pytest.raises(LaminarError, match=r"long\.c:\d+:\d+: instance 3 uses element 99 of `y`, which has 4"):
            long(torch.ones(4), bad)
    finally:
        torch.set_num_threads(threads)


def test_a_shared_array_without_a_barrier() -> None:
    text = "void kernel(int i, int n, const float x[n], float y[n]) { shared float t[8]; t[i] = x[i]; y[i] = t[i]; }"
    x = torch.randn(8)
    assert torch.equal(laminar.kernel("k.c", source=text)(x), x)
