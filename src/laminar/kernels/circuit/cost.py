"""How long statements take, about: operators counted, loops by their bounds where these are numbers, or made of values that are known.
What was measured is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from laminar.kernels.analyse.counted import counted
from laminar.kernels.circuit.fixed import value
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Binary,
    Block,
    Call,
    Expression,
    If,
    Load,
    Loop,
    Scope,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)

NANOSECONDS: Final = 0.5  # of an addition, one instance at a time
ROUNDS: Final = 100  # of a loop whose bound is not known
_CALLS: Final = {"fma": 1.0, "fabs": 1.0, "fmin": 1.0, "fmax": 1.0, "floor": 1.0, "ceil": 1.0, "abs": 1.0, "sqrt": 8.0}


def cost(block: Block, values: Mapping[Variable, float] | None = None) -> float:
    """Nanoseconds of one instance. `values`: those of variables that are known; loops are counted by them."""
    known = dict(values) if values is not None else None
    total = 0.0
    for number, one in enumerate(block):
        total += _statement(one, block[:number], known)
        if known is not None and isinstance(one, Assign) and one.variable.type in WHOLE:
            found = value(one.value, known)
            if found is None:
                known.pop(one.variable, None)
            else:
                known[one.variable] = found
    return total


def _statement(one: Statement, preceding: Block, known: dict[Variable, float] | None) -> float:
    own = sum(expression_cost(part) for part in expressions(one))
    match one:
        case Assign():
            return own
        case Store():
            return own + NANOSECONDS
        case Atomic():
            return own + 10 * NANOSECONDS
        case If():
            return own + NANOSECONDS + max(cost(one.then, known), cost(one.other, known))
        case Scope():
            return cost(one.body, known)
        case Loop():
            times, within = _rounds(one, preceding, known)
            return times * (own + cost(one.before, within) + cost(one.body, within) + cost(one.update, within)) if times else 0.0
    return 0.0


def expression_cost(whole: Expression) -> float:
    total = 0.0
    for part in walk(whole):
        if isinstance(part, Call):
            total += _CALLS.get(part.name, 20.0)
        elif isinstance(part, Binary) and part.operator in "/%":
            total += 5.0
        elif isinstance(part, (Binary, Load)):
            total += 1.0
    return total * NANOSECONDS


def _rounds(loop: Loop, preceding: Block, known: dict[Variable, float] | None) -> tuple[float, dict[Variable, float] | None]:
    """How often its body runs, about; and what is known there: the counter is taken to be half way."""
    found = counted(loop, preceding)
    inside = {one.variable for one in statements((loop,)) if isinstance(one, Assign)}
    within = {one: number for one, number in known.items() if one not in inside} if known is not None else None
    if found is None:
        return ROUNDS, within
    if known is None:
        first, last = folded(found.start) if found.start is not None else None, folded(found.bound)
        return (ROUNDS if last is None else max(0.0, float((last.value - (first.value if first else 0)) / found.step))), within
    assert within is not None
    start, bound = known.get(found.counter), value(found.bound, known)
    if bound is None:
        return ROUNDS, within
    within[found.counter] = int(((start or 0) + bound) // 2)
    return max(0.0, (bound - (start or 0)) / found.step), within
