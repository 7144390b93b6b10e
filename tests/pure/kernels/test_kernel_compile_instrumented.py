"""Native code with counters: the emulator's counts, and its findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated_kernels import SIZE, TYPES, VALUES, kernels, named
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_emulated_mistakes import CASES, N, written

from laminar.kernels.arguments import DTYPES, arguments
from laminar.kernels.compile.instrumented import WINDOW, Instrumented, instrumented
from laminar.kernels.compile.regions import Regions
from laminar.kernels.compile.watch import Watch
from laminar.kernels.emulate.report import Report
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def same(source: str, count: int | None = None, **given: Any) -> Report:
    kernel = read_kernel(source)
    called = arguments(kernel, given, count)
    wanted = emulate(kernel, called.arrays, called.values, called.count)
    got = instrumented(kernel, called.arrays, called.values, called.count)
    assert got.counts == wanted.counts
    assert got.lines == wanted.lines
    assert got.objects == wanted.objects
    assert got.findings == wanted.findings
    if called.count <= WINDOW:  # of more, native code compares some
        assert strides(got) == strides(wanted)
    for name, array in wanted.outputs.items():
        assert np.array_equal(got.outputs[name], array, equal_nan=array.dtype.kind == "f")
    return got


def strides(report: Report) -> list[str]:
    return sorted(f"{one.at} {one.object.name} {one.kind} {one.stride}" for one in report.accesses if one.stride is not None)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_counts_of_blocks_in_registers() -> None:
    source = """void kernel(int i, int count, int n, int m, int depth, const float a[n][depth], const float b[depth][m], float c[n][m]) {
        int row = i / m;
        int col = i % m;
        float sum = 0.0f;
        for (int k = 0; k < depth; k++)
            if (k > 0 && col > k && b[k][col] > 0.0f) sum += a[row][k] * b[k][col];
        c[row][col] += sum;
    }"""
    found = same(source, 9 * 70, a=numbers(9, 4), b=numbers(4, 70), c=np.ones((9, 70), "float32"))
    assert found.counts["global"].writes == 9 * 70


def test_races_are_found_where_they_are_not_excluded() -> None:
    found = same("void kernel(int i, int n, float y[n]) { if (i > 0) y[i] = y[i] + y[i - 1]; }", y=numbers(30))
    assert [one.kind for one in found.findings] == ["race"]


def test_a_scatter_without_a_race() -> None:
    source = "void kernel(int i, int n, const int at[n], const float x[n], float y[n]) { y[at[i]] = x[i] + y[at[i]]; }"
    found = same(source, at=np.random.default_rng(0).permutation(40).astype("int32"), x=numbers(40), y=numbers(40))
    assert not found.findings


def test_division_by_zero_and_bounds() -> None:
    zero = same("void kernel(int i, int n, const int a[n], int y[n]) { y[i] = 7 / a[i]; }", a=np.arange(20, dtype="int32"))
    assert [one.kind for one in zero.findings] == ["division-by-zero"]
    beyond = same("void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i + 1]; }", x=numbers(20))
    assert [one.kind for one in beyond.findings] == ["out-of-bounds"]


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_missed_and_nothing_made_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By code that records, and by code that does not. What was found is told by the emulator; barriers: test_kernel_counted_phases.py."""
    case = CASES[name]
    source, given = written(case)
    kernel = read_kernel(source)
    called = arguments(kernel, given, N)
    watched = Instrumented(kernel, empty=case.empty)
    for window in (0, WINDOW):
        monkeypatch.setattr("laminar.kernels.compile.instrumented.WINDOW", window)
        run = watched.bound([np.array(called.arrays[one.name]) for one in kernel.arrays], called.values, called.count)
        if run is None:
            assert "barrier()" in case.body or "shared" in case.body or "wait(" in case.body
        else:
            assert [run(), run()] == [not case.finds] * 2


def test_an_element_that_several_read_or_change_is_no_race() -> None:
    """Where it is not known before which elements instances meet over."""
    source = """void kernel(int i, int n, int m, const int at[n], inout float y[m], inout float z[m]) {
        float v = y[at[i] / 2 * 2 + 1];
        y[at[i] * 2] += v + y[at[i] / 2 * 2 + 1];
        atomic_add(&z[at[i] / 2], v);
        z[at[i] + 4] = v;
    }"""
    at = np.arange(8, dtype="int32")
    assert not same(source, at=at, y=numbers(16), z=numbers(16)).findings
    again = same(source, at=np.append(at, at[:1]), y=numbers(16), z=numbers(16))
    assert {(one.kind, one.object) for one in again.findings} == {("race", "y"), ("race", "z")}


@pytest.mark.parametrize(
    ("body", "sort"),
    [
        ("y[at[i]] = 1; y[at[i]] += y[at[i]];", "once"),
        ("int k = at[i]; y[k] = 1; if (i > 2) y[k] = 2; for (int j = 0; j < 3; j++) y[k] += j;", "once"),
        ("if (at[i] > 3) y[at[i]] = 1; else y[at[i]] += 2;", "once"),
        ("int k = at[i]; y[k] = 1; k = at[n - 1 - i]; y[k] = 2;", "few"),
        ("int k = at[i]; if (i > 2) y[k] = 1; y[k] = 2;", "few"),
        ("int k = at[i]; for (int j = 0; j < 3; j++) { y[k] = j; k = at[n - 1 - i]; }", "owner"),
        ("y[at[i]] = y[at[n - 1 - i]];", "few"),
        ("y[at[i]] = 1; y[at[i] / 2] = 1; y[at[i] / 3] = 1; y[at[i] / 4] = 1; y[at[i] / 5] = 1;", "owner"),
    ],
)
def test_one_look_is_enough_where_an_instance_comes_back(body: str, sort: str) -> None:
    source = f"void kernel(int i, int n, const int at[n], inout float y[n]) {{ {body} }}"
    watch = Watch.of(read_kernel(source), independent=False)
    assert list(watch.races.values()) == [sort]
    order = np.random.default_rng(0).permutation(40).astype("int32")
    same(source, at=order, y=numbers(40))
    order[7] = order[30]
    assert same(source, at=order, y=numbers(40)).findings


def test_empty_arrays_are_watched_in_lanes() -> None:
    source = """void kernel(int i, int n, const float x[n], inout float y[n], float z[n]) {
        if (x[i] > 0.0f) y[i] = x[i];
        z[i] = x[i] > 0.0f ? y[i] : 0;
    }"""
    kernel = read_kernel(source)
    called = arguments(kernel, {"x": numbers(300), "y": numbers(300)})
    assert not instrumented(kernel, called.arrays, called.values, 300, empty=("y",)).findings
    worse = read_kernel(source.replace(": 0", ": y[i]"))
    found = instrumented(worse, called.arrays, called.values, 300, empty=("y",)).findings
    assert [(one.kind, one.times) for one in found] == [("uninitialised", int((called.arrays["x"] <= 0).sum()))]


def test_strides_of_many_instances() -> None:
    source = """void kernel(int i, int count, int n, const float a[n][n], const float b[n][n], const int at[n], float c[n][n]) {
        int row = i / n;
        int col = i % n;
        float sum = b[col][row];
        for (int k = 0; k < n; k++) sum += a[row][k] * b[k][col] + a[row][at[col]];
        c[row][col] = sum;
    }"""
    at = np.random.default_rng(0).permutation(40).astype("int32")
    report = same(source, 40 * 40, a=numbers(40, 40), b=numbers(40, 40), at=at)
    told = {(one.object.name, one.at.line): one.stride for one in report.accesses if one.stride is not None and one.object.name != "a"}
    assert [(name, one.pattern, one.stride) for (name, _), one in told.items()] == [
        ("b", "strided", 40),
        ("b", "contiguous", 1),
        ("at", "contiguous", 1),
        ("c", "contiguous", 1),
    ]
    assert {one.stride.pattern for one in report.accesses if one.object.name == "a" and one.stride is not None} == {"broadcast", "gather"}


def test_barriers_are_the_emulators() -> None:
    source = """void kernel(int i, int n, const float x[n], float y[n]) {
        shared float t[8];
        t[i] = x[i];
        barrier();
        y[i] = t[n - 1 - i];
    }"""
    assert not same(source, x=numbers(8)).findings


ROUNDS = """void kernel(int i, int n, const int a[n], int y[n]) {
    int v = 0;
    for (int k = 0; k < a[i]; k++) {
        if (k == 7) break;
        if (k % 3 == i % 3) continue;
        if (k > i) v += a[k]; else v -= a[i];
    }
    do { v++; if (v > 20) break; if (v % 2) continue; v += a[0]; } while (v < 5);
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < k; j++) v += k == j + 1 && a[j] > v || a[k] < 0 ? a[k] : j;
    y[i] = v;
}"""


def test_what_is_not_counted_follows_from_what_is() -> None:
    regions = Regions.of(read_kernel(ROUNDS))
    assert 0 < len(regions.sums) < len(regions.numbers)  # else there is nothing to be seen here
    same(ROUNDS, a=np.random.default_rng(0).integers(-2, 12, 40).astype("int32"))


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.one_of(kernels(), kernels(digits=True)))
def test_generated_programs_are_counted_alike(text: str) -> None:
    count, rng = 21, np.random.default_rng(1)
    inputs = [rng.integers(-5, 20, count).astype("int32"), rng.standard_normal(count).astype("float32")]
    inputs += [rng.integers(-5, 20, SIZE).astype("int32"), rng.standard_normal(SIZE).astype("float32")]
    kernel = read_kernel(text)
    arrays = named(kernel.arrays, [*inputs, *(np.zeros(count, DTYPES[type_]) for type_ in TYPES)])
    values = named(kernel.values, VALUES)
    wanted, got = emulate(kernel, arrays, values, count), instrumented(kernel, arrays, values, count)
    assert got.counts == wanted.counts, text
    assert got.lines == wanted.lines, text
    assert strides(got) == strides(wanted), text


FEW = """void kernel(int i, int n, const int at[n], const int to[n], const int of[n], int y[n], int z[n]) {
    if (at[i] >= 0) y[at[i]] = i;
    if (of[i] >= 0) z[i] = y[of[i]];
    if (to[i] >= 0) y[to[i]] = 2 * i;
}"""


@pytest.mark.parametrize(
    ("at", "to", "of", "races"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], False),  # all of it one's own
        ([0, 1, -1, -1], [2, 3, -1, -1], [0, 3, -1, -1], False),  # read before it is written, by the same one
        ([0, -1, -1, -1], [-1, 0, -1, -1], [-1, -1, -1, -1], True),  # an earlier instance's place, which this one did not come by
        ([0, -1, -1, -1], [-1, 0, -1, -1], [-1, 1, -1, -1], True),
        ([-1, -1, -1, -1], [-1, -1, -1, -1], [2, 2, 2, 2], False),  # all read
        ([-1, -1, -1, -1], [-1, -1, 2, -1], [2, -1, 2, -1], True),  # two read it, one of them writes
        ([-1, -1, -1, -1], [-1, -1, 2, -1], [-1, -1, 2, -1], False),
        ([-1, -1, -1, -1], [-1, -1, 2, -1], [-1, -1, -1, 2], True),  # read after somebody wrote it
        ([1, -1, -1, -1], [1, -1, -1, -1], [1, -1, -1, -1], False),
        ([1, -1, -1, -1], [1, -1, 1, -1], [1, -1, -1, -1], True),
    ],
)
def test_an_instance_knows_itself_where_it_has_been(at: list[int], to: list[int], of: list[int], races: bool) -> None:
    kernel = read_kernel(FEW)
    assert Watch.of(kernel, independent=False).races[next(one for one in kernel.objects if one.name == "y")] == "few"
    places = {name: np.array(some, "int32") for name, some in (("at", at), ("to", to), ("of", of))}
    found = same(FEW, 4, **places, y=np.zeros(4, "int32"), z=np.zeros(4, "int32"))
    assert bool(found.findings) == races


@given(st.lists(st.tuples(*[st.integers(-1, 3)] * 3), min_size=4, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_bytes_say_is_what_the_emulator_says(rows: list[tuple[int, int, int]]) -> None:
    at, to, of = (np.array([row[k] for row in rows], "int32") for k in range(3))
    kernel = read_kernel(FEW)
    arrays = {"at": at, "to": to, "of": of, "y": np.zeros(4, "int32"), "z": np.zeros(4, "int32")}
    wanted = emulate(kernel, arrays, {}, 4)
    counted = Instrumented(kernel).bound([one.copy() for one in arrays.values()], {}, 4)
    assert counted is not None and counted() == (not wanted.findings)
