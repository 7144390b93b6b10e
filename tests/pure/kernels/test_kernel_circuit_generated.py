"""Generated programs, split as far as it goes: circuits with several threads and every guess give the bits of the whole kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from generated_kernels import SIZE, TYPES, VALUES, kernels, named
from hypothesis import HealthCheck, given, settings

from laminar.kernels.arguments import DTYPES
from laminar.kernels.circuit import run
from laminar.kernels.circuit.build import build
from laminar.kernels.circuit.guess import Odds
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

COUNT = 6
quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


class Always(Odds):
    """Guesses whenever it can."""

    def worth(self, function: Any, instances: int) -> bool:
        return True


def call(kernel: Kernel, chunk: tuple[int, int], count: int, arrays: Sequence[np.ndarray[Any, Any]], values: Mapping[str, float]) -> None:
    """By the emulator, which runs all instances. Taken is what changed, since others may be at other elements meanwhile."""
    assert chunk == (0, count)
    named = dict(zip((one.name for one in kernel.arrays), arrays, strict=True))
    before = {name: array.copy() for name, array in named.items()}
    made = emulate(kernel, before, {one.name: values[one.name] for one in kernel.values}, count).outputs
    for name, array in made.items():
        bits = f"u{array.dtype.itemsize}"
        changed = array.view(bits) != before[name].view(bits)
        named[name][changed] = array[changed]


@pytest.fixture(autouse=True)
def one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "chunks", lambda *_, **__: [(0, COUNT)])


def compare(text: str) -> int:
    kernel = read_kernel(text)
    rng = np.random.default_rng(1)
    inputs = [
        rng.integers(-5, 20, COUNT).astype("int32"),
        rng.standard_normal(COUNT).astype("float32"),
        rng.integers(-5, 20, SIZE).astype("int32"),
        rng.standard_normal(SIZE).astype("float32"),
    ]
    outputs = [np.zeros(COUNT, DTYPES[type_]) for type_ in TYPES]
    values = named(kernel.values, VALUES)
    wanted = emulate(kernel, named(kernel.arrays, [*inputs, *outputs]), values, COUNT).outputs
    circuit = build(kernel, 0.0)
    for threads, odds in ((1, Odds()), (3, Odds()), (3, Always())):
        got = named(kernel.arrays, [*inputs, *(array.copy() for array in outputs)])
        run_circuit(circuit, call, got, values, COUNT, threads=threads, odds=odds, grain=0.0)
        for name, array in wanted.items():
            same = np.array_equal(got[name], array, equal_nan=array.dtype.kind == "f")
            assert same, f"{threads} threads, {type(odds).__name__}, {name}: {got[name]} is not {array}\n{text}"
    return len(circuit.functions)


@quick
@given(kernels())
def test_generated_circuits_agree(text: str) -> None:
    compare(text)


@pytest.mark.slow
@pytest.mark.parametrize("_", range(10))  # each draws programs of its own, in a time of its own
@settings(quick, max_examples=50, derandomize=False)
@given(text=kernels())
def test_many_generated_circuits_agree(_: int, text: str) -> None:
    compare(text)
