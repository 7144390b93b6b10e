"""Kernels with long functions and few instances: as a circuit, on the threads that torch would use.

Whether that is faster is measured, once for each number of instances: a call as a whole, then calls as a circuit (the first of which
compiles its functions), and from then on whichever took less. Both give the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Final, final

import torch

from laminar.kernels.arguments import Array
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, build
from laminar.kernels.circuit.guess import Account, Odds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.language.tree import Kernel

LONG: Final = 2e-3
"""Seconds of a call from which on it may pay."""


@final
class Split:
    """For one kernel without barriers."""

    def __init__(self, kernel: Kernel, file: str = "kernel.c") -> None:
        self._kernel, self._call = kernel, partial(call, file=file)
        self._odds = Odds()
        self._seen: dict[int, list[float]] = {}  # by number of instances: seconds as a whole, then as a circuit

    @property
    def account(self) -> Account:
        """Of the guesses of all calls that ran as a circuit."""
        return self._odds.account

    @cached_property
    def _circuit(self) -> Circuit:
        return build(self._kernel)

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._circuit)

    def run(self, arrays: Sequence[Array], values: Sequence[Any], count: int, whole: Callable[[], None]) -> None:
        """`whole`: the same, not split."""
        seen = self._seen.setdefault(count, [])
        threads = torch.get_num_threads()
        if threads < 2 or (seen and seen[0] < LONG) or (len(seen) == 3 and seen[0] <= seen[2]):
            whole()
            return
        began = time.perf_counter()
        if not seen:
            whole()
        else:
            named = {one.name: array for one, array in zip(self._kernel.arrays, arrays, strict=True)}
            numbers = {one.name: value for one, value in zip(self._kernel.values, values, strict=True)}
            run_circuit(self._circuit, self._call, named, numbers, count, threads=threads, odds=self._odds, pairs=self._pairs)
        if len(seen) < 3:
            seen.append(time.perf_counter() - began)
