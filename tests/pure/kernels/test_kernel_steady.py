"""Loops whose rounds go the same ways are counted in their first round; the counts are the emulator's, of these and of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laminar.kernels.compile import statements
from laminar.kernels.compile.body import Body
from laminar.kernels.compile.instrumented import instrumented
from laminar.kernels.compile.steady import steady
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Loop

HEAD = "void kernel(int i, int n, int m, int r, const float x[n], const int k[8], inout float y[n])"
STEADY = {
    "edges": "for (int c = 0; c < m; c++) for (int d = 0; d < 3; d++) { int j = i + d - 1; if (j >= 0 && j < n) s += x[j] * c; }",
    "a choice": "for (int c = 0; c < m; c++) s += i % 3 ? x[i] : c;",
    "asked of an array that nobody changes": "for (int c = 0; c < m; c++) if (k[i % 8] > 2) s += x[i]; else s -= c;",
    "divided by what stays": "for (int c = 0; c < m; c++) if (i > 2) s += c / r;",
    "among those that take part": "if (i % 2) for (int c = 0; c < m; c++) if (i > 4) s += x[i];",
    "as many rounds as each wants, one instance after another": "for (int c = 0; c < i; c++) if (r > 3) s += x[i];",
    "by steps": "for (int c = m; c > 0; c -= 2) if (i > 3 || n > 90) s += c;",
}
NOT_STEADY = {
    "the round itself is asked": "for (int c = 0; c < m; c++) if (c % 2) s += x[i];",
    "what is made of it": "for (int c = 0; c < m; c++) { int e = c * 2; int f = e + i; if (f > 5) s += x[i]; }",
    "a sum is asked": "for (int c = 0; c < m; c++) if (s < 2.0f) s += x[i] * x[i];",
    "rounds of another loop": "for (int c = 0; c < m; c++) for (int d = 0; d < c; d++) s += x[i];",
    "an array that changes": "for (int c = 0; c < m; c++) { if (y[i] < 3.0f) s += x[i]; y[i] = y[i] + 1.0f; }",
    "some leave": "for (int c = 0; c < m; c++) { if (i > 3) break; s += x[i]; }",
    "some go on": "for (int c = 0; c < m; c++) { if (i > 3) continue; s += x[i]; }",
    "divided by what changes": "for (int c = 1; c < m; c++) if (i > 2) s += r / c;",
    "its condition goes two ways": "for (int c = 0; c < m && i < 9; c++) if (i > 3) s += x[i];",
    "rounds as others may change them": "for (int c = 0; c < y[(i + c) % n]; c++) if (r > 3) s += 1.0f;",
    "divided by what changes, in its condition": "for (int c = 1; c < m / c; c++) if (i > 2) s += 1.0f;",
    "local elements that may have no value": "float q[2]; if (i > 2) q[0] = 1.0f; for (int c = 0; c < m; c++) if (r > 3) s += q[0];",
}


@pytest.fixture
def seen(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each outermost loop is steady, as code is made: nothing is taken from the disk."""
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path))
    found: list[bool] = []

    def noted(body: Body, loop: Loop) -> bool:
        here = steady(body, loop)
        if body.counters is not None and body.counters.records is None:
            found.append(here)
        return here

    monkeypatch.setattr(statements, "steady", noted)
    return found


def compared(text: str, count: int, m: int) -> None:
    kernel = read_kernel(f"{HEAD} {{ float s = 0.0f; {text} y[i] = y[i] + s; }}")
    random = np.random.default_rng(1)
    arrays = {"x": random.standard_normal(count).astype("float32"), "k": np.arange(8, dtype="int32")}
    arrays["y"] = np.zeros(count, "float32")
    values = {"m": m, "r": 5}
    wanted, got = emulate(kernel, arrays, values, count), instrumented(kernel, arrays, values, count)
    assert got.counts == wanted.counts and got.lines == wanted.lines and got.findings == wanted.findings
    assert got.outputs["y"].tobytes() == wanted.outputs["y"].tobytes()


@pytest.mark.parametrize("m", [0, 1, 2, 7])
@pytest.mark.parametrize("name", STEADY)
def test_the_first_round_tells_for_all(name: str, m: int, seen: list[bool]) -> None:
    for count in (1, 40, 100):
        compared(STEADY[name], count, m)
    assert any(seen)


@pytest.mark.parametrize("name", NOT_STEADY)
def test_of_others_all_rounds_are_counted(name: str, seen: list[bool]) -> None:
    for m, count in ((0, 40), (5, 40), (7, 100)):
        compared(NOT_STEADY[name], count, m)
    assert not any(seen)
