"""Gradients of a kernel's adjoint and of finite differences, both by the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from laminar.kernels.arguments import arguments
from laminar.kernels.derive.adjoint import adjoint, adjoint_by_element, inputs_of, outputs_of
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

Array = np.ndarray[Any, Any]
STEP = 1e-6


def run(kernel: Kernel, given: dict[str, Any], instances: int) -> dict[str, Array]:
    called = arguments(kernel, given, instances)
    report = emulate(kernel, called.arrays, called.values, called.count)
    assert not report.findings, report.findings
    return report.outputs


def derived(
    source: str, given: dict[str, Any], instances: int, wanted: list[str] | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """(of the adjoint, of differences) of a sum of all outputs with random weights."""
    kernel = read_kernel(source, "t.c")
    back = read_kernel(adjoint(kernel, wanted=wanted, file="t.c"), "derived.c", "kernel_backward")
    outputs = run(kernel, given, instances)
    made = np.random.default_rng(7)
    weights: dict[str, Array] = {one.name: made.normal(size=outputs[one.name].shape) for one in outputs_of(kernel)}

    def loss(changed: dict[str, Any]) -> float:
        found = run(kernel, changed, instances)
        return float(sum((found[name] * weight).sum() for name, weight in weights.items()))

    names = [one.name for one in inputs_of(kernel) if wanted is None or one.name in wanted]
    arrays: dict[str, Any] = {}
    modes = {one.name: one.mode for one in kernel.arrays}
    for one in back.arrays:
        name = one.name.removeprefix("grad_")
        if one.name.startswith("grad_") and name in weights:
            arrays[one.name] = weights[name].copy()
        elif one.name.startswith("grad_"):
            arrays[one.name] = np.zeros(np.shape(given[name]) or 1)
        elif modes[one.name] == "out":
            arrays[one.name] = outputs[one.name] if one.mode == "in" else np.zeros_like(outputs[one.name])
        else:
            arrays[one.name] = given[one.name]
    values = {one.name: given[one.name] for one in back.values if one.name in given}
    found = run(back, {**arrays, **values}, instances)
    return {name: found[f"grad_{name}"] for name in names}, {name: _differences(loss, given, name) for name in names}


def by_element(source: str, given: dict[str, Any], instances: int, name: str) -> tuple[Array, Array] | None:
    """(of the adjoint by elements, of the other one), if there is such."""
    kernel = read_kernel(source, "t.c")
    text = adjoint_by_element(kernel, name, file="t.c")
    if text is None:
        return None
    back = read_kernel(text, "derived.c", "kernel_backward")
    outputs = run(kernel, given, instances)
    made = np.random.default_rng(7)
    weights = {f"grad_{one.name}": made.normal(size=outputs[one.name].shape) for one in outputs_of(kernel)}
    known: dict[str, Any] = {**given, **outputs, **weights, kernel.count.name: instances}
    names = {one.name for one in back.parameters[2:] if one.mode != "out"}
    called = arguments(back, {key: value for key, value in known.items() if key in names})
    report = emulate(back, called.arrays, called.values, called.count)
    assert not report.findings, report.findings
    return report.outputs[f"grad_{name}"], derived(source, given, instances, [name])[0][name]


def _differences(loss: Any, given: dict[str, Any], name: str) -> Array:
    value = np.array(given[name], "float64")
    found = np.zeros(value.shape or 1)
    for place in np.ndindex(*found.shape):
        at = place if value.shape else ()
        sides = []
        for step in (STEP, -STEP):
            moved = value.copy()
            moved[at] += step
            sides.append(loss({**given, name: moved if value.shape else float(moved)}))
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found
