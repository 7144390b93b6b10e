"""How long statements take, about: operators counted, loops by their bounds where these are numbers. What was measured is better."""

from __future__ import annotations

from typing import Final

from laminar.kernels.analyse.counted import counted
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
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
    expressions,
    walk,
)

NANOSECONDS: Final = 0.5  # of an addition, one instance at a time
ROUNDS: Final = 64  # of a loop whose bound is not a number
_CALLS: Final = {"fma": 1.0, "fabs": 1.0, "fmin": 1.0, "fmax": 1.0, "floor": 1.0, "ceil": 1.0, "abs": 1.0, "sqrt": 8.0}


def cost(block: Block) -> float:
    """Nanoseconds of one instance."""
    return sum(_statement(one, block[:number]) for number, one in enumerate(block))


def _statement(one: Statement, preceding: Block) -> float:
    own = sum(expression_cost(part) for part in expressions(one))
    match one:
        case Assign():
            return own
        case Store():
            return own + NANOSECONDS
        case Atomic():
            return own + 10 * NANOSECONDS
        case If():
            return own + NANOSECONDS + max(cost(one.then), cost(one.other))
        case Scope():
            return cost(one.body)
        case Loop():
            return rounds(one, preceding) * (own + cost(one.before) + cost(one.body) + cost(one.update))
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


def rounds(loop: Loop, preceding: Block = ()) -> float:
    """How often its body runs, about."""
    found = counted(loop, preceding)
    if found is None:
        return ROUNDS
    start = folded(found.start) if found.start is not None else None
    bound = folded(found.bound)
    if bound is None:
        return ROUNDS
    return max(0.0, float((bound.value - (start.value if start else 0)) / found.step))
