"""Thinned: cases that take long and go through the same code. The first few are part of `make test`, the others of `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], keep: int = 1) -> list[Any]:
    found = list(cases)
    several = [case if isinstance(case, tuple) else (case,) for case in found]
    return [*found[:keep], *(pytest.param(*case, marks=pytest.mark.slow) for case in several[keep:])]
