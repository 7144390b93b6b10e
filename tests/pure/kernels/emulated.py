"""A kernel's text, run by the emulator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from laminar.kernels.arguments import arguments
from laminar.kernels.emulate.report import Report
from laminar.kernels.emulate.run import STEPS, emulate
from laminar.kernels.language.kernel import read_kernel


def emulated(
    source: str, instances: int | None = None, *, seed: int | None = None, empty: Iterable[str] = (), steps: int = STEPS, **given: Any
) -> Report:
    kernel = read_kernel(source, "t.c")
    called = arguments(kernel, given, instances, "t.c")
    return emulate(kernel, called.arrays, called.values, called.count, seed, steps, empty=empty, file="t.c")


def found(report: Report) -> list[tuple[str, int]]:
    """Kinds and lines of what was found."""
    return [(one.kind, one.at.line) for one in report.findings]


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, "int32")


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, "float32")
