"""Native code that counts, of kernels with barriers: the emulator's report, and nothing is missed or made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_emulated_mistakes import CASES, N, written
from test_kernel_phases import BODIES, HEAD

from laminar.kernels.arguments import arguments
from laminar.kernels.circuit.counted_phases import CountedPhases, counted
from laminar.kernels.compile.native import waits
from laminar.kernels.emulate.report import Report
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

WAITING = {name: case for name, case in CASES.items() if waits(read_kernel(written(case)[0]))}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def told(report: Report) -> list[Any]:
    strides = sorted(f"{one.at} {one.object.name} {one.kind} {one.stride}" for one in report.accesses if one.stride is not None)
    outputs = {name: array.tolist() for name, array in report.outputs.items()}
    return [report.counts, report.lines, report.objects, report.findings, strides, outputs]


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("name", BODIES)
def test_the_emulators_report(name: str, m: int) -> None:
    kernel = read_kernel(f"{HEAD} {{ {BODIES[name]} }}")
    arrays = {"x": np.arange(8, dtype="float32") % 3, "y": np.zeros(8, "float32")}
    made = CountedPhases.of(kernel)
    assert made is not None
    got = made.run(arrays, {"m": m}, 8)
    assert got is not None and told(got) == told(emulate(kernel, arrays, {"m": m}, 8))
    assert not arrays["y"].any(), "arrays stay as they are"


@pytest.mark.parametrize("name", WAITING)
def test_nothing_is_missed_and_nothing_made_up(name: str) -> None:
    case = WAITING[name]
    source, given = written(case)
    kernel = read_kernel(source)
    called = arguments(kernel, given, N)
    made = CountedPhases.of(kernel, empty=case.empty)
    got = made.run(called.arrays, called.values, called.count) if made is not None else None
    wanted = emulate(kernel, called.arrays, called.values, called.count, empty=case.empty)
    if wanted.findings:
        assert got is None, "the emulator tells it"
    elif got is not None:
        assert told(got) == told(wanted)
    assert told(counted(kernel, called.arrays, called.values, called.count, empty=case.empty)) == told(wanted)


SUMS = """void kernel(int i, int n, int m, const float x[n], float y[n]) {
    shared float t[512];
    float a[2];
    a[0] = x[i];
    t[i] = a[0];
    barrier();
    for (int s = 256; s > 0; s /= 2) {
        if (i < s && i + s < n) t[i] += t[i + s];
        barrier();
    }
    a[1] = t[0];
    y[i] = a[0] / a[1];
}"""


def test_many_instances() -> None:
    kernel = read_kernel(SUMS)
    arrays = {"x": np.ones(500, "float32"), "y": np.zeros(500, "float32")}
    made = CountedPhases.of(kernel)
    assert made is not None
    got = made.run(arrays, {"m": 1}, 500)
    wanted = emulate(kernel, arrays, {"m": 1}, 500)
    assert got is not None
    assert [got.counts, got.lines, got.objects, got.findings] == [wanted.counts, wanted.lines, wanted.objects, wanted.findings]
    assert np.array_equal(got.outputs["y"], np.full(500, 0.002, "float32"))


def test_what_phases_cannot_tell_is_the_emulators() -> None:
    unsure = read_kernel(f"{HEAD} {{ float v; if (x[i] > 1) v = 1; barrier(); if (x[i] > 1) y[i] = v; }}")
    twice = read_kernel(
        "float f(float t[8], int k) { return t[k]; }" + HEAD + "{ shared float t[8]; t[i] = 1; barrier(); y[i] = f(t, 1) + f(t, 2); }"
    )
    assert CountedPhases.of(unsure) is None and CountedPhases.of(twice) is None
    arrays = {"x": np.arange(8, dtype="float32"), "y": np.zeros(8, "float32")}
    for kernel in (unsure, twice):
        assert told(counted(kernel, arrays, {"m": 1}, 8)) == told(emulate(kernel, arrays, {"m": 1}, 8))


def test_a_loop_over_barriers_that_has_no_end() -> None:
    kernel = read_kernel(f"{HEAD} {{ int k = 1; while (k > 0) {{ barrier(); k = 1; y[i] = k; }} }}")
    arrays = {"x": np.zeros(8, "float32"), "y": np.zeros(8, "float32")}
    made = CountedPhases.of(kernel, steps=100)
    assert made is not None and made.run(arrays, {"m": 1}, 8) is None


def test_what_stands_in_a_phase_twice_is_counted_for_itself() -> None:
    """The round that goes on behind a barrier and the rounds after it are two pieces of a phase, also where they begin with a name."""
    lines = "float s = 0; for (int r = 0; r < 2; r++) { for (int c = 0; c < m; c++) barrier(); float d = x[i]; s += d; } y[i] = s;"
    kernel = read_kernel(f"{HEAD} {{ {lines} }}")
    arrays = {"x": np.ones(4, "float32"), "y": np.zeros(4, "float32")}
    made = CountedPhases.of(kernel)
    assert made is not None
    got = made.run(arrays, {"m": 2}, 4)
    assert got is not None and sum(one.times for one in got.accesses if one.object.name == "x") == 8
    assert told(got) == told(emulate(kernel, arrays, {"m": 2}, 4))


OLD = "for (int r = 0; r < 2; r++) { float w[2]; if (r == 0) { w[0] = x[i]; w[1] = 1; } barrier(); s += w[0] + w[1]; }"


def test_a_local_array_of_a_round_does_not_have_the_values_of_the_last() -> None:
    kernel = read_kernel(f"{HEAD} {{ float s = 0; {OLD} y[i] = s; }}")
    arrays = {"x": np.ones(4, "float32"), "y": np.zeros(4, "float32")}
    assert CountedPhases.of(kernel) is None
    got = counted(kernel, arrays, {"m": 1}, 4)
    assert {one.kind for one in got.findings} == {"uninitialised"}
    assert told(got) == told(emulate(kernel, arrays, {"m": 1}, 4))


def test_a_local_array_that_is_declared_once_is_watched_natively() -> None:
    lines = "float w[2]; w[i % 2] = x[i]; barrier(); y[i] = w[{}];"
    arrays = {"x": np.ones(4, "float32"), "y": np.zeros(4, "float32")}
    for place, fine in (("i % 2", True), ("0", False)):
        kernel = read_kernel(f"{HEAD} {{ {lines.format(place)} }}")
        made = CountedPhases.of(kernel)
        assert made is not None and (made.run(arrays, {"m": 1}, 4) is not None) == fine
        assert told(counted(kernel, arrays, {"m": 1}, 4)) == told(emulate(kernel, arrays, {"m": 1}, 4))
