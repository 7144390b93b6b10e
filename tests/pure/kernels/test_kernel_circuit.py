"""Circuits: kernels split into functions compute what the whole computes, however many threads there are and whatever is guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, Cycle, Fork, build
from laminar.kernels.circuit.guess import Odds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.report import report
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

HEAVY = "float heavy(float a, int m) { float s = a; for (int k = 0; k < 300; k++) s = s * 0.99f + a * (float)m; return s; }\n"
SPLIT = """
void kernel(int i, int n, const float x[n], float y[n], float z[n]) {
    float v = x[i];
    float a = heavy(v, 1);
    float b = heavy(v, 2);
    float w[4] = {1, 2, 3, 4};
    for (int k = 0; k < 4; k++) w[k] += a;
    float r = heavy(w[2], 3);
    if (heavy(a, 4) > 30.0f) { r = heavy(b, 5) + 1.0f; } else r = -r;
    float t = r * 0.001f;
    while (heavy(t, 1) > 3.0f) { t = heavy(t, 0) * 0.5f; t = t - 0.001f; }
    y[i] = a + b + r;
    z[i] = t;
}
"""
NESTED = """
void kernel(int i, int n, const float x[n], float y[n]) {
    float s = 0.0f;
    int rounds = 0;
    do {
        if (heavy(x[i] + s, 2) > 100.0f) {
            s = s + heavy(s + 0.5f, 1);
            if (heavy(s, 3) < 0.0f) s = -s;
        } else {
            s = s + 0.25f;
        }
        rounds = rounds + 1;
    } while (rounds < 5 && heavy(s, 1) < 1000.0f);
    y[i] = s + (float)rounds;
}
"""
SHARED_LOCAL = """
void kernel(int i, int n, const float x[n], float y[n]) {
    float w[8];
    for (int k = 0; k < 8; k++) w[k] = x[i] * (float)k;
    float a = heavy(w[3], 1);
    float b = heavy(w[5], 2);
    w[0] = a;
    float c = heavy(w[0] + w[1], 3);
    y[i] = a + b + c + w[7];
}
"""
ARRAYS = """
void kernel(int i, int n, int shift, const float x[n], float t[n][2], float u[n + 8]) {
    for (int k = 0; k < 300; k++) t[i][0] = t[i][0] * 0.5f + x[i];
    for (int k = 0; k < 300; k++) t[i][1] = t[i][1] * 0.25f + x[i];
    for (int k = 0; k < 300; k++) u[i] = u[i] * 0.5f + t[i][0];
    for (int k = 0; k < 300; k++) u[i + shift] = u[i + shift] * 0.75f + t[i][1];
}
"""
ALL = {"split": SPLIT, "nested": NESTED, "local": SHARED_LOCAL}


def arrays_of(kernel: Kernel, count: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    made: dict[str, np.ndarray[Any, Any]] = {}
    for one in kernel.arrays:
        shape = {"t": (count, 2), "u": (count + 8,)}.get(one.name, (count,))
        made[one.name] = rng.normal(size=shape).astype(np.float32) if one.mode == "in" else np.zeros(shape, np.float32)
    return made


def whole(kernel: Kernel, count: int, **values: float) -> dict[str, np.ndarray[Any, Any]]:
    return emulate(kernel, arrays_of(kernel, count), values, count).outputs


def run(circuit: Circuit, kernel: Kernel, count: int, threads: int, odds: Odds | None = None, **values: float) -> Any:
    arrays = arrays_of(kernel, count)
    account = run_circuit(circuit, call, arrays, values, count, threads=threads, odds=odds, grain=0.0)
    return {one.name: arrays[one.name] for one in kernel.arrays if one.mode != "in"}, account


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [1, 7])
def test_a_circuit_computes_what_the_kernel_computes(name: str, count: int) -> None:
    kernel = read_kernel(HEAVY + ALL[name])
    expected = whole(kernel, count)
    circuit = build(kernel)
    assert len(circuit.functions) > 3
    for threads in (1, 2, 8):
        found, _ = run(circuit, kernel, count, threads)
        for array in expected:
            np.testing.assert_array_equal(found[array], expected[array], err_msg=f"{threads} threads")


class Always(Odds):
    """Guesses whenever it can."""

    def worth(self, function: Any, instances: int) -> bool:
        return True


@pytest.mark.parametrize("name", ALL)
def test_guesses_never_change_a_result(name: str) -> None:
    kernel = read_kernel(HEAVY + ALL[name])
    expected = whole(kernel, 5)
    circuit = build(kernel)
    for _ in range(10):
        found, account = run(circuit, kernel, 5, 3, Always())
        assert account.committed + account.thrown_away <= account.started  # one may still be under way
        for array in expected:
            np.testing.assert_array_equal(found[array], expected[array])


def test_conditions_and_loops_are_functions_of_their_own() -> None:
    circuit = build(read_kernel(HEAVY + SPLIT))
    forks = [one for one in circuit.steps if isinstance(one, Fork)]
    cycles = [one for one in circuit.steps if isinstance(one, Cycle)]
    assert len(forks) == 1 and len(cycles) == 1
    assert [one.kind for one in circuit.functions].count("condition") == 2
    assert all(one.guarded for one in (*forks[0].then, *forks[0].other) if hasattr(one, "guarded"))


def test_what_is_short_stays_one_function() -> None:
    circuit = build(read_kernel("void kernel(int i, int n, const float x[n], float y[n]) { float v = x[i]; if (v < 0) v = -v; y[i] = v; }"))
    assert len(circuit.functions) == 1


def test_every_two_functions_have_a_verdict() -> None:
    circuit = build(read_kernel(HEAVY + ARRAYS))
    pairs = Pairs(circuit)
    verdicts = {(one.first.lines[1], one.second.lines[1]): one for one in pairs.all()}
    count = len(circuit.functions)
    assert len(pairs.all()) == count * (count - 1) // 2
    kinds = {one.verdict for one in verdicts.values()}
    assert kinds == {"independent", "dependent", "run-time"}
    assert all(one.why for one in verdicts.values())


@pytest.mark.parametrize("shift", [0, 3])
def test_values_tell_whether_functions_meet(shift: int) -> None:
    kernel = read_kernel(HEAVY + ARRAYS)
    expected = whole(kernel, 1, shift=shift)
    found, _ = run(build(kernel), kernel, 1, 2, shift=shift)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_values_that_instances_change_are_their_own() -> None:
    text = """
    void kernel(int i, int n, float s, int m, const float x[n], float y[n]) {
        s += x[i];
        float a = heavy(s, m);
        m = i % 3;
        if (heavy(a, m) > 1.0f) { s = heavy(a, 2); m += 1; }
        for (int k = 0; k < 3; k++) s += heavy(s, m) * 0.001f;
        y[i] = s + heavy(a, m);
    }
    """
    kernel = read_kernel(HEAVY + text)
    expected = whole(kernel, 7, s=0.5, m=2)
    for long in (0.0, None):
        circuit = build(kernel) if long is None else build(kernel, long)
        assert len(circuit.functions) > 3
        for threads, odds in ((1, Odds()), (3, Always())):
            found, _ = run(circuit, kernel, 7, threads, odds, s=0.5, m=2)
            np.testing.assert_array_equal(found["y"], expected["y"])


def test_parameters_may_have_any_name() -> None:
    text = """
    void kernel(int i, int n, const float guard[n], const float test[n], float s_5_in[n], float a_4_out[n]) {
        float s = heavy(test[i], 1);
        float a = 1.0f;
        if (heavy(guard[i], 2) > 0.0f) a = heavy(s, 3);
        else a = heavy(s, 1);
        s_5_in[i] = heavy(s + a, 1);
        a_4_out[i] = a;
    }
    """
    kernel = read_kernel(HEAVY + text)
    expected = whole(kernel, 6)
    for long in (0.0, 100.0):
        found, _ = run(build(kernel, long), kernel, 6, 2)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("index", ["i + n", "i + n * many", "i + 2147483647 + 2147483647 + 2"])
def test_functions_are_apart_by_the_number_of_instances_and_after_wrapping_around(index: str) -> None:
    """With 4 instances and `many` of 2^30, `n * many` is 0."""
    text = f"""
    void kernel(int i, int n, int many, inout float u[n + 8]) {{
        for (int k = 0; k < 300; k++) u[i] = u[i] * 0.5f + 1.0f;
        for (int k = 0; k < 300; k++) u[{index}] = u[{index}] * 0.75f + 2.0f;
    }}
    """
    kernel = read_kernel(text)
    expected = whole(kernel, 4, many=2**30)
    circuit = build(kernel)
    for threads in (1, 2):
        found, _ = run(circuit, kernel, 4, threads, many=2**30)
        np.testing.assert_array_equal(found["u"], expected["u"])
    if index != "i + n":
        first, second = [one for one in circuit.functions if one.writes]
        (array,) = first.writes
        assert not Pairs(circuit).apart({"many": 2**30}, 4)(first, second, array), "both are u[i]"


@pytest.mark.parametrize("threads", [1, 2])
def test_instances_that_meet_in_different_functions_keep_their_order(threads: int) -> None:
    """The fifth instance's element is also written by all others, in the first function."""
    text = """
    void kernel(int i, int n, const float x[n], out float y[n]) {
        y[5] = x[i];
        y[i] = x[i] * 2.0f;
    }
    """
    kernel = read_kernel(text)
    circuit = build(kernel, 0.0)
    assert len(circuit.functions) > 1
    found, _ = run(circuit, kernel, 9, threads)
    np.testing.assert_array_equal(found["y"], whole(kernel, 9)["y"])


def test_what_goes_wrong_in_a_wrong_guess_does_not_count() -> None:
    text = """
    void kernel(int i, int n, int at, const float x[n], float y[n]) {
        float r = 0.0f;
        if (heavy(x[i], 1) > 1e9f) { r = heavy(x[at], 2); }
        y[i] = r;
    }
    """
    kernel = read_kernel(HEAVY + text)
    found, _ = run(build(kernel), kernel, 2, 3, Always(), at=1000)
    assert not found["y"].any()


def test_what_goes_wrong_is_told() -> None:
    text = "void kernel(int i, int n, int at, const float x[n], float y[n]) { float a = heavy(x[at], 2); y[i] = a + heavy(x[i], 1); }"
    kernel = read_kernel(HEAVY + text)
    with pytest.raises(LaminarError, match="x"):
        run(build(kernel), kernel, 2, 2, at=1000)


def test_a_report_says_what_waits_for_what() -> None:
    found = report(read_kernel(HEAVY + SPLIT))
    assert found.work > found.span > 0
    json = found.to_json()
    assert len(json["functions"]) == len(found.circuit.functions)  # type: ignore[arg-type]
    assert "independent" in found.text() and "dependent" in found.text()
    assert found.svg("split.c").startswith("<svg") and "condition" in found.svg("split.c")
    assert any(edge.next_round for edge in found.edges)


def test_phases_between_barriers_are_functions_that_wait_for_each_other() -> None:
    text = """
    void kernel(int i, int n, const float x[n], float y[n]) {
        shared float t[64];
        t[i] = x[i];
        for (int k = 1; k < n; k = k * 2) {
            barrier();
            float v = i >= k ? t[i - k] : 0.0f;
            barrier();
            t[i] = t[i] + v;
        }
        y[i] = t[i];
    }
    """
    found = report(read_kernel(text))
    assert [one.name for one in found.circuit.functions] == ["phase 0", "phase 1", "phase 2"]
    assert {(one.source, one.target) for one in found.edges} >= {(0, 1), (1, 2), (2, 1)}
    assert all(one.verdict == "dependent" for one in found.pairs) and found.svg("scan.c").startswith("<svg")
