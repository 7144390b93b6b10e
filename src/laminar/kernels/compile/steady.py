"""Steady loops: each round goes the same ways as the first one, so that its counts, times the rounds, are those of all.

So it is where no condition within depends on anything that a round leaves for the next: of a convolution over channels, conditions ask for
the picture's edges, which are the same for every channel. Only the first round is written with counters; the others are plain code.
"""

from __future__ import annotations

from collections.abc import Iterator

from laminar.kernels.compile.body import Body
from laminar.kernels.compile.differs import constant_of, narrows
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Binary,
    Choice,
    Declare,
    Expression,
    If,
    Load,
    Loop,
    Object,
    Read,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)


def steady(body: Body, loop: Loop) -> bool:
    """Are its rounds alike, and is there more in them to count than themselves? Nothing in it may be looked for but bounds."""
    counters = body.counters
    if counters is None or counters.once or counters.records is not None or body.rounds is not None:
        return False
    inner, condition = [*statements(loop.body), *statements(loop.update)], list(walk(loop.condition))
    if loop.test_last or loop.before or any(narrows(one) for one in (*loop.body, *loop.update)):
        return False
    if any(True for _ in _asked([], loop.condition)) or not any(True for _ in _asked(inner)):
        return False
    used = {_of(part) for part in (*inner, *_parts(inner), *condition) if isinstance(part, (Read, Load, Assign, Store, Atomic))}
    used |= {one.what for one in inner if isinstance(one, Declare)}
    if used & {*body.loose, *body.marks, *counters.races}:
        return False
    left = _left_for_the_next(inner)
    return not any(_depends(one, left) for one in (*_asked(inner), *_divisors([*_parts(inner), *condition])))


def _of(one: Expression | Statement) -> Variable | Object:
    assert isinstance(one, (Read, Load, Assign, Store, Atomic))
    return one.variable if isinstance(one, (Read, Assign)) else one.object


def _parts(inner: list[Statement]) -> Iterator[Expression]:
    for one in inner:
        for whole in expressions(one):
            yield from walk(whole)


def _asked(inner: list[Statement], *more: Expression) -> Iterator[Expression]:
    """All that decides which way is gone."""
    yield from (one.condition for one in inner if isinstance(one, (If, Loop)))
    for part in (*_parts(inner), *(part for whole in more for part in walk(whole))):
        if isinstance(part, Choice):
            yield part.condition
        elif isinstance(part, Binary) and part.operator in ("and", "or"):
            yield part.left


def _divisors(every: list[Expression]) -> Iterator[Expression]:
    for part in every:
        if isinstance(part, Binary) and part.operator in ("/", "%") and part.left.type in WHOLE and not constant_of(part.right):
            yield part.right


def _left_for_the_next(inner: list[Statement]) -> set[Variable | Object]:
    """What may be another value in another round: what is changed and not declared in each, and what is made of that."""
    own = {one.what for one in inner if isinstance(one, Declare)}
    found: set[Variable | Object] = {one.variable for one in inner if isinstance(one, Assign) and one.variable not in own}
    found |= {one.object for one in inner if isinstance(one, (Store, Atomic))}
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {one.variable for one in inner if isinstance(one, Assign) and _depends(one.value, found)}
    return found


def _depends(one: Expression, what: set[Variable | Object]) -> bool:
    return any(_of(part) in what for part in walk(one) if isinstance(part, (Read, Load)))
