"""Arrays no element of which is written twice: what was read of them can be read again later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from laminar.kernels.analyse.counted import counted
from laminar.kernels.language.fold import folded
from laminar.kernels.language.print import show
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Binary,
    Block,
    Cast,
    Declare,
    Expression,
    If,
    Loop,
    Object,
    Read,
    Store,
    Variable,
    blocks,
    statements,
    walk,
)

Linear: TypeAlias = "dict[Variable | str, int]"  # "" is the constant


@dataclass(frozen=True)
class _Write:
    store: Store
    counters: tuple[Variable, ...]
    sides: tuple[tuple[int, bool], ...]  # of the conditions around it


def written_once(object_: Object, body: Block) -> bool:
    """Since the array was declared, and by one instance."""
    home = body if object_.memory == "global" else _home(object_, body)
    if any(isinstance(one, Atomic) and one.object is object_ for one in statements(home)):
        return False
    found = list(_writes(object_, home, (), ()))
    changed = [one.variable for one in statements(body) if isinstance(one, Assign)]
    return all(_moves(one) for one in found) and all(
        _exclusive(one, other) or _apart(one, other, changed) for number, one in enumerate(found) for other in found[:number]
    )


def _home(object_: Object, block: Block) -> Block:
    """The block that declares it."""
    if any(isinstance(one, Declare) and one.what is object_ for one in block):
        return block
    for one in block:
        for inner in blocks(one):
            if found := _home(object_, inner):
                return found
    return ()


def _writes(object_: Object, block: Block, counters: tuple[Variable, ...], sides: tuple[tuple[int, bool], ...]) -> Iterator[_Write]:
    for one in block:
        match one:
            case Store() if one.object is object_:
                yield _Write(one, counters, sides)
            case If():
                yield from _writes(object_, one.then, counters, (*sides, (id(one), True)))
                yield from _writes(object_, one.other, counters, (*sides, (id(one), False)))
            case Loop():
                found = counted(one)
                assert found is not None  # normal.py
                yield from _writes(object_, one.body, (*counters, found.counter), sides)


def _moves(one: _Write) -> bool:
    """Does each iteration of the loops around it write elsewhere?"""
    forms = [linear(index) for index in one.store.index]
    return all(any(form.get(own) and not any(form.get(c) for c in one.counters if c is not own) for form in forms) for own in one.counters)


def _exclusive(one: _Write, other: _Write) -> bool:
    return not one.counters and any((number, not side) in other.sides for number, side in one.sides)


def _apart(one: _Write, other: _Write, changed: list[Variable]) -> bool:
    """In some dimension their indices differ by a number that is not 0."""
    for first, second in zip(one.store.index, other.store.index, strict=True):
        if any(isinstance(part, Read) and changed.count(part.variable) > 1 for index in (first, second) for part in walk(index)):
            continue
        a, b = linear(first), linear(second)
        gap = {key: a.get(key, 0) - b.get(key, 0) for key in {*a, *b}}
        if gap.pop("", 0) and not any(gap.values()):
            return True
    return False


def linear(index: Expression) -> Linear:
    """A sum of variables and other terms, by their text, each with a factor."""
    known = folded(index)
    if known is not None:
        return {"": int(known.value)}
    match index:
        case Read():
            return {index.variable: 1}
        case Cast(value=value) if index.type == "long":
            return linear(value)
        case Binary(operator="+" | "-" as sign):
            made = dict(linear(index.left))
            for key, factor in linear(index.right).items():
                made[key] = made.get(key, 0) + (factor if sign == "+" else -factor)
            return made
        case Binary(operator="*"):
            for one, other in ((index.left, index.right), (index.right, index.left)):
                if (size := folded(one)) is not None:
                    return {key: factor * int(size.value) for key, factor in linear(other).items()}
    return {show(index): 1}
