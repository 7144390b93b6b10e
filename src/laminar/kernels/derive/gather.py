"""Scatters turned into gathers: one instance for each element of the gradient, which adds up what the kernel's instances would have added
to it. No atomics, any number of threads, the same sums each time ("owner computes", Rogers and Pingali, PLDI 1989).

What an instance of the adjoint adds to `grad_x[e]` depends on numbers that count: the digits of its own number (`i / cols % rows`) and its
loops' counters. Where each index of e is one of these plus something, it is turned round: that one follows from the element, and the
others are gone through. Adjoints of other forms stay as they are.

Elements of a small filter have no neighbours whose operands are neighbours in memory. There the lowest digit that no index has becomes one
more dimension of the result: an instance for each element and each value of the digit, side by side in memory. What they add up is added
up by whoever called, in the order of the digit (`in_parts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from laminar.kernels.analyse.counted import counted
from laminar.kernels.derive.digits import Digit, digits_of, product_of
from laminar.kernels.derive.once import Linear, linear
from laminar.kernels.derive.prune import pruned
from laminar.kernels.derive.tidy import tidied
from laminar.kernels.language.fold import folded
from laminar.kernels.language.print import show
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import (
    Assign,
    At,
    Atomic,
    Binary,
    Block,
    Call,
    Constant,
    Declare,
    Expression,
    If,
    Kernel,
    Loop,
    Object,
    Parameter,
    Read,
    Statement,
    Store,
    Unary,
    Variable,
    statements,
    walk,
)
from laminar.kernels.language.types import cast

SHORT: Final = 8
"""Rows of fewer elements, such as those of a 3x3 filter: neighbours among the instances would have no neighbours in memory to read."""


@dataclass(frozen=True)
class _Range:
    """A number that counts from 0 to `size`."""

    variable: Variable
    size: Expression


@dataclass
class _Term:
    """What is added at one place: the statements before it, in order, the conditions around it among them; the loops around it."""

    atomic: Atomic
    steps: tuple[Statement | Expression, ...]
    loops: tuple[_Range, ...]


class _Other(Exception):
    """Of another form."""


def gathered(kernel: Kernel, back: Kernel, target: Object) -> Kernel | None:
    """`back` adds to `target` by atomics and changes nothing else; `kernel` is what it is the adjoint of."""
    row = folded(target.shape[-1])
    try:
        return None if row is not None and row.value < SHORT else _Gather(kernel, back, target).made()
    except _Other:
        return None


def in_parts(kernel: Kernel, back: Kernel, target: Object) -> Kernel | None:
    """The same, for an array with one dimension more; its sums over that are what `back` adds to `target`."""
    try:
        return _Gather(kernel, back, target, in_parts=True).made()
    except _Other:
        return None


@dataclass
class _Gather:
    kernel: Kernel
    back: Kernel
    target: Object
    in_parts: bool = False
    terms: list[_Term] = field(default_factory=list)

    def _free(self, name: str) -> str:
        while any(one.name == name for one in self.back.parameters):
            name += "_"
        return name

    def made(self) -> Kernel:
        if not self._set_once():
            raise _Other
        self._collect(self.back.body, (), ())
        at, type_ = self.target.at, self.back.instance.type
        old = self.target
        if self.in_parts:
            self.target = replace(old, shape=(*old.shape, self._lowest(self.terms[0]).size))
        element, elements = (Variable(self._free(name), type_, at) for name in ("element", "elements"))
        places = [Variable(f"at_{number}", type_, at) for number in range(len(self.target.shape))]
        total = Variable("sum", self.target.type, at)
        body: list[Statement] = []
        rest: Expression = Read(at, element)
        for place, size in reversed(list(zip(places, self.target.shape, strict=True))):
            body += [Declare(at, place), Assign(at, place, rest if place is places[0] else self._of("%", rest, size))]
            rest = self._of("/", rest, size)
        body += [Declare(at, total), Assign(at, total, Constant(at, total.type, 0.0))]
        for term in self.terms:
            block = self._added(term, places, total)
            fresh = {
                one.what: replace(one.what) for one in statements(block) if isinstance(one, Declare) and isinstance(one.what, Variable)
            }
            body.extend(_Renamed(fresh).block(block))
        body.append(Store(at, self.target, tuple(Read(at, one) for one in places), Read(at, total)))
        first = [Parameter(element.name, "instance", element, at), Parameter(elements.name, "count", elements, at)]
        known = [Parameter(self.back.count.name, "value", self.back.count, at), *self.back.parameters[2:]]
        parameters = [replace(one, of=self.target, mode="out") if one.of is old else one for one in known]
        block, _ = pruned(tuple(body), frozenset({self.target}))
        return replace(
            self.back, parameters=(*first, *parameters), body=tidied(block), instances=product_of(self.target.shape, at), assumptions=()
        )

    def _collect(self, block: Block, steps: tuple[Statement | Expression, ...], loops: tuple[_Range, ...]) -> None:
        for place, one in enumerate(block):
            match one:
                case Declare(what=Variable()) | Assign():
                    steps = (*steps, one)
                case Atomic() if one.object is self.target and one.operator == "add":
                    self.terms.append(_Term(one, steps, loops))
                case If():
                    self._collect(one.then, (*steps, one.condition), loops)
                    self._collect(one.other, (*steps, Unary(one.at, "bool", "!", one.condition)), loops)
                case Loop():
                    found = counted(one, block[:place])
                    if (
                        found is None
                        or found.operator != "<"
                        or found.step != 1
                        or not _is_zero(found.start)
                        or not self._fixed(found.bound)
                    ):
                        raise _Other
                    mine = tuple(step for step in steps if not (isinstance(step, Declare) and step.what is found.counter))
                    mine = tuple(step for step in mine if not (isinstance(step, Assign) and step.variable is found.counter))
                    self._collect(one.body, mine, (*loops, _Range(found.counter, found.bound)))
                case _:
                    raise _Other

    def _set_once(self) -> bool:
        """Are all variables but counters?"""
        counters = {found.counter for one in statements(self.back.body) if isinstance(one, Loop) and (found := counted(one)) is not None}
        sets = [one.variable for one in statements(self.back.body) if isinstance(one, Assign) and one.variable not in counters]
        return len(sets) == len(set(sets))

    def _fixed(self, size: Expression) -> bool:
        known = {one.of for one in self.back.parameters if one.role in ("value", "count")}
        return all(part.variable in known if isinstance(part, Read) else not hasattr(part, "object") for part in walk(size))

    def _lowest(self, term: _Term) -> Digit:
        found = self._digits(term)
        if len(self.terms) != 1 or len(found) < 2:
            raise _Other
        return found[0]

    def _digits(self, term: _Term) -> list[Digit]:
        at, instance = term.atomic.at, self.back.instance
        found = digits_of(self.kernel, instance, [step for step in term.steps if isinstance(step, Assign)])
        if found is None:
            raise _Other
        return found or [Digit(instance, Constant(at, instance.type, 1), Read(at, self.back.count))]

    def _added(self, term: _Term, places: list[Variable], total: Variable) -> Block:
        at, instance = term.atomic.at, self.back.instance
        costly = any(isinstance(part, Call) for step in term.steps if isinstance(step, Assign) for part in walk(step.value))
        if costly and term.loops:  # it would be computed again for every iteration
            raise _Other
        digits = self._digits(term)
        ranges = [*(_Range(one.variable, one.size) for one in digits), *term.loops]
        names = [one.variable for one in ranges]
        sets = {step.variable: step.value for step in term.steps if isinstance(step, Assign) and step.variable not in names}
        forms = [_resolved(linear(index), sets, names) for index in term.atomic.index]
        if self.in_parts:
            if any(form.get(digits[0].variable) for form in forms):
                raise _Other
            forms.append({digits[0].variable: 1})
        solved: dict[Variable, int] = {}
        for number, form in enumerate(forms):
            own = [v for v in names if form.get(v) in (1, -1) and v not in solved and not any(o.get(v) for o in forms if o is not form)]
            if own:
                solved[own[0]] = number
        if len(solved) != len(forms):
            raise _Other
        inner: list[Statement] = []
        guards: list[Expression] = []
        for variable, number in solved.items():
            form = forms[number]
            if any(form.get(other) for other in solved if other is not variable):
                raise _Other
            inner += [Declare(at, variable), Assign(at, variable, self._turned(form, variable, places[number]))]
            size = next(one.size for one in ranges if one.variable is variable)
            plain = {key for key, factor in form.items() if factor} == {variable} and form[variable] == 1
            if not plain or show(size) != show(self.target.shape[number]):
                low = Binary(at, "bool", ">=", Read(at, variable), Constant(at, variable.type, 0))
                guards.append(Binary(at, "bool", "and", low, Binary(at, "bool", "<", Read(at, variable), cast(size, variable.type))))
        tests = _Spelled({name: value for name, value in sets.items() if name.type == "bool"})
        last: Block = (Assign(at, total, Binary(at, total.type, "+", Read(at, total), term.atomic.value)),)
        for step in reversed([one for one in term.steps if not _sets(one, names)]):
            last = (step, *last) if isinstance(step, Declare | Assign) else (If(at, tests.expression(step), last, ()),)  # type: ignore[arg-type]
        if instance not in names:
            whole = reduce(lambda one, other: self._of("+", one, other), (self._of("*", Read(at, d.variable), d.unit) for d in digits))
            last = (Declare(at, instance), Assign(at, instance, whole), *last)
        for guard in reversed(guards):
            last = (If(at, guard, last, ()),)
        block: Block = (*inner, *last)
        inside = [*term.loops[::-1], *(_Range(digit.variable, digit.size) for digit in digits)]  # neighbours in memory innermost
        for one in (each for each in inside if each.variable not in solved):
            block = self._loop(one, block, at)
        return block

    def _turned(self, form: Linear, variable: Variable, place: Variable) -> Expression:
        """The variable, of `place == form`."""
        at = place.at
        made: Expression = Read(at, place)
        for key, factor in form.items():
            if key is variable or not factor:
                continue
            if isinstance(key, str) and key:
                raise _Other  # a term that is no variable
            part: Expression = Constant(at, place.type, abs(factor))
            if isinstance(key, Variable):
                read = cast(Read(at, key), place.type)
                part = read if abs(factor) == 1 else self._of("*", part, read)
            made = self._of("-" if factor > 0 else "+", made, part)
        made = made if form[variable] == 1 else Unary(at, place.type, "-", made)
        return cast(made, variable.type)

    def _loop(self, one: _Range, body: Block, at: At) -> Block:
        read, type_ = Read(at, one.variable), one.variable.type
        condition = Binary(at, "bool", "<", read, cast(one.size, type_))
        step = Assign(at, one.variable, Binary(at, type_, "+", read, Constant(at, type_, 1)))
        start = Assign(at, one.variable, Constant(at, type_, 0))
        return (Declare(at, one.variable), start, Loop(at, (), condition, body, (step,)))

    def _of(self, operator: str, left: Expression, right: Expression) -> Expression:
        type_ = self.back.instance.type
        return Binary(left.at, type_, operator, cast(left, type_), cast(right, type_))  # type: ignore[arg-type]


class _Renamed(Rewrite):
    """Variables of one term apart from those of another."""

    def __init__(self, names: dict[Variable, Variable]) -> None:
        self.names = names

    def statement(self, one: Statement) -> Block:
        if isinstance(one, Declare) and isinstance(one.what, Variable):
            return (replace(one, what=self.names.get(one.what, one.what)),)
        if isinstance(one, Assign):
            one = replace(one, variable=self.names.get(one.variable, one.variable))
        return super().statement(one)

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Read):
            return replace(one, variable=self.names.get(one.variable, one.variable))
        return super().expression(one)


class _Spelled(Rewrite):
    """Conditions in full, where a variable stands for one: what they say of an index can be seen then."""

    def __init__(self, values: dict[Variable, Expression]) -> None:
        self.values = values

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Read) and one.variable in self.values:
            return self.expression(self.values[one.variable])
        return super().expression(one)


def _resolved(form: Linear, sets: dict[Variable, Expression], names: list[Variable]) -> Linear:
    """In terms of the numbers that count, and of parameters."""
    while key := next((one for one in form if isinstance(one, Variable) and one not in names and one in sets and form[one]), None):
        factor = form.pop(key)
        for other, times in linear(sets[key]).items():
            form[other] = form.get(other, 0) + factor * times
    return form


def _sets(one: Statement | Expression, names: list[Variable]) -> bool:
    return (isinstance(one, Assign) and one.variable in names) or (isinstance(one, Declare) and one.what in names)


def _is_zero(start: Expression | None) -> bool:
    return isinstance(start, Constant) and start.value == 0
