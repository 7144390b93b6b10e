"""Kernels with barriers as phases without: the same results as the emulator gives for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pycparser")

from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.circuit.native_phases import NativePhases
from laminar.kernels.circuit.phases import END, phases, run_plan
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.print import print_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import Added, Barrier, Kernel, Loop, statements

HEAD = "void kernel(int i, int n, int m, const float x[n], float y[n])"
REDUCTION = """
    shared float t[8];
    t[i] = x[i];
    barrier();
    for (int s = 4; s > 0; s = s / 2) {
        if (i < s) t[i] += t[i + s];
        barrier();
    }
    y[i] = t[0] + i;"""
BODIES = {
    "straight": "shared float t[8]; t[i] = x[i]; barrier(); y[i] = t[n - 1 - i];",
    "a variable lives on": "shared float t[8]; float a = x[i] * 2; int k = i + 1; t[i] = a; barrier(); y[i] = a + t[k % n];",
    "a local array lives on": "shared float t[8]; float a[2]; a[0] = x[i]; a[1] = i; t[i] = a[0]; barrier(); y[i] = a[1] + t[0] + a[0];",
    "reduction": REDUCTION,
    "for": "for (int k = 0; k < m; k++) { y[i] += x[(i + k) % n]; barrier(); y[i] *= 2; }",
    "for with continue": "for (int k = 0; k < m; k++) { barrier(); if (x[i] > k) continue; y[i] += k; }",
    "for with break": "float s = 1; for (int k = 0; k < 9; k++) { s += k; barrier(); if (k == m) break; s *= 2; } y[i] = s;",
    "break before": "int k; for (k = 0; k < 9; k++) { if (k == m) break; barrier(); y[i] += k; } y[i] += k;",
    "while": "int k = m; while (k > 0) { y[i] += k; barrier(); k--; y[i] += 1; }",
    "do": "int k = 0; do { y[i] += k; barrier(); k++; } while (k < m);",
    "do once": "int k = 0; do { barrier(); y[i] = 1; if (k == 0) continue; y[i] = 5; } while (k > 0);",
    "loops in loops": """for (int a = 0; a < m; a++) {
        for (int b = 0; b < 2; b++) { y[i] += a; barrier(); y[i] += b; }
        y[i] *= 2; barrier(); }""",
    "if": "if (m > 2) { y[i] = 1; barrier(); y[i] += 2; } else { y[i] = 7; } y[i] += x[i];",
    "else": "float v = x[i]; if (m > 5) { y[i] = 1; } else { y[i] = v; barrier(); y[i] += v; } y[i] += v;",
    "if within for": "for (int k = 0; k < m; k++) { if (k == 1) { y[i] += 1; barrier(); } y[i] += k; }",
    "return": "y[i] = 1; barrier(); if (m == 3) return; y[i] = 2; barrier(); y[i] = 3;",
    "return from a loop": "for (int k = 0; k < 5; k++) { barrier(); y[i] += k; if (k == m) return; } y[i] = 9;",
    "a parameter that changes": "m = m + 1; barrier(); y[i] = m; m = m * 2; barrier(); y[i] += m;",
    "at the ends": "barrier(); y[i] = 1; barrier();",
    "declared before, set behind": "float s; barrier(); s = 1; y[i] = s;",
    "an array that is only written behind": "float w[2]; w[0] = x[i]; y[i] = w[0]; barrier(); w[1] = 1;",
    "an array of each round": "for (int k = 0; k < m; k++) { float w[2]; w[0] = x[i]; y[i] += w[0]; barrier(); w[1] = k; }",
    "an array that is set anew": "float w[1]; w[0] = x[i]; y[i] = w[0]; barrier(); w[0] = m; y[i] += w[0];",
    "a variable of each round": "for (int k = 0; k < m; k++) { float d = x[i]; y[i] += d; barrier(); d = k; y[i] += d; }",
    "never reached": "for (int k = 5; k < m; k++) { barrier(); y[i] = k; } y[i] += 1;",
}
CALLS = """
float sum(int i, int n, float v, float t[8]) {
    t[i] = v;
    barrier();
    float s = 0;
    for (int k = 0; k < n; k++) s += t[k];
    barrier();
    if (s > 100) return 100;
    return s;
}
void kernel(int i, int n, int m, const float x[n], float y[n]) {
    shared float t[8];
    float a = sum(i, n, x[i], t);
    float b = sum(i, n, a + i, t);
    while (sum(i, n, b, t) < 60.0f) { b = b + 1; y[i] += 1; }
    y[i] += a + b;
}
"""


def emulated(kernel: Kernel, arrays: Mapping[str, Any], values: Mapping[str, Any], count: int) -> None:
    report = emulate(kernel, arrays, values, count, seed=1)
    assert not [one.to_json() for one in report.findings]
    for name, array in report.outputs.items():
        arrays[name][...] = array


def check(source: str, m: int) -> int:
    """How many phases there are."""
    kernel = read_kernel(source)
    x = np.arange(8, dtype="float32") % 3
    whole = {"x": x, "y": np.zeros(8, "float32")}
    emulated(kernel, whole, {"m": m}, 8)
    plan = phases(kernel)
    assert not any(isinstance(one, Barrier) for phase in plan.phases for one in statements(phase.body))
    found = {"x": x, "y": np.zeros(8, "float32")}
    run_plan(plan, emulated, found, {"m": m}, 8)
    np.testing.assert_array_equal(found["y"], whole["y"])
    return len(plan.phases)


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("name", BODIES)
def test_phases_do_what_the_kernel_does(name: str, m: int) -> None:
    assert check(f"{HEAD} {{ {BODIES[name]} }}", m) == 1 + BODIES[name].count("barrier()")


def test_barriers_within_functions() -> None:
    assert check(CALLS, 1) == 7


def test_a_kernel_without_barriers_is_its_own_phase() -> None:
    kernel = read_kernel(f"{HEAD} {{ y[i] = x[i] + m; }}")
    plan = phases(kernel)
    assert plan.phases == (kernel,) and plan.after == {0: frozenset({END})} and not plan.added
    found = {"x": np.ones(3, "float32"), "y": np.zeros(3, "float32")}
    run_plan(plan, emulated, found, {"m": 2}, 3)
    assert found["y"].tolist() == [3, 3, 3]


def test_what_comes_after_what() -> None:
    plan = phases(read_kernel(f"{HEAD} {{ {REDUCTION} }}"))
    assert plan.after == {0: {END, 1}, 1: {END, 2}, 2: {END, 2}}
    assert [one.line for one in plan.barriers] == [4, 7]
    assert {one.name for one in plan.added} == {"t", "s_kept", "next"}


def test_only_what_is_needed_behind_is_kept() -> None:
    lines = "float a = x[i]; float b = a * 2; y[i] = b; barrier(); b = 3; y[i] += b + a;"
    plan = phases(read_kernel(f"{HEAD} {{ {lines} }}"))
    assert {one.name for one in plan.added} == {"a_kept", "next"}


def test_phases_are_kernels_like_any_other() -> None:
    for body in BODIES.values():
        for phase in phases(read_kernel(f"{HEAD} {{ {body} }}")).phases:
            assert all(one.verdict != "witness" for one in verdicts(phase) if one.kind in ("race", "bounds") and one.what == "`next`")
            assert read_kernel(print_kernel(phase), entry=phase.name).parameters


def test_divergent_barriers_have_no_phases() -> None:
    with pytest.raises(KernelError, match=r"^wait\.c:.*K16"):
        phases(read_kernel(f"{HEAD} {{ if (i > 2) barrier(); }}"), "wait.c")


NO_VALUE = {
    "one of two elements": "for (int k = 0; k < m; k++) { float w[2]; if (k == 0) w[1] = 5; barrier(); y[i] += w[1]; barrier(); }",
    "two dimensions": """for (int k = 0; k < m; k++) {
        int w[2][3];
        if (k < 1) w[1][2] = i;
        barrier();
        y[i] += w[1][2] + w[0][0];
        w[0][0] = 7; }""",
    "declared once": "float w[2]; for (int k = 0; k < m; k++) { if (k == 1) w[1] = 5; barrier(); y[i] += w[1]; barrier(); }",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NO_VALUE)
def test_elements_without_a_value_are_zero_in_every_round(name: str, threads: int) -> None:
    """Not what a round before, or another run, has left in them."""
    kernel, x = read_kernel(f"{HEAD} {{ {NO_VALUE[name]} }}"), np.ones(8, "float32")
    wanted = emulate(kernel, {"x": x, "y": np.zeros(8, "float32")}, {"m": 3}, 8)
    assert {one.kind for one in wanted.findings} == {"uninitialised"}
    y = np.zeros(8, "float32")
    NativePhases(kernel).run([x, y], [3], 8, threads)
    assert y.tolist() == wanted.outputs["y"].tolist()


def test_nothing_is_cleared_where_all_is_written() -> None:
    kernel = read_kernel(f"{HEAD} {{ {BODIES['an array of each round']} }}")
    assert not any(isinstance(one, Loop) and isinstance(one.at, Added) for phase in phases(kernel).phases for one in statements(phase.body))
