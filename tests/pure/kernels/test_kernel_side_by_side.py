"""Accesses a fixed distance apart: one mark for an instance says what the emulator says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laminar.kernels.compile.instrumented import Instrumented
from laminar.kernels.compile.marks import UNKNOWN
from laminar.kernels.compile.watch import Watch
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

ROOM = 12


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def text(body: str) -> str:
    return f"void kernel(int i, int n, int m, const int at[n], inout int to[n], inout int y[{ROOM}], inout int z[3][4]) {{ {body} }}"


SO = [
    "y[at[i]] = 1; y[at[i] + m] = 2;",
    "int k = at[i]; y[k] = y[k + m];",
    "y[at[i] + m] = y[at[i]] + y[at[i] + 2 * m];",
    "int k = 2 * at[i] - m; y[k] = 1; y[k + 1] = y[k + 1 + m]; y[k + 3] = 2;",
    "z[at[i]][0] = 1; z[at[i]][m] = 2;",
    "z[at[i] + m][at[i]] = z[at[i]][at[i] + 1];",
    "y[at[at[i]]] = y[at[at[i]] - m];",
    "float s = 0.0f; for (int k = 0; k < 3; k++) s += k; y[at[i]] = s; if (m > 1) s = 2.0f; y[at[i] + m] = s;",
]
NOT_SO = [
    "y[at[i]] = 1; if (m > 1) y[at[i] + m] = 2;",  # not by all
    "y[at[i]] = m > 1 ? y[at[i] + m] : 0;",
    "y[at[i]] = m > 1 && y[at[i] + m] > 0;",
    "if (at[i] > 3) return; y[at[i]] = 1; y[at[i] + m] = 2;",
    "y[at[i]] = 1; for (int k = 0; k < 2; k++) y[at[i] + m] = k;",  # more than once
    "y[at[i]] = 1; y[2 * at[i] + m] = 2;",  # not as far for everybody
    "y[at[i]] = 1; y[at[i] + i] = 2;",
    "y[to[i]] = 1; to[i] = i; y[to[i] + m] = 2;",  # by then it is another number
    "int k = at[i]; y[k] = 1; k = k + i; y[k + m] = 2;",
]


@pytest.mark.parametrize("body", SO)
def test_one_stands_for_all(body: str) -> None:
    watch = Watch.of(read_kernel(text(body)), independent=False)
    assert len(watch.beside) == 1 and watch.races[next(iter(watch.beside))] == "once"


@pytest.mark.parametrize("body", NOT_SO)
def test_what_is_not_so_is_watched_as_ever(body: str) -> None:
    assert "y" not in {one.name for one in Watch.of(read_kernel(text(body)), independent=False).beside}


@pytest.mark.parametrize("body", [*SO, *NOT_SO])
@given(
    places=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    to=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    m=st.integers(-3, 5),
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_what_the_emulator_says(body: str, places: list[int], to: list[int], m: int) -> None:
    kernel, count = read_kernel(text(body)), len(places)
    arrays = {"at": np.array(places, "int32"), "to": np.array(to[:count], "int32")}
    arrays |= {"y": np.arange(ROOM, dtype="int32"), "z": np.zeros((3, 4), "int32")}
    wanted = emulate(kernel, arrays, {"m": m}, count)
    counted = Instrumented(kernel).bound([one.copy() for one in arrays.values()], {"m": m}, count)
    assert counted is not None and counted() == (not wanted.findings)


WRAPS = {
    "a long made an int": ("y[a] = 1; y[a - (int)m] = 2;", {"m": 2**32 + 2}, [2, 4]),
    "an int sum": ("long b = at[i] + 2 * r; y[a] = 1; y[b] = 2;", {"r": 2**31 - 1}, [2, 4]),
    "an int shifted": ("y[a] = 1; y[a - (r << 1)] = 2;", {"r": 2**31 - 1}, [2, 4]),
    "an int product": ("int d = r * c + 2; y[a] = 1; y[a + d] = 2;", {"r": 2**16, "c": 2**16}, [2, 4]),
    "rows": ("z[a][0] = 1; z[a + r * c + 1][0] = 2;", {"r": 2**16, "c": 2**16}, [0, 1]),
    "a long that does not wrap": ("long b = a + m; y[a] = 1; y[b - m + 2] = 2;", {"m": 2**40}, [2, 4]),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", WRAPS)
def test_ints_that_wrap_around_in_a_long_index(name: str, count: int) -> None:
    """Two instances meet; one alone does not."""
    body, given, places = WRAPS[name]
    values = {"m": 0, "r": 0, "c": 0} | given
    head = f"int i, int n, long m, int r, int c, const int at[n], inout int y[{ROOM}], inout int z[3][4]"
    kernel = read_kernel(f"void kernel({head}) {{ long a = at[i]; {body} }}")
    arrays = {"at": np.array(places[:count], "int32")}
    arrays |= {"y": np.zeros(ROOM, "int32"), "z": np.zeros((3, 4), "int32")}
    assert len(Watch.of(kernel, independent=False).beside) == 1
    wanted = emulate(kernel, arrays, values, count)
    assert {one.kind for one in wanted.findings} == ({"race"} if count > 1 else set())
    counted = Instrumented(kernel).bound([one.copy() for one in arrays.values()], values, count)
    assert counted is not None and counted() == (count == 1)


def test_of_more_places_than_half_of_all_ints_the_emulator_tells() -> None:
    kernel = read_kernel(text("y[at[i]] = 1; y[at[i] + m] = 2;"))
    ((array, found),) = Watch.of(kernel, independent=False).beside.items()
    scalars = dict.fromkeys(kernel.variables, 1)
    assert found.distances(scalars, {array: (2**31,)}) == [1]
    assert found.distances(scalars, {array: (2**31 + 1,)}) == [UNKNOWN]
    assert found.distances(scalars, {array: (1,)}) == [0]  # farther apart than there are places


def test_many_instances() -> None:
    kernel = read_kernel("void kernel(int i, int n, const int at[n], float y[2 * n]) { y[at[i]] = 1.0f; y[at[i] + n] = 2.0f; }")
    order = np.random.default_rng(0).permutation(100_000).astype("int32")
    code = Instrumented(kernel)
    arrays = {"at": order, "y": np.zeros(200_000, "float32")}
    assert not code.run(arrays, {}, 100_000).findings
    bad = order.copy()
    bad[70_000] = 100_000 + order[3]  # the second place of another one; its own second place is outside
    counted = code.bound([bad, arrays["y"]], {}, 100_000)
    assert counted is not None and not counted()
