"""Is a form never negative? Symbols are replaced by their bounds, the latest first, until a constant is left.

This is the range test of Banerjee ("Dependence Analysis for Supercomputing", 1988) with bounds that are forms themselves, so that loops
within loops and sizes that nobody knows yet are no hindrance; what a guard tells (`if (k < w)`) is a bound like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from laminar.kernels.analyse.form import Form, Symbol, Term
from laminar.kernels.language.tree import Type

Known: TypeAlias = tuple[Form, ...]
"""Forms that are not negative where one looks."""

LIMITS: Final[dict[Type, tuple[int, int]]] = {"bool": (0, 1), "int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
STEPS: Final = 300  # of one proof
_ONE: Final = Form.constant(1)


@dataclass
class _Context:
    """What guards tell, in order: the least constant of each form, and bounds of symbols; and what has been proved of it. `never`: the
    guards exclude each other."""

    known: Known
    never: bool = False
    least: dict[frozenset[tuple[Term, int]], int] = field(default_factory=dict)
    bounds: dict[tuple[Symbol, bool], list[tuple[Form, Form]]] = field(default_factory=dict)
    done: dict[Form, bool] = field(default_factory=dict)

    @staticmethod
    def of(known: Known, always: list[Form]) -> _Context:
        made = _Context(known)
        for one in (*known, *always):
            if one.known is not None:
                made.never = made.never or one.known < 0
                continue
            constant = one.terms.get((), 0)
            made.least[one.body] = min(constant, made.least.get(one.body, constant))
            symbol = one.latest()
            parts = one.split(symbol)
            if parts is not None and (size := parts[0].known) is not None:
                bound = (Form.constant(abs(size)), -parts[1] if size > 0 else parts[1])
                made.bounds.setdefault((symbol, size > 0), []).append(bound)
        return made


@dataclass
class Prover:
    """`low`, `high`: pairs (m, bound) of a symbol with m * symbol >= bound, or <= bound, and m >= 1. `equal`: what a symbol is equal to.
    `cases`: two values of which a symbol is one, each with what is known then. `always`: forms that are never negative."""

    low: dict[Symbol, list[tuple[Form, Form]]] = field(default_factory=dict)
    high: dict[Symbol, list[tuple[Form, Form]]] = field(default_factory=dict)
    equal: dict[Symbol, Form] = field(default_factory=dict)
    cases: dict[Symbol, tuple[tuple[Form, Known], tuple[Form, Known]]] = field(default_factory=dict)
    always: list[Form] = field(default_factory=list)
    _contexts: dict[Known, _Context] = field(default_factory=dict)

    def holds(self, form: Form, known: Known = ()) -> bool:
        """Is it >= 0? False: not proved."""
        context = self._context(known)
        if (value := form.known) is not None or context.never:
            return context.never or (value or 0) >= 0
        if form not in context.done:
            context.done[form] = self._holds(form, context, [STEPS], set())
        return context.done[form]

    def within(self, form: Form, type_: Type, known: Known = ()) -> bool:
        """Is it a value of the type, so that nothing wraps around?"""
        low, high = LIMITS[type_]
        return self.holds(form - low, known) and self.holds(high - form, known)

    def bound(self, symbol: Symbol, form: Form, *, low: bool, times: Form = _ONE) -> None:
        (self.low if low else self.high).setdefault(symbol, []).append((times, form))

    def _context(self, known: Known) -> _Context:
        if known not in self._contexts:
            self._contexts[known] = _Context.of(known, self.always)
        return self._contexts[known]

    def _holds(self, form: Form, context: _Context, steps: list[int], tried: set[tuple[int, Form]]) -> bool:
        if (value := form.known) is not None:
            return value >= 0 or context.never
        if context.never or context.done.get(form):
            return True
        steps[0] -= 1
        if steps[0] < 0 or (id(context), form) in tried:
            return False
        tried.add((id(context), form))
        if self._follows(form, context, steps, tried):
            context.done[form] = True
            return True
        return False

    def _follows(self, form: Form, context: _Context, steps: list[int], tried: set[tuple[int, Form]]) -> bool:
        least = context.least.get(form.body)
        if least is not None and form.terms.get((), 0) >= least:
            return True
        symbol = form.latest()
        parts = form.split(symbol)
        if parts is None:
            return False
        factor, rest = parts
        up = self._sign(factor, context, steps, tried)
        if up is not None:
            for times, bound in self._bounds(symbol, context, low=up):
                if self._holds(factor * bound + rest * times + times - 1, context, steps, tried):
                    return True
        if symbol in self.cases:
            cases = [(value, self._context((*more, *context.known))) for value, more in self.cases[symbol]]
            return all(self._holds(factor * value + rest, case, steps, tried) for value, case in cases)
        same = self.equal.get(symbol)
        return same is not None and self._holds(factor * same + rest, context, steps, tried)

    def _sign(self, factor: Form, context: _Context, steps: list[int], tried: set[tuple[int, Form]]) -> bool | None:
        """True: not negative, False: not positive."""
        if (value := factor.known) is not None:
            return value > 0
        if self._holds(factor, context, steps, tried):
            return True
        return False if self._holds(-factor, context, steps, tried) else None

    def bounds(self, symbol: Symbol, known: Known, *, low: bool) -> Iterator[tuple[Form, Form]]:
        """(m, bound) with m * symbol >= bound (low) or <= bound; those that guards tell first, those of the type last."""
        return self._bounds(symbol, self._context(known), low=low)

    def _bounds(self, symbol: Symbol, context: _Context, *, low: bool) -> Iterator[tuple[Form, Form]]:
        yield from context.bounds.get((symbol, low), ())
        yield from (self.low if low else self.high).get(symbol, ())
        yield _ONE, Form.constant(LIMITS[symbol.type][0 if low else 1])

    def learn(self, form: Form) -> None:
        """That it is never negative: also a bound of its latest symbol, where that is multiplied."""
        if form.known is not None or form in self.always:
            return
        self.always.append(form)
        self._contexts.clear()
        symbol = form.latest()
        parts = form.split(symbol)
        if parts is not None and parts[0].known is None:
            for low, times in ((True, parts[0]), (False, -parts[0])):
                if self.holds(times - 1):
                    self.bound(symbol, -parts[1] if low else parts[1], low=low, times=times)

    def bounded(self, form: Form, known: Known, *, low: bool) -> Form:
        """The form with all but parameters replaced by bounds, so that it is not greater (low) or not less."""
        for _ in range(64):
            symbol = max((one for one in form.symbols if one.kind not in ("count", "value")), key=lambda one: one.number, default=None)
            split = form.split(symbol) if symbol else None
            if symbol is None or split is None:
                break
            factor, rest = split
            up = self.holds(factor, known)
            if not up and not self.holds(-factor, known):
                break
            found = self._end(symbol, known, low=up == low)
            if found is None:
                break
            form = factor * found + rest
        return form

    def _end(self, symbol: Symbol, known: Known, *, low: bool) -> Form | None:
        """A bound: of parameters, as guards tell; else the symbol's own; else what it is equal to; else that of its type."""
        every = [bound for times, bound in self.bounds(symbol, known, low=low) if times.known == 1]
        own = [bound for times, bound in (self.low if low else self.high).get(symbol, ()) if times.known == 1]
        plain = [one for one in every[:-1] if all(part.kind in ("count", "value") for part in one.symbols)]
        same = [self.equal[symbol]] if symbol in self.equal else []
        found: Form | None = None
        for bound in (*plain, *own, *same, *every[-1:]):
            if found is None or (bound not in same and self.holds(bound - found if low else found - bound, known)):
                found = bound
        return found
