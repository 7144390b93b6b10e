"""Bits that mark elements: two of one element, or two a distance apart, are found wherever they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laminar.kernels.compile.instrumented import Instrumented, instrumented
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

ONE = "void kernel(int i, int n, int size, const int at[n], inout int y[size]) { if (at[i] >= 0) y[at[i]] += i; }"
TWO = "void kernel(int i, int n, int size, int d, const int at[n], inout int y[size]) { y[at[i]] = i; y[at[i] + d] = 1; }"


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


@given(data=st.data(), size=st.integers(2, 5000))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_element_that_is_written_twice_is_found(data: st.DataObject, size: int) -> None:
    seed, twice, without = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.booleans()), data.draw(st.integers(0, 3))
    random = np.random.default_rng(seed)
    at = random.permutation(size).astype("int32")
    at[random.permutation(size)[: min(without, size - 2)]] = -1  # these write nothing
    if twice:
        first, second = random.permutation(np.flatnonzero(at >= 0))[:2]
        at[first] = at[second]
    counted = _code(ONE).bound([at, np.zeros(size, "int32")], {"size": size}, size)
    assert counted is not None and counted() == (not twice)
    assert counted() == (not twice)  # and again, with nothing left of the first run


@given(data=st.data(), size=st.integers(2, 3000))
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_marks_a_distance_apart_are_found(data: st.DataObject, size: int) -> None:
    distance = data.draw(st.integers(-size + 1, size - 1))
    low, high = max(0, -distance), min(size, size - distance)
    drawn = data.draw(st.lists(st.integers(low, high - 1), min_size=1, max_size=6))
    if data.draw(st.booleans()) and low <= drawn[0] + distance < high:
        drawn.append(drawn[0] + distance)
    at = np.unique(drawn).astype("int32")
    places = [*at, *(at + distance)]
    apart = len(set(places)) == len(places) or distance == 0
    counted = _code(TWO).bound([at, np.zeros(size, "int32")], {"size": size, "d": distance}, len(at))
    assert counted is not None and counted() == apart


def test_the_emulator_tells_both_instances() -> None:
    kernel = read_kernel(ONE)
    at = np.random.default_rng(0).permutation(3000).astype("int32")
    at[2500] = at[17]
    arrays = {"at": at, "y": np.zeros(3000, "int32")}
    found = instrumented(kernel, arrays, {"size": 3000}, 3000).findings
    assert found == emulate(kernel, arrays, {"size": 3000}, 3000).findings
    assert [(one.kind, set(one.instances)) for one in found] == [("race", {17, 2500})]


_made: dict[str, Instrumented] = {}


def _code(text: str) -> Instrumented:
    if text not in _made:
        _made[text] = Instrumented(read_kernel(text))
    return _made[text]
