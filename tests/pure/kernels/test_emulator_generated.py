"""Generated kernels: the emulator gives the results and the counts of a plain walk over the tree, in any order of instances."""

from __future__ import annotations

import numpy as np
from generated_kernels import SIZE, VALUES, kernels, named
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tree_walk import Walk

from laminar.kernels.arguments import arguments
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.kernel import read_kernel

COUNT = 7


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(kernels(), st.booleans(), st.integers(0, 99))
def test_generated_kernels(text: str, contract: bool, seed: int) -> None:
    text = text if contract else f"#pragma laminar contract off\n{text}"
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(-20, 20, COUNT).astype("int32"),
        rng.standard_normal(COUNT).astype("float32"),
        rng.integers(-20, 20, SIZE).astype("int32"),
        (rng.standard_normal(SIZE) * 10.0 ** rng.integers(-30, 30, SIZE)).astype("float32"),
    ]
    kernel = read_kernel(text)
    called = arguments(kernel, named(kernel.values, VALUES) | named(kernel.arrays[: len(arrays)], arrays))
    walk = Walk(contracted(kernel), called.arrays, called.values, called.count)
    for order in (None, seed):
        report = emulate(kernel, called.arrays, called.values, called.count, order)
        assert {one.kind for one in report.findings} <= {"division-by-zero"}
        for one in kernel.arrays:
            if one.mode != "in":
                np.testing.assert_array_equal(report.outputs[one.name], walk.memory[one.of])  # type: ignore[index]
        counts = {
            (memory, line, way): getattr(row, way)
            for line, rows in report.lines.items()
            for memory, row in rows.items()
            for way in ("reads", "writes")
            if getattr(row, way)
        }
        assert counts == dict(walk.counts)
        assert {memory: row.bytes for memory, row in report.counts.items() if row.bytes} == dict(walk.bytes)
