"""A body in the few forms that the sweeps know: no jumps, loops whose counter goes on in `update`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from laminar.kernels.analyse.counted import counted
from laminar.kernels.language.tree import At, Barrier, Block, Break, Continue, If, Leave, Loop, Scope, Statement, blocks, statements

Refuse = Callable[[At, str], NoReturn]


def normal(block: Block, refuse: Refuse) -> Block:
    """`continue` becomes the other side of an if. What cannot be brought into form is refused."""
    return tuple(_statement(one, refuse) for one in block)


def _statement(one: Statement, refuse: Refuse) -> Statement:
    match one:
        case Barrier():
            refuse(one.at, "instances meet at a barrier, and their gradients would have to cross it backwards")
        case Leave():
            refuse(one.at, "this return is in the middle of a loop or a branch")
        case Scope():
            inner = next((leave for leave in statements(one.body) if isinstance(leave, Leave)), one)
            refuse(inner.at, f"this return leaves `{one.name}` before its end")
        case Break():
            refuse(one.at, "this loop ends by a break, so that nobody knows from the end how often it ran")
        case If():
            return replace(one, then=normal(one.then, refuse), other=normal(one.other, refuse))
        case Loop():
            return _loop(one, refuse)
    return one


def _loop(one: Loop, refuse: Refuse) -> Loop:
    found = counted(one)
    if found is not None and found.update not in one.update:
        one = replace(one, body=one.body[:-1], update=(*one.update, found.update))
    one = replace(one, body=normal(_without_continue(one.body, refuse), refuse))
    if one.before or found is None or one.update != (found.update,):
        refuse(one.at, "this loop does not count: `for (int k = 0; k < n; k++)` with nothing else that changes k or n")
    return one


def _without_continue(block: Block, refuse: Refuse) -> Block:
    """`if (c) { a; continue; } b;` is `if (c) { a; } else { b; }`."""
    for number, one in enumerate(block):
        if isinstance(one, Continue):
            return block[:number]
        if not isinstance(one, If) or not any(_continues(side) for side in (one.then, one.other)):
            continue
        rest = block[number + 1 :]
        for inner in (one.then, one.other):
            if _continues(inner) and not isinstance(inner[-1], Continue):
                refuse(inner[-1].at, "this continue is within two conditions")
        then = one.then[:-1] if _continues(one.then) else (*one.then, *rest)
        other = one.other[:-1] if _continues(one.other) else (*one.other, *rest)
        return (*block[:number], replace(one, then=_without_continue(then, refuse), other=_without_continue(other, refuse)))
    return block


def _continues(block: Block) -> bool:
    """Of this loop, not of one within."""
    return any(isinstance(one, Continue) or (isinstance(one, If) and any(_continues(inner) for inner in blocks(one))) for one in block)
