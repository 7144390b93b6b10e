"""Loops without an end, in native code: also if each of their rounds is long, and in lanes."""

from __future__ import annotations

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.kernels.compile import statements
from laminar.kernels.compile.instrumented import instrumented
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.language.kernel import read_kernel

NESTED = """void kernel(int i, int n, const float x[n], float y[n]) {
    int k = 0;
    while (x[i] > 0.0f) {
        for (int j = 0; j < 1000; j++) if (x[j % n] < 0.0f) k += j;
        k = k + 1;
    }
    y[i] = k;
}
"""


@pytest.mark.parametrize("lanes", [True, False])
def test_rounds_of_loops_within_count(monkeypatch: pytest.MonkeyPatch, lanes: bool) -> None:
    monkeypatch.setattr(statements, "MOST_ROUNDS", 10_000)
    native = compiled(read_kernel(NESTED), Options(lanes=lanes, cached=False))
    y = np.zeros(20, np.float32)
    native.run([np.full(20, -1.0, np.float32), y], [], 20)
    assert not y.any()
    with pytest.raises(LaminarError, match="10,000 rounds") as error:
        native.run([np.ones(20, np.float32), y], [], 20)
    assert error.value.code == "L704"


def test_code_that_counts_keeps_to_its_steps() -> None:
    """And does not leave it to the emulator to find out."""
    kernel, x, y = read_kernel(NESTED), np.ones(200_000, np.float32), np.zeros(200_000, np.float32)
    with pytest.raises(LaminarError, match="more than 5,000 rounds in instance 0") as error:
        instrumented(kernel, {"x": x, "y": y}, {}, x.size, 5_000)
    assert error.value.code == "L704"
