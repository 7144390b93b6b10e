"""Generated programs: the emulator, one instance after another, lanes of several widths and threads give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated_kernels import SIZE, TYPES, VALUES, kernels, named
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.space import Space
from laminar.kernels.arguments import DTYPES
from laminar.kernels.compile.boxes import Plan
from laminar.kernels.compile.build import built
from laminar.kernels.compile.grid import Shape
from laminar.kernels.compile.host import object_code
from laminar.kernels.compile.native import Native
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.contract import contracted
from laminar.kernels.language.kernel import read_kernel

COUNT = 21
quick = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def inputs() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return [
        rng.integers(-5, 20, COUNT).astype("int32"),
        rng.standard_normal(COUNT).astype("float32"),
        rng.integers(-5, 20, SIZE).astype("int32"),
        rng.standard_normal(SIZE).astype("float32"),
    ]


def compare(text: str) -> None:
    kernel = read_kernel(text)
    outputs = [np.zeros(COUNT, DTYPES[type_]) for type_ in TYPES]
    report = emulate(kernel, named(kernel.arrays, [*inputs(), *outputs]), named(kernel.values, VALUES), COUNT)
    wanted, beyond = report.outputs, any(one.kind == "out-of-bounds" for one in report.findings)
    ready = contracted(kernel)
    space = Space.of(ready)
    axis = 1 if space.cuts else 0
    blocks = [Shape(3, 2, 4)] if space.cuts else []
    for shape in (None, Shape(1, 1, 8), *(blocks or [Shape(1, 2, 4)])):
        plan = Plan(shape, axis) if shape is not None else None
        native = Native(ready, object_code(built(ready, space, plan)), plan, independent=True)
        for threads in (1, 2) if shape == Shape(1, 1, 8) else (1,):
            got = named(kernel.arrays, [*inputs(), *(array.copy() for array in outputs)])
            if beyond:
                with pytest.raises(LaminarError, match="L703"):
                    native.run(list(got.values()), VALUES, COUNT, threads)
                continue
            native.run(list(got.values()), VALUES, COUNT, threads)
            for name, array in wanted.items():
                same = np.array_equal(got[name], array, equal_nan=array.dtype.kind == "f")
                assert same, f"{shape}, {threads} threads, {name}: {got[name]} is not {array}\n{text}"


@quick
@given(kernels())
def test_generated_programs_agree(text: str) -> None:
    compare(text)


@quick
@given(kernels(digits=True))
def test_generated_programs_agree_in_blocks(text: str) -> None:
    compare(text)


@quick
@given(kernels(wild=True))
def test_an_access_out_of_bounds_is_always_found(text: str) -> None:
    compare(text)


@pytest.mark.slow
@pytest.mark.parametrize("_", range(10))  # each draws programs of its own, in a time of its own
@settings(quick, max_examples=12, derandomize=False)
@given(text=st.one_of(kernels(), kernels(digits=True), kernels(wild=True)))
def test_many_generated_programs_agree(_: int, text: str) -> None:
    compare(text)
