"""What is known of a run before it begins: how many rounds its loops that count have, and how many seconds its operators should take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar.kernels.analyse.counted import Counted
from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.circuit.build import Series
from laminar.kernels.circuit.cost import cost, expression_cost
from laminar.kernels.circuit.fixed import value
from laminar.kernels.circuit.function import Function
from laminar.kernels.language.tree import Variable


@dataclass(frozen=True)
class Rounds:
    """Of a loop that counts. `number`: None if the counter would wrap around before it reaches the bound, so that nobody can say."""

    start: int
    bound: int
    step: int
    operator: str
    number: int | None

    @staticmethod
    def of(counted: Counted, start: int, bound: int) -> Rounds:
        low, high = LIMITS[counted.counter.type]
        ends = bound <= counted.last_bound if counted.step > 0 else bound >= counted.last_bound
        if not (ends and low <= start <= high):
            return Rounds(start, bound, counted.step, counted.operator, None)
        far = bound - start if counted.step > 0 else start - bound
        far += counted.operator in ("<=", ">=")
        return Rounds(start, bound, counted.step, counted.operator, max(0, -(-far // abs(counted.step))))

    def counter(self, number: int) -> int:
        """What it is in a round."""
        return self.start + number * self.step

    def parts(self, most: int) -> list[tuple[int, int]]:
        """(first, beyond) of parts that are about equal, one after the other: where the counter begins, and what it is compared with."""
        if self.number is None:
            return [(self.start, self.bound)]
        if not self.number:
            return []
        many = min(most, self.number)
        firsts = [self.counter(self.number * part // many) for part in range(many)]
        last = {"<=": -1, ">=": 1}.get(self.operator, 0)  # a part ends with the round before the next one's first
        return list(zip(firsts, [*(first + last for first in firsts[1:]), self.bound], strict=True))


@dataclass(frozen=True)
class Estimates:
    """For one call's values. Of a function within a loop the first round that is asked for stands for all."""

    values: Mapping[Variable, float]
    _known: dict[int, float] = field(default_factory=dict)

    def rounds(self, series: Series, counters: Mapping[Variable, int]) -> Rounds:
        known = {**self.values, **counters}
        start, bound = value(series.start, known), value(series.bound, known)
        assert start is not None and bound is not None, "both are made of what is known"
        return Rounds.of(series.counted, start, bound)

    def of(self, function: Function, counters: Mapping[Variable, int]) -> float:
        """Seconds of one instance."""
        if function.number not in self._known:
            takes = cost(function.block, {**self.values, **counters})
            takes += expression_cost(function.test) if function.test is not None else 0.0
            self._known[function.number] = takes * 1e-9
        return self._known[function.number]

    def of_series(self, series: Series, rounds: Rounds, counters: Mapping[Variable, int]) -> float:
        """Seconds of one instance for all rounds."""
        if not rounds.number:
            return 0.0
        if series.whole.number not in self._known:
            known = {**self.values, **counters, series.counted.counter: rounds.counter(rounds.number // 2)}
            takes = cost((*series.computed, *series.loop.body, *series.loop.update), known)
            self._known[series.whole.number] = takes * 1e-9
        return self._known[series.whole.number] * rounds.number
