"""Expressions to forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from laminar.kernels.analyse.conditions import tells_all, told
from laminar.kernels.analyse.form import Form, Kind, Symbol
from laminar.kernels.analyse.prove import LIMITS, Known, Prover
from laminar.kernels.analyse.varying import Varying
from laminar.kernels.language.tree import (
    WHOLE,
    Atomic,
    Binary,
    Call,
    Cast,
    Choice,
    Constant,
    Expression,
    Load,
    Read,
    Store,
    Type,
    Unary,
    Variable,
    parts,
)


@dataclass(frozen=True)
class Site:
    """An access, as it was met on the way through the kernel: its indices, and what is known there. `sure`: it is done wherever that
    holds. `statement`: the id of the one that it belongs to; `loops`: ids of those around it."""

    node: Load | Store | Atomic
    index: tuple[Form, ...]
    known: Known
    sure: bool
    statement: int
    loops: tuple[int, ...]


@dataclass
class Values:
    """`now`: what each variable is at the place that is being looked at; `known`: what holds there."""

    varying: Varying
    prover: Prover = field(default_factory=Prover)
    now: dict[Variable, Form] = field(default_factory=dict)
    known: Known = ()
    sure: bool = True  # the place is reached wherever `known` holds
    loops: tuple[int, ...] = ()  # ids of those around the place
    here: int = 0  # id of the statement
    where: dict[int, Known] = field(default_factory=dict)  # what is known at an expression, by its id
    forms: dict[int, Form | None] = field(default_factory=dict)  # by id of the expression; None: it stands in places that differ
    sites: dict[int, list[Site]] = field(default_factory=dict)  # by id of the access
    divisions: list[tuple[Binary, bool]] = field(default_factory=list)  # and whether the divisor is proved not to be 0
    _made: int = 0
    _same: dict[tuple[object, ...], Symbol] = field(default_factory=dict)

    def symbol(self, name: str, kind: Kind, type_: Type, varying: bool, **more: object) -> Symbol:
        self._made += 1
        return Symbol(name, kind, type_, self._made, varying, self.loops, **more)  # type: ignore[arg-type]

    def of(self, one: Expression) -> Form:
        """The form of an expression of whole numbers; what is within others is looked at, too."""
        form = self._of(one)
        self.where[id(one)] = self.known if self.where.get(id(one), self.known) is self.known else ()
        self.forms[id(one)] = form if self.forms.get(id(one), form) == form else None
        return form

    def _of(self, one: Expression) -> Form:
        match one:
            case Constant():
                return Form.constant(int(one.value)) if one.type in WHOLE else self._opaque(one)
            case Read():
                if one.variable not in self.now:
                    self.now[one.variable] = self._opaque(one, one.variable)
                return self.now[one.variable]
            case Load():
                self.access(one)
                return self._opaque(one)
            case Cast():
                return self._cast(one, self.of(one.value))
            case Choice():
                return self._choice(one)
            case Binary(operator="and" | "or"):
                self.of(one.left)
                self._under(tuple(told(self, one.left, one.operator == "and")), one.right, tells_all(one.left, one.operator == "and"))
                return self._opaque(one)
            case Binary():
                return self._binary(one, self.of(one.left), self.of(one.right))
            case Unary():
                value = self.of(one.value)
                if one.type in WHOLE and one.operator != "!":
                    return -value if one.operator == "-" else -value - 1
                return self._opaque(one)
            case Call():
                for part in parts(one):
                    self.of(part)
                made = self._opaque(one)
                if one.name == "abs" and self.prover.holds(self.value(one.arguments[0]) - LIMITS[one.type][0] - 1, self.known):
                    self.prover.bound(made.latest(), Form({}), low=True)
                return made

    def value(self, one: Expression) -> Form:
        """The value that is stored, as far as its type has it."""
        found = self.forms.get(id(one))
        return self.exact(found if found is not None else self.of(one), one.type)

    def access(self, one: Load | Store | Atomic) -> None:
        index = tuple(self.exact(self.of(part), part.type) for part in one.index)
        self.sites.setdefault(id(one), []).append(Site(one, index, self.known, self.sure, self.here, self.loops))

    def _under(self, more: Known, one: Expression, sure: bool) -> Form:
        before = self.known, self.sure
        self.known, self.sure = self.with_(more), self.sure and sure
        form = self.of(one)
        self.known, self.sure = before
        return form

    def with_(self, more: Known) -> Known:
        return (*self.known, *(one for one in more if (one.known is None or one.known < 0) and one not in self.known))

    def _opaque(self, one: Expression, variable: Variable | None = None) -> Form:
        name = variable.name if variable else f"({one.object.name}[…])" if isinstance(one, Load) else f"({one.at.line}:{one.at.column})"
        type_ = one.type if one.type in WHOLE else "long"
        return Form.of(self.symbol(name, "variable" if variable else "opaque", type_, self.varying.varies(one), variable=variable))

    def exact(self, form: Form, type_: Type) -> Form:
        """The value itself: the form, if it does not wrap around, else a symbol for it."""
        low, high = LIMITS.get(type_, (0, 0))
        if form.known is not None:
            return Form.constant((form.known - low) % (high - low + 1) + low) if type_ in WHOLE else form
        symbol = form.single
        fits = symbol is not None and LIMITS[symbol.type][1] <= high
        if type_ not in WHOLE or fits or self.prover.within(form, type_, self.known):
            return form
        at_most, at_least = self.prover.holds(form - low, self.known), self.prover.holds(high - form, self.known)
        made = self._numbered("wrapped", f"({form!r})", type_, form, None, at_most, at_least)
        if at_most and not self.prover.high.get(made):
            self.prover.bound(made, form, low=False)
        if at_least and not self.prover.low.get(made):
            self.prover.bound(made, form, low=True)
        return Form.of(made)

    def _numbered(self, kind: Kind, name: str, type_: Type, of: Form, by: Form | None, *more: object) -> Symbol:
        """One symbol for one thing."""
        key = (kind, type_, of, by, *more)
        if key not in self._same:
            within = of.symbols | (by.symbols if by else set())
            self._made += 1
            loops = max((one.loops for one in within), key=len, default=())
            self._same[key] = Symbol(name, kind, type_, self._made, any(one.varying for one in within), loops, None, of, by)
        return self._same[key]

    def divided(self, of: Form, by: Form) -> Symbol | None:
        """The symbol of a quotient that the kernel has."""
        known = (key for key in self._same if key[0] == "quotient" and key[2:4] == (of, by))
        return next((self._same[key] for key in known), None)

    def another(self, symbol: Symbol, of: Form | None, by: Form | None) -> Symbol:
        """The same thing, of another instance."""
        self._made += 1
        return replace(symbol, name=f"{symbol.name}'", number=self._made, of=of, by=by)

    def _cast(self, one: Cast, value: Form) -> Form:
        inner = one.value.type
        if one.type not in WHOLE or inner not in WHOLE or one.type == "bool":
            return self._opaque(one)
        if inner == "bool" or (inner == "long" and one.type == "int"):
            return self.exact(value, "int") if inner == "long" else value
        return self.exact(value, inner)

    def _binary(self, one: Binary, left: Form, right: Form) -> Form:
        if one.type not in WHOLE or one.left.type not in WHOLE or one.type == "bool":
            return self._opaque(one)
        match one.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right if left.degree + right.degree <= 6 else self._opaque(one)
            case "/" | "%":
                return self._divided(one, self.exact(left, one.type), self.exact(right, one.type))
            case "<<" if right.known is not None:
                return left * (1 << (right.known & (31 if one.type == "int" else 63)))
            case ">>" if right.known is not None:
                by = Form.constant(1 << (right.known & (31 if one.type == "int" else 63)))
                value = self.exact(left, one.type)
                return self.quotient(value, by, one.type)[0] if self.prover.holds(value, self.known) else self._opaque(one)
            case "&" if right.known is not None and right.known >= 0:
                value = self.exact(left, one.type)
                if right.known & (right.known + 1) == 0 and self.prover.holds(value, self.known):
                    return self.quotient(value, right + 1, one.type)[1]
                made = self._opaque(one)
                self.prover.bound(made.latest(), Form({}), low=True)
                self.prover.bound(made.latest(), right, low=False)
                return made
        return self._opaque(one)

    def _divided(self, one: Binary, left: Form, right: Form) -> Form:
        positive = self.prover.holds(right - 1, self.known)
        self.divisions.append((one, positive or self.prover.holds(-right - 1, self.known)))
        if left.known is not None and right.known:
            size = abs(left.known) // abs(right.known) * (1 if (left.known < 0) == (right.known < 0) else -1)
            return Form.constant(size if one.operator == "/" else left.known - size * right.known)
        if positive and self.prover.holds(left, self.known):
            return self.quotient(left, right, one.type)[one.operator == "%"]
        name = f"({left!r} {one.operator} {_bracketed(right)})"
        return Form.of(self._numbered("quotient" if one.operator == "/" else "rest", name, one.type, left, right, "unproved"))

    def quotient(self, left: Form, right: Form, type_: Type) -> tuple[Form, Form]:
        """Of left >= 0 and right >= 1: left == quotient * right + rest, 0 <= rest < right."""
        if right.known == 1:
            return left, Form({})
        whole, by = left, right
        inner = left.single
        if inner is not None and inner.kind == "quotient" and inner in self.prover.low and inner.of is not None and inner.by is not None:
            whole, by = inner.of, inner.by * right  # (a / b) / c is a / (b * c)
        quotient = self._numbered("quotient", f"({whole!r} / {_bracketed(by)})", type_, whole, by)
        rest = self._numbered("rest", f"({left!r} % {_bracketed(right)})", type_, left, right)
        zero = Form({})
        if quotient not in self.prover.low:
            self.prover.bound(quotient, zero, low=True)
            self.prover.bound(quotient, whole - by + 1, low=True, times=by)
            self.prover.bound(quotient, whole, low=False, times=by)
        self.known = self.with_(tuple(self._below(Form.of(quotient), whole, by)))
        if rest not in self.prover.low:
            self.prover.bound(rest, zero, low=True)
            self.prover.bound(rest, right - 1, low=False)
            self.prover.bound(rest, left, low=False)
            self.prover.equal[rest] = left - Form.of(quotient) * right
        return Form.of(quotient), Form.of(rest)

    def _below(self, quotient: Form, whole: Form, by: Form) -> Iterator[Form]:
        """whole <= a * by - 1 tells quotient <= a - 1."""
        symbol = whole.single
        for times, bound in self.prover.bounds(symbol, self.known, low=False) if symbol else ():
            parts = bound.over(by) if times.known == 1 else None
            if parts is not None and parts[0].symbols and self.prover.holds(-parts[1] - 1, self.known):
                yield parts[0] - 1 - quotient

    def _choice(self, one: Choice) -> Form:
        self.of(one.condition)
        then, other = tuple(told(self, one.condition, True)), tuple(told(self, one.condition, False))
        yes = self._under(then, one.yes, tells_all(one.condition, True))
        no = self._under(other, one.no, tells_all(one.condition, False))
        if one.type not in WHOLE:
            return self._opaque(one)
        return self.either(yes, no, then, other, one.type, f"({one.at.line}:{one.at.column})", self.varying.varies(one))

    def either(self, yes: Form, no: Form, then: Known, other: Known, type_: Type, name: str, varying: bool, **more: object) -> Form:
        """One of two values; what bounds both bounds it."""
        if yes == no:
            return yes
        made = self.symbol(name, "variable" if more else "opaque", type_, varying, **more)
        first, second = self.with_(then), self.with_(other)
        yes, no = self.exact(yes, type_), self.exact(no, type_)
        self.prover.cases[made] = ((yes, first), (no, second))
        for bound in (yes, no, Form({})):
            if self.prover.holds(yes - bound, first) and self.prover.holds(no - bound, second):
                self.prover.bound(made, bound, low=True)
            if self.prover.holds(bound - yes, first) and self.prover.holds(bound - no, second):
                self.prover.bound(made, bound, low=False)
        return Form.of(made)


def _bracketed(form: Form) -> str:
    return repr(form) if form.known is not None or form.single is not None else f"({form!r})"
