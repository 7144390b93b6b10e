"""Loops that count, as circuits: rounds that leave each other alone run at once, and every result is the kernel's own, bit by bit."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from laminar.kernels.arguments import DTYPES, shape_of
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, Series, build
from laminar.kernels.circuit.estimate import Rounds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.report import report
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

HEAVY = "float heavy(float a, int rounds) { float s = a; for (int k = 0; k < rounds; k++) s = s * 0.99f + a; return s; }\n"
HEAD = "void kernel(int i, int count, int n, int rounds, const float x[n], out float y[n], out float z[n][n])"
SQUARE = "for (int r = 0; r < n; r++) for (int c = 0; c < n; c++) z[r][c] = heavy(x[r] + x[c], rounds);"
BODIES = {
    "each round its own": "for (int t = 0; t < n; t++) y[t] = heavy(x[t], rounds);",
    "two halves": """
        int half = n / 2;
        for (int t = 0; t < half; t++) y[t] = heavy(x[t], rounds);
        for (int t = half; t < n; t++) y[t] = heavy(x[t], rounds) + 1.0f;""",
    "two parts that meet": """
        for (int t = 0; t <= n / 2; t++) y[t] = heavy(x[t], rounds);
        for (int t = n / 2; t < n; t++) y[t] = y[t] + heavy(x[t], rounds);""",
    "even and odd": """
        for (int t = 0; t < n; t += 2) y[t] = heavy(x[t], rounds);
        for (int t = 1; t < n; t += 2) y[t] = heavy(y[t - 1], rounds);""",
    "downwards": "for (int t = n - 1; t >= 0; t--) y[t] = heavy(x[t], rounds);",
    "downwards by three": "for (int t = n - 1; t > 2; t -= 3) y[t] = heavy(x[t - 1], rounds);",
    "each from the one before": "for (int t = 1; t < n; t++) y[t] = heavy(x[t], rounds) + y[t - 1];",
    "a chain": "for (int t = 1; t < n; t++) y[t] = heavy(y[t - 1] + x[t], rounds);",
    "each from the one behind": "for (int t = 0; t < n - 1; t++) { y[t] = heavy(x[t], rounds); y[t + 1] = y[t] * 0.5f; }",
    "four apart": "for (int t = 4; t < n; t++) y[t] = heavy(y[t - 4] + x[t], rounds);",
    "turned round": "for (int t = 0; t < n; t++) y[t] = heavy(y[n - 1 - t] + x[t], rounds);",
    "rounds within rounds": SQUARE,
    "triangle": "for (int r = 0; r < n; r++) for (int c = 0; c < r; c++) z[r][c] = heavy(x[c], rounds) + z[c][r];",
    "wave": """
        for (int r = 1; r < n; r++)
            for (int c = 1; c < n; c++) z[r][c] = heavy(x[r], rounds) + z[r - 1][c] * 0.5f + z[r][c - 1] * 0.25f;""",
    "blocks": """
        for (int b = 0; b < n; b += 4) {
            int end = b + 4 < n ? b + 4 : n;
            for (int t = b; t < end; t++) y[t] = heavy(x[t], rounds);
            for (int t = b; t < end; t++) for (int c = 0; c < n; c++) z[t][c] = heavy(y[t], rounds) + x[c];
        }""",
    "several in a round": """
        for (int t = 0; t < n; t++) {
            float a = heavy(x[t], rounds);
            float b = heavy(x[t] + 1.0f, rounds);
            if (heavy(a, rounds) > 0.5f) a = heavy(b, rounds); else b = a;
            y[t] = a + b;
        }""",
    "a loop and what is behind it": """
        for (int t = 0; t < n; t++) y[t] = heavy(x[t], rounds);
        y[0] = heavy(y[n - 1], rounds) + y[n / 2];""",
    "within a condition": "if (x[0] < 9.0f) { for (int t = 0; t < n; t++) y[t] = heavy(x[t], rounds); }",
    "in a loop that does not count": """
        float s = 0.0f;
        while (heavy(s, rounds) < 3.0f) { for (int t = 0; t < n; t++) y[t] = y[t] + heavy(x[t] + s, rounds); s = s + 1.0f; }""",
    "an array of a round's own": """
        for (int t = 0; t < n; t++) {
            float w[4];
            for (int k = 0; k < 4; k++) w[k] = heavy(x[t] * (float)k, rounds);
            y[t] = w[0] + w[1] + w[2] + w[3];
        }""",
    "an array of all rounds": """
        float w[64];
        for (int t = 0; t < n; t++) w[t] = heavy(x[t], rounds);
        for (int t = 0; t < n; t++) y[t] = w[n - 1 - t] + heavy(w[t], rounds);""",
    "a sum": "float s = 0.0f; for (int t = 0; t < n; t++) s += heavy(x[t], rounds); y[0] = s;",
    "a bound that rounds change": "for (int t = 0; (float)t < y[0] * 0.01f + 5.0f; t++) y[t] = heavy(x[t], rounds);",
    "a way out": "for (int t = 0; t < n; t++) { if (x[t] > 0.9f) break; y[t] = heavy(x[t], rounds); }",
    "a round that is left out": "for (int t = 0; t < n; t++) { if (x[t] > 0.5f) continue; y[t] = heavy(x[t], rounds); }",
    "no rounds": "for (int t = n; t < n; t++) y[t] = heavy(x[t], rounds); y[0] = 1.0f;",
    "wherever the array says": "for (int t = 0; t < n; t++) { int at = (int)(x[t] * 3.0f) + 5; y[at] = y[at] + heavy(x[t], rounds); }",
    "a step back": "for (int t = 0; t < n; t++) y[(t * 7) % n] = heavy(x[t], rounds) + y[t];",
}


def arrays_of(kernel: Kernel, values: Mapping[str, int], count: int = 1) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    scalars = {kernel.count: count, **{one.of: values[one.name] for one in kernel.values}}
    made: dict[str, np.ndarray[Any, Any]] = {}
    for one in kernel.arrays:
        shape, type_ = shape_of(one.of, scalars), DTYPES[one.of.type]  # type: ignore[arg-type]
        made[one.name] = rng.uniform(-1, 1, shape).astype(type_) if one.mode == "in" else np.zeros(shape, type_)
    return made


def compare(text: str, values: Mapping[str, int], count: int = 1) -> Circuit:
    """Split as far as it goes, and as a run would be."""
    kernel = read_kernel(text)
    wanted = emulate(kernel, arrays_of(kernel, values, count), values, count).outputs
    circuit = build(kernel, 0.0)
    for threads, grain in ((1, 0.0), (2, 0.0), (5, 0.0), (2, 600e-6)):
        arrays = arrays_of(kernel, values, count)
        run_circuit(circuit, call, arrays, values, count, threads=threads, grain=grain)
        for name, array in wanted.items():
            assert arrays[name].tobytes() == array.tobytes(), f"`{name}` with {threads} threads: {arrays[name]}, and not {array}"
    return circuit


@pytest.mark.parametrize("name", BODIES)
def test_rounds_that_run_at_once_give_what_the_kernel_gives(name: str) -> None:
    compare(f"{HEAVY}{HEAD} {{ {BODIES[name]} }}", {"n": 13, "rounds": 40})


def test_instances_have_loops_of_their_own() -> None:
    text = f"{HEAVY}void kernel(int i, int count, int n, int rounds, const float x[n], out float z[count][n])"
    compare(f"{text} {{ for (int t = 0; t < n; t++) z[i][t] = heavy(x[t] + (float)i, rounds); }}", {"n": 9, "rounds": 20}, count=5)


def test_instances_that_may_meet_run_in_order() -> None:
    text = (
        "void kernel(int i, int count, int n, inout float y[n], inout float z[n]) { y[0] = y[0] + 1.0f; z[i] = y[0] * 2.0f; y[0] = z[i]; }"
    )
    compare(text, {"n": 6}, count=6)


@pytest.mark.parametrize(
    ("loop", "n"),
    [
        ("for (int t = m; t < m + 3; t++) y[t - m] = heavy(x[t - m], 9);", 2**31 - 4),
        ("for (int t = m; t <= m + 2; t += 2) y[t - m] = heavy(x[t - m], 9);", 2**31 - 6),
        ("for (int t = m; t > m - 3; t--) y[m - t] = heavy(x[m - t], 9);", -(2**31) + 3),
        ("for (long t = l; t < l + 3L; t++) y[t - l] = heavy(x[t - l], 9);", 5),
        ("for (int t = m; t < 0; t++) { if (t + 3 > 0) y[-t] = heavy(x[-t], 9); }", -4),
    ],
)
def test_counters_near_the_limits_of_their_type(loop: str, n: int) -> None:
    text = f"{HEAVY}void kernel(int i, int count, int m, long l, const float x[8], out float y[8]) {{ {loop} }}"
    compare(text, {"m": n, "l": 2**62})


def steps(body: str) -> tuple[Any, ...]:
    return build(read_kernel(f"{HEAVY}{HEAD} {{ {body} }}")).steps


def test_a_loop_that_counts_is_cut_into_rounds() -> None:
    (one,) = steps(BODIES["each round its own"])
    assert isinstance(one, Series) and not one.body
    (outer,) = steps(BODIES["wave"])
    assert isinstance(outer, Series) and isinstance(outer.body[0], Series)


@pytest.mark.parametrize("name", ["a sum", "a way out", "a bound that rounds change"])
def test_a_loop_whose_rounds_need_each_other_stays_whole(name: str) -> None:
    assert not any(isinstance(one, Series) for one in steps(BODIES[name]))


def test_functions_are_compiled_once_for_all_rounds() -> None:
    circuit = build(read_kernel(f"{HEAVY}{HEAD} {{ {SQUARE} }}"))
    assert len(circuit.functions) == 1


def test_a_report_says_whether_rounds_and_halves_leave_each_other_alone() -> None:
    found = report(read_kernel(f"{HEAVY}{HEAD} {{ {BODIES['two halves']} }}"))
    assert [one.verdict for one in found.rounds] == ["independent", "independent"]
    assert [one.verdict for one in found.pairs] == ["independent"]
    assert found.work > 50 * found.span
    met = report(read_kernel(f"{HEAVY}{HEAD} {{ {BODIES['two parts that meet']} }}"))
    assert [one.verdict for one in met.pairs] == ["run-time"]
    wave = report(read_kernel(f"{HEAVY}{HEAD} {{ {BODIES['each from the one before']} }}"))
    assert [one.verdict for one in wave.rounds] == ["run-time"] and "loop in line" in wave.text()


class Together:
    """Runs natively, and knows how many calls were under way at once: each waits for a second one, but not for long."""

    def __init__(self) -> None:
        self.most, self._now, self._met = 0, 0, threading.Condition()

    def __call__(self, *given: Any) -> None:
        with self._met:
            self._now += 1
            self.most = max(self.most, self._now)
            self._met.notify_all()
            self._met.wait_for(lambda: self.most > 1, timeout=0.3)
        call(*given)
        with self._met:
            self._now -= 1


@pytest.mark.parametrize(("name", "most"), [("each round its own", 2), ("two halves", 2), ("wave", 2), ("four apart", 2), ("a chain", 1)])
def test_what_leaves_each_other_alone_runs_at_once(name: str, most: int) -> None:
    kernel = read_kernel(f"{HEAVY}{HEAD} {{ {BODIES[name]} }}")
    values, together = {"n": 4 if most == 1 else 16, "rounds": 10}, Together()
    run_circuit(build(kernel, 0.0), together, arrays_of(kernel, values), values, 1, threads=2, grain=0.0)
    assert together.most == most


def test_short_rounds_stay_together() -> None:
    """Tasks are as many as are worth it, however many rounds there are."""
    kernel = read_kernel(f"{HEAVY}{HEAD} {{ {SQUARE} }}")
    values, made = {"n": 200, "rounds": 3}, []

    def counted(*given: Any) -> None:
        made.append(1)
        call(*given)

    run_circuit(build(kernel), counted, arrays_of(kernel, values), values, 1, threads=2)
    assert len(made) <= 16


def test_issuing_many_tasks_takes_little_for_each() -> None:
    kernel = read_kernel(f"{HEAVY}{HEAD} {{ {BODIES['wave']} }}")
    values = {"n": 40, "rounds": 1}
    circuit = build(kernel, 0.0)
    pairs = Pairs(circuit)
    began = time.process_time()
    run_circuit(circuit, lambda *_: None, arrays_of(kernel, values), values, 1, threads=2, grain=0.0, pairs=pairs)
    assert time.process_time() - began < 20.0, "1,500 tasks, and each is compared with those that are open, not with all"


@pytest.mark.parametrize(
    ("start", "bound", "step", "operator", "rounds"),
    [
        (0, 10, 1, "<", range(10)),
        (0, 10, 3, "<", range(0, 10, 3)),
        (0, 9, 3, "<=", range(0, 10, 3)),
        (5, 5, 1, "<", range(0)),
        (9, 0, -1, ">=", range(9, -1, -1)),
        (9, 0, -4, ">", range(9, 0, -4)),
    ],
)
@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_parts_of_a_loop_are_all_of_its_rounds_once(start: int, bound: int, step: int, operator: str, rounds: range, most: int) -> None:
    number = len(rounds)
    made = Rounds(start, bound, step, operator, number)
    holds = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[operator]
    found: list[int] = []
    for first, beyond in made.parts(most):
        counter = first
        while holds(counter, beyond):
            found.append(counter)
            counter += step
    assert found == list(rounds) and len(made.parts(most)) == min(most, number)
