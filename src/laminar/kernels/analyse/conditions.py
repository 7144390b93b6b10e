"""Conditions: what they tell where they hold, and where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from laminar.kernels.analyse.form import Form
from laminar.kernels.language.tree import WHOLE, Binary, Cast, Constant, Expression, Unary

if TYPE_CHECKING:
    from laminar.kernels.analyse.values import Values

_NOT: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def told(values: Values, one: Expression, true: bool) -> Iterator[Form]:
    """Forms that are not negative where the condition is true, or where it is not."""
    match one:
        case Unary(operator="!"):
            yield from told(values, one.value, not true)
        case Cast(type="bool") if one.value.type == "bool":
            yield from told(values, one.value, true)
        case Binary(operator="and" | "or") if (one.operator == "and") == true:
            yield from told(values, one.left, true)
            yield from told(values, one.right, true)
        case Binary() if one.left.type in WHOLE and one.type == "bool" and one.operator in _NOT:
            sign = one.operator if true else _NOT[one.operator]
            for form in _differences(sign, values.value(one.left), values.value(one.right)):
                yield from following(values, form)


def tells_all(one: Expression, true: bool) -> bool:
    """Does what is told say as much as the condition?"""
    match one:
        case Constant():
            return bool(one.value) == true
        case Unary(operator="!"):
            return tells_all(one.value, not true)
        case Binary(operator="and" | "or"):
            return (one.operator == "and") == true and tells_all(one.left, true) and tells_all(one.right, true)
        case Binary():
            sign = one.operator if true else _NOT.get(one.operator, "")
            return one.left.type in WHOLE and sign in _NOT and sign != "!="
    return False


def following(values: Values, form: Form) -> Iterator[Form]:
    """A form that is not negative; with symbols that are sums replaced; and if a product of what is not negative is at least 1, so is each
    factor."""
    prover = values.prover
    yield form
    wider = form.replaced({one: prover.equal[one] for one in form.symbols if one in prover.equal})
    if wider != form:
        yield wider
    for one in sorted((one for one in wider.symbols if one.kind == "wrapped"), key=lambda one: one.number):
        split = wider.split(one)
        sides = prover.high if split and (split[0].known or 0) > 0 else prover.low
        if split and split[0].known is not None and one in sides:
            wider = split[0] * sides[one][0][1] + split[1]
            yield wider
    if not any(len(term) > 1 and factor == 1 for term, factor in wider.terms.items()):
        return
    most = prover.bounded(wider, (), low=False)
    tops = [term for term in most.terms if term]
    if len(tops) == 1 and most.terms[tops[0]] == 1 and len(tops[0]) > 1 and most.terms.get((), 0) < 0:
        factors = [Form.of(symbol) for symbol in sorted(set(tops[0]), key=lambda one: one.number)]
        if all(prover.holds(one, values.known) for one in factors):
            yield from (one - 1 for one in factors)


def _differences(sign: str, left: Form, right: Form) -> list[Form]:
    """What is not negative where `left sign right`."""
    match sign:
        case "<":
            return [right - left - 1]
        case "<=":
            return [right - left]
        case ">":
            return [left - right - 1]
        case ">=":
            return [left - right]
        case "==":
            return [left - right, right - left]
    return []
