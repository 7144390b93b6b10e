"""Functions of mathematics: within the ulps that are said, the same bits for one instance and for lanes, C's values at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from laminar.kernels.compile.elementary import ULPS
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.language.kernel import read_kernel


def computed(name: str, type_: str, *given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    arrays = [one.astype("float32" if type_ == "float" else "float64") for one in given]
    names = "xyz"[: len(arrays)]
    declared = ", ".join(f"const {type_} {one}[n]" for one in names)
    call = f"{name}{'f' if type_ == 'float' else ''}({', '.join(f'{one}[i]' for one in names)})"
    kernel = read_kernel(f"void kernel(int i, int n, {declared}, {type_} out[n]) {{ out[i] = {call}; }}")
    found = []
    for lanes in (False, True):
        out = np.zeros_like(arrays[0])
        compiled(kernel, Options(lanes, cached=False)).run([*arrays, out], [], out.size)
        found.append(out)
    assert np.array_equal(found[0], found[1], equal_nan=True)
    return found[0]


def wanted(name: str, *given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        wide = [one.astype(np.longdouble) for one in given]
        if name == "erf":
            return np.array([math.erf(float(one)) for one in given[0]], np.longdouble)
        result: np.ndarray[Any, Any] = getattr(np, {"pow": "power"}.get(name, name))(*wide)
        return result


def arguments_of(type_: str) -> np.ndarray[Any, Any]:
    rng, far = np.random.default_rng(7), 88.0 if type_ == "float" else 700.0
    parts = [rng.uniform(-far, far, 3000), rng.standard_normal(3000), rng.standard_normal(3000) * 1e-3, rng.uniform(0.5, 2.0, 3000)]
    parts += [10.0 ** rng.uniform(-30, 30, 3000), -(10.0 ** rng.uniform(-30, 2, 1000)), 10.0 ** rng.uniform(-44, -37, 300)]
    parts += [np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, 0.5, 1e-45])]
    return np.concatenate(parts).astype("float32" if type_ == "float" else "float64")


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("name", list(ULPS))
def test_within_the_ulps_that_are_said(name: str, type_: str) -> None:
    given = [arguments_of(type_)]
    if name == "pow":
        powers = np.random.default_rng(8).standard_normal(given[0].size) * 3
        powers[::5] = np.rint(powers[::5])
        given.append(powers.astype(given[0].dtype))
    got, exact = computed(name, type_, *given), wanted(name, *given)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        assert np.array_equal(np.isnan(rounded), np.isnan(got)) and np.array_equal(np.isinf(rounded), np.isinf(got))
        assert np.array_equal(np.signbit(rounded[~np.isnan(got)]), np.signbit(got[~np.isnan(got)]))
        finite = np.isfinite(got)
        errors = np.abs((got[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite])))
    assert errors.max() <= ULPS[name][type_ == "double"], given[0][finite][np.argmax(errors)]


@pytest.mark.parametrize("name", ["log10", "sinh", "cosh", "tan", "atan", "atan2", "hypot", "fmod"])
def test_of_the_library(name: str) -> None:
    rng = np.random.default_rng(9)
    given = [rng.uniform(0.1, 3.0, 50) for _ in range(2 if name in ("atan2", "hypot", "fmod") else 1)]
    names = {"atan": "arctan", "atan2": "arctan2"}
    assert np.allclose(computed(name, "double", *given), getattr(np, names.get(name, name))(*given), rtol=1e-14)


def test_large_angles_are_the_librarys() -> None:
    angles = np.array([1e5, 1e6, -3e7, 1e15, 1e22, 2.0])
    assert np.allclose(computed("sin", "double", angles), np.sin(angles), rtol=1e-14)
    assert np.allclose(computed("cos", "float", angles), np.cos(angles.astype("float32").astype("float64")), rtol=1e-6)
