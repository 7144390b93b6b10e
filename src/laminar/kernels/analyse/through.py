"""The way through a kernel, on which each variable's value is kept as a form and conditions tell what holds.

What is assigned in a loop has a new value at its head, of which only a counter's bounds are known; where two ways meet, values that
differ become one that is either.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.kernels.analyse.conditions import tells_all, told
from laminar.kernels.analyse.counted import Counted, counted, escapes
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.prove import Known
from laminar.kernels.analyse.values import Values
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    If,
    Leave,
    Loop,
    Scope,
    Statement,
    Store,
    Variable,
    statements,
)


@dataclass
class Through:
    """Each step returns whether the way goes on behind it. `counters`: by id of the loop, with the counter's start. `ending`: ids of loops
    whose counter does not wrap around. `meaning`: what was assigned to a variable, up to wrapping around."""

    values: Values
    counters: dict[int, tuple[Counted, Symbol, Form | None]] = field(default_factory=dict)
    ending: set[int] = field(default_factory=set)
    wrapping: set[int] = field(default_factory=set)  # ids of those whose counter may, at one of the places where they stand
    meaning: dict[Symbol, Form] = field(default_factory=dict)
    _left: dict[int, list[dict[Variable, Form]]] = field(default_factory=dict)

    def block(self, block: Block) -> bool:
        return all(self._statement(one, block[:place]) for place, one in enumerate(block))

    def _statement(self, one: Statement, preceding: Block) -> bool:
        values = self.values
        values.here = id(one)
        match one:
            case Assign():
                self._assign(one.variable, values.of(one.value))
            case Store() | Atomic():
                values.access(one)
                values.of(one.value)
            case If():
                return self._if(one)
            case Loop():
                self._loop(one, preceding)
            case Scope():
                return self._scope(one)
            case Leave():
                self._left.setdefault(one.number, []).append(values.now)
                return False
            case Break() | Continue():
                return False
        return True

    def _assign(self, variable: Variable, form: Form) -> None:
        if variable.type not in WHOLE:
            form = Form.of(self._fresh(variable))
        elif form.known is None and form.single is None:
            symbol = self._fresh(variable)
            self.meaning[symbol] = form
            if self.values.prover.within(form, variable.type, self.values.known):
                self.values.prover.equal[symbol] = form
            form = Form.of(symbol)
        self.values.now[variable] = form

    def _fresh(self, variable: Variable) -> Symbol:
        type_ = variable.type if variable.type in WHOLE else "long"
        return self.values.symbol(variable.name, "variable", type_, variable in self.values.varying.what, variable=variable)

    def _if(self, one: If) -> bool:
        values = self.values
        values.of(one.condition)
        then, other = tuple(told(values, one.condition, True)), tuple(told(values, one.condition, False))
        now, known, sure = values.now, values.known, values.sure
        values.now, values.known, values.sure = dict(now), values.with_(then), sure and tells_all(one.condition, True)
        first_falls = self.block(one.then)
        first, first_known, first_sure = values.now, values.known, values.sure
        values.now, values.known, values.sure = dict(now), known, sure and tells_all(one.condition, False)
        values.known = values.with_(other)
        second_falls = self.block(one.other)
        second, second_known = values.now, values.known
        if first_falls and second_falls:
            values.known, values.sure = known, sure and not escapes((*one.then, *one.other))
            self._meet(first, second, first_known, second_known)
        elif first_falls:
            values.now, values.known, values.sure = first, first_known, first_sure
        return first_falls or second_falls

    def _meet(self, first: dict[Variable, Form], second: dict[Variable, Form], then: Known = (), otherwise: Known = ()) -> None:
        values = self.values
        values.now = {}
        for variable in first:
            if variable not in second:
                continue
            one, other = first[variable], second[variable]
            varies = variable in values.varying.what
            if one == other:
                values.now[variable] = one
            elif variable.type in WHOLE:
                values.now[variable] = values.either(one, other, then, otherwise, variable.type, variable.name, varies, variable=variable)
            else:
                values.now[variable] = Form.of(self._fresh(variable))

    def _scope(self, one: Scope) -> bool:
        known, sure = self.values.known, self.values.sure
        falls = self.block(one.body)
        ends = [*([self.values.now] if falls else []), *self._left.pop(one.number, [])]
        self.values.known, self.values.sure = known, sure
        if ends:
            self.values.now = ends[0]
            for other in ends[1:]:
                self._meet(self.values.now, other)
        return bool(ends)

    def _loop(self, one: Loop, preceding: Block) -> None:
        values = self.values
        changed = list(dict.fromkeys(inner.variable for inner in statements((one,)) if isinstance(inner, Assign)))
        found, start = counted(one, preceding), dict(values.now)
        known, sure = values.known, values.sure
        values.loops = (*values.loops, id(one))
        exact = found is not None and found.exact
        for variable in changed:
            values.now[variable] = Form.of(self._fresh(variable))
        if found is not None:
            values.now[found.counter] = Form.of(self._counter(one, found, start.get(found.counter)))
        self.block(one.before)
        values.here = id(one)
        values.of(one.condition)
        values.sure = sure and exact
        if not one.test_last:
            values.known = values.with_(tuple(told(values, one.condition, True)))
        entered = values.known
        falls = self.block(one.body)
        if not falls or any(isinstance(inner, Continue) for inner in statements(one.body)):
            values.known = entered  # what the rest of the body is told is not known of rounds that were cut short
            for variable in changed:
                if found is None or variable is not found.counter:
                    values.now[variable] = Form.of(self._fresh(variable))
        self.block(one.update)
        values.loops = values.loops[:-1]
        gone = any(isinstance(inner, Leave) for inner in statements((one,)))
        values.known, values.sure = known, sure and id(one) in self.ending and not gone
        values.now = {**start, **{variable: Form.of(self._fresh(variable)) for variable in changed}}

    def _counter(self, loop: Loop, found: Counted, start: Form | None) -> Symbol:
        """Bounded by its start, if it does not wrap around; what the condition tells is added where the body begins."""
        values, variable = self.values, found.counter
        symbol = values.symbol(variable.name, "counter", variable.type, variable in values.varying.what, variable=variable)
        self.counters[id(loop)] = (found, symbol, start)
        bound = values.exact(values.of(found.bound), found.bound.type)
        room = found.last_bound - bound if found.step > 0 else bound - found.last_bound
        if found.always_ends or values.prover.holds(room, values.known):
            self.ending |= {id(loop)} - self.wrapping
            if start is not None:
                values.prover.bound(symbol, values.exact(start, variable.type), low=found.step > 0)
        else:
            self.wrapping.add(id(loop))
            self.ending.discard(id(loop))
        return symbol
