"""A kernel whose calls take long: by the way that is measured to be the fastest, for each kind of call (decide.py).

One instance after another, instances side by side as lanes, or as a circuit on the threads that torch would use. All give the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, final

import torch

from laminar.kernels.arguments import Array
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit, Series, build
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.guess import Account, Odds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.run import known_values, run_circuit
from laminar.kernels.language.tree import WHOLE, Kernel
from laminar.kernels.operator.decide import LONG, Decider, Way, alike

KINDS: Final = 256  # of calls that are remembered


@dataclass
class _Kind:
    """What is known of calls that look alike."""

    decider: Decider
    odds: Odds = field(default_factory=Odds)


@final
class Split:
    """For one kernel without barriers."""

    def __init__(self, kernel: Kernel, file: str = "kernel.c") -> None:
        self._kernel, self._file = kernel, file
        self._whole = [place for place, one in enumerate(kernel.values) if one.of.type in WHOLE]
        self._kinds: dict[tuple[int, ...], _Kind] = {}
        self._lock = threading.Lock()
        self.account = Account()  # of the guesses of all calls that ran as a circuit

    @cached_property
    def _circuit(self) -> Circuit:
        return build(self._kernel)

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._circuit)

    @property
    def asleep(self) -> bool:
        """Was there no long call yet?"""
        return not self._kinds

    def run(
        self,
        arrays: Callable[[], Sequence[Array]],
        values: Sequence[Any],
        count: int,
        whole: Callable[[Way, bool], None],
        ways: Sequence[Way],
    ) -> None:
        """`whole(way, long)`: runs all of it one of `ways`, of which the first is the plain one; `long`: it is known to take long."""
        kind = self._kind(values, count, ways)
        with self._lock:
            way, long = kind.decider.way, kind.decider.long
        began = time.perf_counter()
        if way == "circuit":
            self._as_circuit(kind, arrays(), values, count)
        else:
            whole(way, long)
        self._took(kind, way, time.perf_counter() - began)

    def long_call(self, values: Sequence[Any], count: int, ways: Sequence[Way], seconds: float) -> None:
        """A call took so long, the plain way."""
        kind = self._kind(values, count, ways)
        self._took(kind, ways[0], seconds)

    def _took(self, kind: _Kind, way: Way, seconds: float) -> None:
        with self._lock:
            kind.decider.took(way, seconds)

    def _kind(self, values: Sequence[Any], count: int, ways: Sequence[Way]) -> _Kind:
        threads = torch.get_num_threads()
        key = alike(count, [int(values[place]) for place in self._whole], threads)
        found = self._kinds.get(key)
        if found is None:
            with self._lock:
                if len(self._kinds) >= KINDS:
                    self._kinds.clear()
                more: Sequence[Way] = ("circuit",) if threads > 1 and self._may_pay(values, count) else ()
                found = self._kinds[key] = _Kind(Decider((*ways, *more), LONG))
        return found

    def _may_pay(self, values: Sequence[Any], count: int) -> bool:
        """Is there anything that could run at once?"""
        if count > 1:
            named = {one.name: value for one, value in zip(self._kernel.values, values, strict=True)}
            return self._pairs.may_be_chunked(named, count)
        return len(self._circuit.functions) > 1 or any(isinstance(one, Series) for one in self._circuit.steps)

    def _as_circuit(self, kind: _Kind, arrays: Sequence[Array], values: Sequence[Any], count: int) -> None:
        named = {one.name: array for one, array in zip(self._kernel.arrays, arrays, strict=True)}
        numbers = {one.name: value for one, value in zip(self._kernel.values, values, strict=True)}
        times = {way: seconds for way, seconds in kind.decider.times.items() if way != "circuit"}
        if not kind.odds.measured and times:
            counted = cost(self._kernel.body, known_values(self._kernel, numbers, count)) * 1e-9 * count
            kind.odds.call_took(min(times.values()), counted)
        lanes = min(times, key=lambda way: times[way]) != "scalar" if times else True
        run = partial(call, file=self._file, lanes=lanes)
        threads = torch.get_num_threads()
        account = run_circuit(self._circuit, run, named, numbers, count, threads=threads, odds=kind.odds, pairs=self._pairs)
        with self._lock:
            self.account.add(account)
