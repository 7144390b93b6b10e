"""Faults of eight kinds, planted in kernels that would be right without: each is found, at its line, and nothing else is.

A fault is found by `check` before anything runs (a witness, or a broken rule), or by the emulator as it happens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("pycparser")

from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError

N = 6


@dataclass(frozen=True)
class Planted:
    """`body` is of a kernel with `int n, int k, const int x[n], const float f[n], int y[n], int z[n][n]`, from line 2 on. `checked`: found
    before anything runs, too."""

    kind: str
    line: int
    body: str
    checked: bool = False
    k: int = 2


FAULTS = {
    "the end of a row": Planted("out-of-bounds", 2, "y[i + 1] = x[i];", checked=True),
    "a bound that is one too large": Planted("out-of-bounds", 3, "int s = 0; for (int j = 0; j <= n; j++) {\ns += x[j]; } y[i] = s;", True),
    "an index that is a value": Planted("out-of-bounds", 2, "y[i] = x[k];", checked=True, k=6),
    "below the first row": Planted("out-of-bounds", 2, "z[i - 1][0] = 1;", checked=True),
    "an index that the data tell": Planted("out-of-bounds", 2, "y[i] = x[x[i] * 3];"),
    "neighbours that read what others write": Planted("race", 2, "y[i] = y[(i + 1) % n];", checked=True),
    "a sum of all in one element": Planted("race", 2, "y[0] += x[i];", checked=True),
    "a barrier that was left out": Planted("race", 2, "y[i] = x[i];\nz[i][0] = y[n - 1 - i];", checked=True),
    "two rounds without a barrier between": Planted(
        "race", 2, "shared int t[8]; for (int j = 0; j < 3; j++) { t[i] = j + x[i];\nbarrier(); y[i] += t[(i + 1) % n]; }"
    ),
    "a row for a column": Planted("race", 2, "for (int j = 0; j < n; j++) z[i][j] = z[j][i] + 1;", checked=True),
    "a variable that one way sets": Planted("uninitialised", 2, "int v; if (x[i] > 2) v = 1; y[i] = v;"),
    "an element that nobody set": Planted("uninitialised", 2, "int w[3]; w[0] = x[i]; w[1] = 2; y[i] = w[0] + w[k];"),
    "shared memory that one instance sets in part": Planted(
        "uninitialised", 3, "shared int t[8]; if (i < 3) t[i] = 1; barrier();\ny[i] = t[i];"
    ),
    "a divisor that is a value": Planted("division-by-zero", 2, "y[i] = x[i] / k;", k=0),
    "a rest by what the data tell": Planted("division-by-zero", 2, "y[i] = k % x[i];"),
    "a constant that is zero": Planted("division-by-zero", 2, "y[i] = x[i] / (3 - 3);", checked=True),
    "a barrier for some": Planted("divergent-barrier", 2, "if (i < 3) { barrier(); } y[i] = 1;", checked=True),
    "a barrier as often as the data tell": Planted("divergent-barrier", 2, "for (int j = 0; j < x[i]; j++) barrier();", checked=True),
    "who is ready leaves before the barrier": Planted("divergent-barrier", 3, "if (x[i] == 2) return;\nbarrier(); y[i] = 1;", checked=True),
    "a product of ints": Planted("wrapped-overflow", 2, "y[i] = (x[i] + 40000) * 60000;"),
    "a sum of all that grows": Planted("wrapped-overflow", 2, "atomic_add(&y[0], 1000000000);"),
    "the smallest number turned round": Planted("wrapped-overflow", 2, "int s = INT_MIN; y[i] = -s;"),
    "a long that becomes an int": Planted("wrapped-overflow", 2, "long s = 1L << 40; y[i] = (int)(s + i);"),
    "a shift by what the data tell": Planted("wide-shift", 2, "y[i] = 1 << (x[i] * 8);"),
    "a shift by less than nothing": Planted("wide-shift", 2, "y[i] = x[i] >> (k - 3);"),
    "a float beyond any int": Planted("cut-conversion", 2, "y[i] = (int)(f[i] * 1e10f);"),
    "no number at all": Planted("cut-conversion", 2, "y[i] = (int)sqrtf(-1 - f[i]);"),
}


def text_of(fault: Planted) -> str:
    arrays = "const int x[n], const float f[n], inout int y[n], inout int z[n][n]"
    return f"void kernel(int i, int count, int n, int k, {arrays}) {{\n{fault.body}\n}}"


def test_there_are_27_of_eight_kinds() -> None:
    assert len(FAULTS) == 27 and len({one.kind for one in FAULTS.values()}) == 8


@pytest.mark.parametrize("name", FAULTS)
def test_the_emulator_finds_it_and_nothing_else(name: str) -> None:
    fault = FAULTS[name]
    kernel = read_kernel(text_of(fault))
    arrays = {
        "x": np.arange(N, dtype="int32"),
        "f": np.linspace(1, 2, N).astype("float32"),
        "y": np.zeros(N, "int32"),
        "z": np.zeros((N, N), "int32"),
    }
    report = emulate(kernel, arrays, {"n": N, "k": fault.k}, N, arithmetic=True)
    assert {(one.kind, one.at.line) for one in report.findings} == {(fault.kind, fault.line)}
    plain = emulate(kernel, arrays, {"n": N, "k": fault.k}, N)
    asked = fault.kind in ("wrapped-overflow", "wide-shift", "cut-conversion")
    assert bool(plain.findings) != asked  # these have a meaning: they are looked for if somebody asks
    for output, array in plain.outputs.items():
        np.testing.assert_array_equal(report.outputs[output], array)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.checked])
def test_check_finds_it_before_anything_runs(name: str) -> None:
    fault = FAULTS[name]
    try:
        found = {(one.kind, one.at.line) for one in verdicts(read_kernel(text_of(fault))) if one.verdict == "witness"}
    except KernelError as error:
        found = {(error.rule, error.at.line)}
    kinds = {"out-of-bounds": "bounds", "division-by-zero": "division", "divergent-barrier": "K16"}
    assert (kinds.get(fault.kind, fault.kind), fault.line) in found
