"""`Facts.of(kernel)`: forms, strides and ranges at each place of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.kernels.analyse.counted import Counted
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.prove import LIMITS, Known
from laminar.kernels.analyse.start import Start
from laminar.kernels.analyse.through import Through
from laminar.kernels.analyse.values import Site, Values
from laminar.kernels.language.tree import WHOLE, Atomic, Expression, Kernel, Load, Object, Store, Variable


@dataclass(frozen=True)
class Facts:
    """`said`: of runs of the usual kind (start.py); then there are at most `number` instances."""

    kernel: Kernel
    said: bool
    values: Values
    instance: Symbol
    parameters: dict[Variable, Symbol]
    shapes: dict[Object, tuple[Form, ...]]
    number: Form | None
    counters: dict[int, tuple[Counted, Symbol, Form | None]]
    ending: set[int]
    meaning: dict[Symbol, Form]

    @staticmethod
    def of(kernel: Kernel, *, said: bool = False) -> Facts:
        start = Start.of(kernel, said=said)
        way = Through(start.values)
        way.block(kernel.body)
        known = (kernel, said, start.values, start.instance, start.parameters, start.shapes, start.number)
        return Facts(*known, way.counters, way.ending, way.meaning)

    def varying(self, expression: Expression) -> bool:
        """May it differ among instances?"""
        return self.values.varying.varies(expression)

    def form(self, expression: Expression) -> Form | None:
        """Of whole numbers: in terms of parameters, the instance, counters, quotients and rests, and what is not known. The value up to
        wrapping around; None if the node stands in several places with several values."""
        found = self.values.forms.get(id(expression))
        return None if found is None or expression.type not in WHOLE else self.expanded(found)

    def expanded(self, form: Form) -> Form:
        """Variables replaced by what they are."""
        while True:
            by = {one: self.meaning[one] for one in form.symbols if one in self.meaning}
            by |= {one: one.of for one in form.symbols if one.kind == "wrapped" and one.of is not None}
            if not by:
                return form
            form = form.replaced(by)

    def accesses(self, node: Load | Store | Atomic) -> list[Site]:
        return self.values.sites.get(id(node), [])

    def flat(self, node: Load | Store | Atomic) -> Form | None:
        """The number of the element, counted through all dimensions."""
        places = [self.form(part) for part in node.index]
        if any(one is None for one in places):
            return None
        made = Form({})
        for one, size in zip(places, self.shapes[node.object], strict=True):
            made = made * size + (one or 0)
        return made

    def element(self, node: Load | Store | Atomic) -> Form | None:
        """The same, with rests of divisions replaced: `(i / n) * n + i % n` is i."""
        form = self.flat(node)
        return None if form is None else self._without_rests(form)

    def stride(self, node: Load | Store | Atomic, *, row: bool = False) -> Form | None:
        """By how much the flat index grows from one instance to the next; None if that is not the same for all. `row`: to the next one
        of the same row, where quotients of the instance by 1 or more stay and rests grow by 1."""
        form = self.flat(node) if row else self.element(node)
        if form is None:
            return None
        one = Form.constant(1)
        steps = {self.instance: Form.of(self.instance) + one}
        if row:
            rests = {symbol for symbol in form.symbols if symbol.kind == "rest" and symbol.of == Form.of(self.instance)}
            steps |= {symbol: Form.of(symbol) + one for symbol in rests}
            stay = {symbol for symbol in form.symbols if self._stays(symbol)}
        else:
            stay = set()
        if any(symbol.varying and symbol not in steps and symbol not in stay for symbol in form.symbols):
            return None
        change = form.replaced(steps) - form
        return None if any(symbol.varying for symbol in change.symbols) else change

    def _stays(self, symbol: Symbol) -> bool:
        """Is it the same for all instances of a row?"""
        if symbol.kind == "quotient" and symbol.of == Form.of(self.instance):
            return symbol.by is not None and not any(one.varying for one in symbol.by.symbols)
        parts = (symbol.of, symbol.by) if symbol.kind in ("quotient", "rest") else ()
        return not symbol.varying or (bool(parts) and all(self._stays(one) for part in parts if part for one in part.symbols))

    def _without_rests(self, form: Form) -> Form:
        equal = self.values.prover.equal
        while by := {one: equal[one] for one in form.symbols if one.kind == "rest" and one in equal}:
            form = self.expanded(form.replaced(by))
        return form

    def range(self, expression: Expression) -> tuple[Form, Form] | None:
        """The least and the greatest that it may be, in terms of parameters."""
        form = self.values.forms.get(id(expression))
        if form is None or expression.type not in WHOLE:
            return None
        known = self.values.where.get(id(expression), ())
        low, high = LIMITS[expression.type]
        if not self.values.prover.within(form, expression.type, known):
            return Form.constant(low), Form.constant(high)
        return self.values.prover.bounded(form, known, low=True), self.values.prover.bounded(form, known, low=False)

    def holds(self, form: Form, known: Known = ()) -> bool:
        return self.values.prover.holds(form, known)
