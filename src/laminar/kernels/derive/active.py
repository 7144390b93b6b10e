"""What depends on the inputs whose gradients are wanted; all else is as good as a constant."""

from __future__ import annotations

from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Block,
    Call,
    Cast,
    Choice,
    Expression,
    Load,
    Object,
    Read,
    Store,
    Variable,
    parts,
    statements,
)

FLAT = frozenset({"floor", "ceil", "round", "trunc", "rint"})  # their derivative is 0 wherever there is one
Data = Variable | Object


def active(block: Block, inputs: frozenset[Data]) -> frozenset[Data]:
    """Variables and arrays that may depend on the inputs by a slope that is not 0."""
    found = set(inputs)
    changes = [one for one in statements(block) if isinstance(one, Assign | Store | Atomic)]
    before = -1
    while before != len(found):
        before = len(found)
        for one in changes:
            target = one.variable if isinstance(one, Assign) else one.object
            if target.type not in WHOLE and depends(one.value, found):
                found.add(target)
    return frozenset(found)


def depends(expression: Expression, on: set[Data] | frozenset[Data]) -> bool:
    if expression.type in WHOLE:
        return False
    match expression:
        case Read():
            return expression.variable in on
        case Load():
            return expression.object in on
        case Call() if expression.name in FLAT:
            return False
        case Cast():
            return depends(expression.value, on)
        case Choice():
            return depends(expression.yes, on) or depends(expression.no, on)
    return any(depends(part, on) for part in parts(expression))
