"""Conditions: a jump where all of a block go the same way; else both ways, each for those that take part."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias

from laminar.kernels.compile.body import Body
from laminar.kernels.compile.differs import narrows
from laminar.kernels.compile.expressions import careful, if_asked, needs_someone, value_of
from laminar.kernels.compile.grid import LANES, Value, each
from laminar.kernels.compile.regions import Key
from laminar.kernels.language.tree import (
    Atomic,
    Binary,
    Block,
    Call,
    Expression,
    If,
    Load,
    Loop,
    Scope,
    Store,
    expressions,
    statements,
    walk,
)

Write: TypeAlias = Callable[[Body, Block], None]
"""Writes the statements of a block: `written` of statements.py."""

CHEAP: Final = 24  # operations that cost less than to jump over them


def branch(body: Body, one: If, write: Write) -> None:
    if not one.other and isinstance(one.condition, Binary) and one.condition.operator == "and":
        if body.counters is None:
            _conjunction(body, one, write)
        else:
            _in_order(body, one, write)
        return
    test = value_of(body, one.condition)
    if not test.bits:
        _either_way(body, test, one, write)
        return
    _masked(body, one.then, test, (id(one), "then"), write)
    if one.other:
        _masked(body, one.other, body.opposite(test), (id(one), "other"), write)


def _conjunction(body: Body, one: If, write: Write) -> None:
    """`a && b && c`: those that are the same for all are looked at by a jump, and before others that cannot fail."""
    test: Value | None = None
    with ExitStack() as around:
        for term, jumps in _sooner(body, _terms(one.condition)):
            found = if_asked(body, test, term, _FIRST) if test is not None and careful(body, term) else value_of(body, term)
            if not found.bits and (jumps or test is None):
                around.enter_context(body.code.when(found.whole))
            else:
                test = body.both(test, found)
        if test is not None:
            _masked(body, one.then, test, (id(one), "then"), write)
        else:
            write(body, one.then)


def _sooner(body: Body, terms: list[Expression]) -> list[tuple[Expression, bool]]:
    """Terms in the order in which they are looked at, and whether a jump goes by them; those of one kind that follow each other are one."""
    ordered: list[tuple[Expression, bool]] = []
    for term in terms:
        same = not body.differs.kind(term).bits and not careful(body, term)
        place = len(ordered)
        while same and place and not ordered[place - 1][1] and not _may_fail(body, ordered[place - 1][0]):
            place -= 1
        ordered.insert(place, (term, same))
    return [(_all([term for term, _ in group]), same) for same, group in groupby(ordered, key=lambda one: one[1])]


def _may_fail(body: Body, term: Expression) -> bool:
    """Who looks at it first may end the run: it must not be passed over then."""
    return any(isinstance(part, Load) and id(part) not in body.proofs.unchecked for part in walk(term))


def _in_order(body: Body, one: If, write: Write) -> None:
    """With counters: each part is looked at if those before it hold, by a jump as long as they are the same for all."""
    terms, test = _keyed(one.condition), None
    with ExitStack() as around:
        for term, key in terms:
            if test is not None:
                right = if_asked(body, test, term, key)
                test = each(body.code, body.shape, "bool", [test, right], partial(body.code.binary, "and"))
                continue
            if key != _FIRST:
                body.count(key)
            found = value_of(body, term)
            if found.bits:
                test = found
            else:
                around.enter_context(body.code.when(found.whole))
        if test is not None:
            _masked(body, one.then, test, (id(one), "then"), write)
        else:
            body.count((id(one), "then"))
            write(body, one.then)


_FIRST: Final[Key] = (0, "right")


def _keyed(one: Expression) -> list[tuple[Expression, Key]]:
    """Parts of `a && b && c`, each with its region."""
    if isinstance(one, Binary) and one.operator == "and" and not (isinstance(one.right, Binary) and one.right.operator == "and"):
        return [*_keyed(one.left), (one.right, (id(one), "right"))]
    return [(one, _FIRST)]


def _terms(one: Expression) -> list[Expression]:
    if isinstance(one, Binary) and one.operator == "and":
        return [*_terms(one.left), *_terms(one.right)]
    return [one]


def _all(terms: list[Expression]) -> Expression:
    made = terms[0]
    for one in terms[1:]:
        made = Binary(one.at, "bool", "and", made, one)
    return made


def _either_way(body: Body, test: Value, one: If, write: Write) -> None:
    code = body.code
    yes, no, after = code.fresh("then"), code.fresh("else"), code.fresh("after")
    code.branch(test.whole, yes, no if one.other else after)
    code.label(yes)
    body.count((id(one), "then"))
    write(body, one.then)
    if code.open:
        code.jump(after)
    if one.other:
        code.label(no)
        body.count((id(one), "other"))
        write(body, one.other)
    code.label(after)


def _masked(body: Body, block: Block, test: Value, key: Key, write: Write) -> None:
    jumps = any(narrows(one) for one in block)
    with body.narrowed(test, jumps=jumps) as mask:
        body.count(key)
        if _must_jump(body, block):
            with body.code.when(body.any(body.read(mask))):
                write(body, block)
        else:
            write(body, block)


def _must_jump(body: Body, block: Block) -> bool:
    """Is it too much to do for nobody, or would it do harm?"""
    if body.counters is not None:  # what is proved relies on jumps that _conjunction makes
        return True
    cost = 0
    for one in statements(block):
        if isinstance(one, (Loop, Atomic, Scope)):
            return True
        if isinstance(one, Store) and not any(body.differs.kind(part).bits & LANES for part in one.index):
            return True
        for whole in expressions(one):
            if needs_someone(body, whole):
                return True
            cost += sum(8 if isinstance(part, Call) and part.name != "fma" else 1 for part in walk(whole))
        if cost > CHEAP:
            return True
    return False
