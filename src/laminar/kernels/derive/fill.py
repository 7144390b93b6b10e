"""Loops over all elements of local arrays: set to 0, or copied."""

from __future__ import annotations

from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    Assign,
    Binary,
    Block,
    Constant,
    Declare,
    Expression,
    Load,
    Loop,
    Object,
    Read,
    Store,
    Type,
    Variable,
)


def zeros(what: Object) -> Block:
    """Every element set to 0."""
    at, counters = what.at, [Variable("z", "int", what.at) for _ in what.shape]
    index = tuple(Read(at, one) for one in counters)
    block: Block = (Store(at, what, index, Constant(at, what.type, zero_of(what.type))),)
    return over_all(what, counters, block)


def copied(source: Object, target: Object, *, to: tuple[Expression, ...] = (), of: tuple[Expression, ...] = ()) -> Block:
    """`target[to][…] = source[of][…]`, all of it."""
    shaped = source if not of else target
    at, counters = shaped.at, [Variable("z", "int", shaped.at) for _ in shaped.shape]
    index = tuple(Read(at, one) for one in counters)
    block: Block = (Store(at, target, (*to, *index), Load(at, source, (*of, *index))),)
    return over_all(shaped, counters, block)


def over_all(what: Object, counters: list[Variable], block: Block) -> Block:
    at = what.at
    for counter, size in zip(reversed(counters), reversed(what.shape), strict=True):
        known = folded(size)
        assert known is not None  # of local arrays only
        read, one = Read(at, counter), Constant(at, "int", 1)
        condition = Binary(at, "bool", "<", read, Constant(at, "int", int(known.value)))
        step = Assign(at, counter, Binary(at, "int", "+", read, one))
        block = (Declare(at, counter), Assign(at, counter, Constant(at, "int", 0)), Loop(at, (), condition, block, (step,)))
    return block


def zero_of(type_: Type) -> bool | int | float:
    return False if type_ == "bool" else 0 if type_ in ("int", "long") else 0.0
