"""Who wrote what each read got, as the emulator saw it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laminar.kernels.arguments import arguments
from laminar.kernels.emulate import trace as trace_module
from laminar.kernels.emulate.run import emulate
from laminar.kernels.emulate.trace import Flow, Trace
from laminar.kernels.language.kernel import read_kernel
from tests.pure.kernels.emulated import floats, ints


def traced(source: str, instances: int | None = None, **given: Any) -> Trace:
    kernel = read_kernel(source, "t.c")
    called = arguments(kernel, given, instances, "t.c")
    report = emulate(kernel, called.arrays, called.values, called.count, trace=True)
    plain = emulate(kernel, called.arrays, called.values, called.count)
    assert plain.trace is None and report.trace is not None
    assert plain.findings == report.findings and plain.counts == report.counts
    for name, array in plain.outputs.items():
        assert array.tobytes() == report.outputs[name].tobytes(), "a trace changes no result"
    return report.trace


def of(trace: Trace, name: str) -> list[Flow]:
    return [one for one in trace.flows if one.reader.of.name == name]


def test_a_neighbours_element_after_a_barrier() -> None:
    text = """void kernel(int i, int n, const float x[n], float y[n]) {
    shared float t[8];
    t[i] = x[i];
    barrier();
    y[i] = i > 0 ? t[i - 1] : t[i];
}"""
    trace = traced(text, x=floats(1, 2, 3, 4))
    others, own = of(trace, "t")
    assert (others.times, others.own, others.near, others.far, others.whose) == (3, 0, 1, 1, "another instance: 1 before")
    assert (own.times, own.own, own.whose) == (1, 1, "itself")
    assert others.writer is not None and others.writer.at == (3, 5)
    (given,) = of(trace, "x")
    assert given.given and given.writer is None and given.times == 4


def test_a_variable_that_two_places_set() -> None:
    text = "void kernel(int i, int n, const float x[n], float y[n]) {\n float v = x[i];\n if (v < 0) v = -v;\n y[i] = v;\n}"
    trace = traced(text, x=floats(-1, 2, -3))
    last = [one for one in of(trace, "v") if one.reader.at.line == 4]
    assert [(one.writer.at.line, one.times) for one in last if one.writer] == [(2, 1), (3, 2)]


def test_a_loop_reads_what_its_last_round_wrote() -> None:
    text = "void kernel(int i, int n, int y[n]) {\n int t[3] = {1};\n for (int k = 1; k < 3; k++)\n  t[k] = t[k - 1] + 1;\n y[i] = t[2];\n}"
    first, later, last = of(traced(text, 2), "t")
    assert first.writer is not None and later.writer is not None and last.writer is not None
    assert [(one.writer.at.line, one.times) for one in (first, later, last) if one.writer] == [(2, 2), (4, 2), (4, 2)]


def test_atomics_read_what_others_left() -> None:
    text = "void kernel(int i, int n, inout int y[1]) {\n atomic_add(&y[0], i);\n}"
    given, others = of(traced(text, 4, y=ints(5)), "y")
    assert (given.given, given.times) == (True, 1)
    assert (others.times, others.near, others.far) == (3, 1, 1)


def test_what_nobody_wrote() -> None:
    text = "void kernel(int i, int n, int y[n]) {\n int t[2];\n int v;\n if (i > 0) { t[0] = 1; v = 2; }\n y[i] = t[0] + v;\n}"
    trace = traced(text, 3)
    for name in ("t", "v"):
        nobody, own = of(trace, name)
        assert (nobody.whose, nobody.times, nobody.writer, nobody.given) == ("nobody", 1, None, False)
        assert (own.whose, own.times) == ("itself", 2)


def test_an_element_outside_of_its_array_is_from_nowhere() -> None:
    text = "void kernel(int i, int n, const int x[n], int y[n]) { y[i] = x[i + 1]; }"
    (flow,) = of(traced(text, x=ints(1, 2, 3)), "x")
    assert flow.times == 2


def test_conditions_too_deep_for_one_function_of_python() -> None:
    deep = 70
    inner = "".join(f"if (i > {-1 - k}) {{ " for k in range(deep)) + "v += x[i];" + " }" * deep
    text = f"void kernel(int i, int n, const int x[n], int y[n]) {{ int v = 1; {inner} y[i] = v; }}"
    assert [one.times for one in of(traced(text, x=ints(1, 2)), "x")] == [2]


def test_as_json_the_first_reads_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MOST_READS", 3)
    text = "void kernel(int i, int n, const int x[2][n], int y[n]) {\n y[i] = x[1][i];\n}"
    shown = traced(text, x=np.array([[1, 2], [3, 4]], "int32")).to_json()
    assert [(one["object"], one["from"], one["times"]) for one in shown["flows"]] == [
        ("i", "given", 2),
        ("x", "given", 2),
        ("i", "given", 2),
    ]
    assert (len(shown["reads"]), shown["reads_left_out"]) == (3, 3)
    assert {"line": 2, "column": 9, "object": "x", "instance": 0, "index": [1, 0], "from": "given", "writer": None} in shown["reads"]
