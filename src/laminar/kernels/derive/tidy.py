"""For readers of an adjoint: variables are declared where they get their value, and those that only pass a value on are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from laminar.kernels.derive.prune import reads, touched
from laminar.kernels.language.tree import (
    Assign,
    Block,
    Declare,
    If,
    Loop,
    Read,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)


def tidied(block: Block) -> Block:
    return _late(_passed(block, _counts(block)))


def _counts(block: Block) -> Counter[Variable]:
    """How often each variable is read or written."""
    found: Counter[Variable] = Counter()
    for one in statements(block):
        for part in (part for whole in expressions(one) for part in walk(whole)):
            if isinstance(part, Read):
                found[part.variable] += 1
        if isinstance(one, Assign):
            found[one.variable] += 1
    return found


def _passed(block: Block, counts: Counter[Variable]) -> Block:
    """`T d = e; v = d;` is `v = e;` where nothing else has to do with d."""
    made: list[Statement] = []
    for one in block:
        last = made[-1] if made else None
        if isinstance(one, If | Loop):
            made.append(_inside(one, lambda inner: _passed(inner, counts)))
        elif (
            isinstance(one, Assign | Store)
            and isinstance(one.value, Read)
            and isinstance(last, Assign)
            and one.value.variable is last.variable
            and counts[last.variable] == 2
        ):
            made[-1] = replace(one, value=last.value)
            made = [part for part in made if not (isinstance(part, Declare) and part.what is last.variable)]
        else:
            made.append(one)
    return tuple(made)


def _late(block: Block) -> Block:
    """A declaration moves to the first assignment, if that is in the same block and comes before all uses."""
    made: list[Statement] = [_inside(one, _late) for one in block]
    for one in [part for part in made if isinstance(part, Declare) and isinstance(part.what, Variable)]:
        start = next(place for place, part in enumerate(made) if part is one)
        for place in range(start + 1, len(made)):
            if not any(one.what in touched(inner) for inner in statements((made[place],))):
                continue
            first = made[place]
            if isinstance(first, Assign) and one.what not in reads(first.value):
                made.insert(place - 1, made.pop(start))
            break
    return tuple(made)


def _inside(one: Statement, change: Callable[[Block], Block]) -> Statement:
    match one:
        case If():
            return replace(one, then=change(one.then), other=change(one.other))
        case Loop():
            return replace(one, body=change(one.body))
    return one
