"""Fixed seeds of the net of races: witnesses are held against a trace of every access."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pycparser")

from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.language.kernel import read_kernel
from tests.nets import kernel_races

SEEDS, GROUP = 160, 40


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_generated_kernels_with_barriers_have_no_false_witness(first: int) -> None:
    words = Counter(kernel_races.check(seed) for seed in range(first, first + GROUP))
    assert words["a witness"] > 0 and words["no race"] > 0


@pytest.mark.parametrize(("lines", "wrong"), [("y[0] = i;", False), ("y[i] = i; barrier(); y[(i + 1) % n] = 2;", True)])
def test_the_trace_tells_phases_apart(lines: str, wrong: bool) -> None:
    """The net can fail: a witness that says that two phases meet."""
    kernel = read_kernel(f"void kernel(int i, int n, int y[n]) {{ {lines} }}")
    trace = kernel_races.traced(kernel, {}, 4)
    assert trace is not None
    first, *_, last = sorted({at for here in trace.values() for at, _ in here}) * 2
    claimed = next(one for one in verdicts(kernel) if one.kind == "race" and (one.at, one.other) == (first, last))
    assert kernel_races.met(trace, claimed) is not wrong
