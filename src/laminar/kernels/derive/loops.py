"""Loops that count, backwards.

An iteration is run again, forwards and then backwards. What it needs of the iterations before it is, by the first of these that is
possible: nothing (sums); the result (extremes.py); a value kept for each iteration (their number is a constant); or the loop is run
again up to here. Where the order of iterations does not matter, it stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laminar.kernels.analyse.counted import counted
from laminar.kernels.derive.active import Data
from laminar.kernels.derive.extremes import Extreme, extremes_of
from laminar.kernels.derive.fill import copied
from laminar.kernels.derive.partials import Emit, plus
from laminar.kernels.derive.prune import pruned, written
from laminar.kernels.derive.sweep import Frame, Plain, Sweep, declared_in
from laminar.kernels.derive.turns import Turns, order_free
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    SIZES,
    Assign,
    Binary,
    Block,
    Choice,
    Constant,
    Declare,
    Expression,
    Load,
    Loop,
    Object,
    Read,
    Statement,
    Store,
    Variable,
)

KEPT_BYTES: Final = 16 << 10  # of one array of kept values


class _OrderMatters(Exception):
    """Of an extreme's loop, for another reason."""


@dataclass(frozen=True)
class _Carried:
    """What iterations need of those before: kept at their start, had back; or all are run `again`."""

    keeps: Block = ()
    starts: Block = ()
    again: bool = False


def looped(sweep: Sweep, loop: Loop, preceding: Block) -> tuple[Block, Block]:
    """(forwards, backwards) of a loop."""
    extremes = [one for one in extremes_of(loop) if one.variable in sweep.active and id(one.statement) not in sweep.extremes]
    if extremes:
        start, gradients, known = list(sweep.frame.start), set(sweep.gradients), dict(sweep.extremes)
        try:
            return _looped(sweep, loop, preceding, extremes)
        except _OrderMatters:
            sweep.frame.start, sweep.gradients = start, gradients
        finally:
            sweep.extremes = known
    return _looped(sweep, loop, preceding, [])


def _looped(sweep: Sweep, loop: Loop, preceding: Block, extremes: list[Extreme]) -> tuple[Block, Block]:
    found, at = counted(loop, preceding), loop.at
    assert found is not None  # normal.py
    entry = sweep.keep(found.counter)
    forward: Emit = [Assign(at, entry, Read(at, found.counter))]
    turns = Turns(loop, found, (folded(found.start) if found.start is not None else None) or Read(at, entry))
    plain = Plain(sweep).block(loop.body)
    ends = _restored(sweep, loop, forward)
    before: Emit = []
    after: Emit = []
    for one in extremes:
        _shared(sweep, one, forward, before, after)
    iteration, exposed = _iteration(sweep, loop)
    carried = _carried(sweep, turns, exposed - {found.counter})
    forward.append(Loop(at, (), loop.condition, (*carried.keeps, *plain), loop.update))
    back = _backwards(sweep, turns, carried, iteration, (ends, Plain(sweep).block(loop.body)))
    last = Assign(at, found.counter, turns.first)
    return tuple(forward), (*before, *back, *after, *ends, last)


def _iteration(sweep: Sweep, loop: Loop) -> tuple[Block, set[Data]]:
    """One iteration forwards and backwards, and what it needs of those before."""
    outer, sweep.frame = sweep.frame, Frame(declared_in(loop.body), outermost=False)
    try:
        there, back = sweep.both(loop.body, nested=False)
        block, live = pruned((*sweep.frame.start, *there, *back), frozenset(sweep.gradients))
    finally:
        sweep.frame = outer
    changed = written(Plain(sweep).block(loop.body)) - declared_in(loop.body)
    return block, {one for one in live & changed if one not in sweep.once}


def _restored(sweep: Sweep, loop: Loop, forward: Emit) -> Block:
    """What the loop changes is kept before it; when all is done it is put back."""
    at, ends = loop.at, list[Statement]()
    changed = [one for one in written(loop.body) if one not in declared_in(loop.body)]
    for one in sorted(changed, key=lambda data: (data.at, data.name)):
        if isinstance(one, Variable):
            kept = sweep.keep(one)
            forward.append(Assign(at, kept, Read(at, one)))
            ends.append(Assign(at, one, Read(at, kept)))
        elif one.memory == "local" and one not in sweep.once:
            whole = Object(f"kept_{one.name}", one.type, one.shape, "local", one.at)
            sweep.frame.start.append(Declare(at, whole))
            forward.extend(copied(one, whole))
            ends.extend(copied(whole, one))
        elif one.memory == "global" and one not in sweep.dropped and one not in sweep.once:
            lost = sweep.lost(one, at)
            ends.append(Store(at, one, tuple(Constant(at, "int", 0) for _ in one.shape), Read(at, lost)))
    return tuple(ends)


def _shared(sweep: Sweep, one: Extreme, forward: Emit, before: Emit, after: Emit) -> None:
    """The gradient of the extreme goes to `share` while its loop is run."""
    at = one.statement.at
    start, slot = sweep.keep(one.variable), sweep.adjoint_of(one.variable)
    assert isinstance(slot, Variable)
    forward.append(Assign(at, start, Read(at, one.variable)))
    sweep.frame.start.append(Declare(at, one.share))
    zero: Expression = Constant(at, slot.type, 0.0)
    own: Expression = Read(at, slot)
    if one.first_wins:  # an equal one does not replace what was there before
        stayed = Binary(at, "bool", "==", Read(at, start), Read(at, one.variable))
        before.append(Assign(at, one.share, Choice(at, stayed, zero, own)))
        before.append(Assign(at, slot, Choice(at, stayed, own, zero)))
    else:
        before += [Assign(at, one.share, own), Assign(at, slot, zero)]
    after.append(Assign(at, slot, plus(Read(at, slot), Read(at, one.share))))
    sweep.gradients.add(one.share)
    sweep.extremes[id(one.statement)] = one


def _carried(sweep: Sweep, turns: Turns, exposed: set[Data]) -> _Carried:
    at, ordered = turns.loop.at, sorted(exposed, key=lambda data: (data.at, data.name))
    for one in ordered:
        if isinstance(one, Object) and one.memory != "local":
            sweep.refuse(at, f"this loop overwrites elements of `{one.name}` whose values the gradient needs")
    if not ordered:
        return _Carried()
    count = turns.known
    if count is None or any(max(count, 1) * _bytes(one) > KEPT_BYTES for one in ordered):
        return _Carried(again=True)
    keeps, starts = list[Statement](), list[Statement]()
    size, turn = Constant(at, "int", max(count, 1)), (turns.turn(),)
    for one in ordered:
        if isinstance(one, Variable):
            row = Object(f"kept_{one.name}", one.type, (size,), "local", one.at)
            keeps.append(Store(at, row, turn, Read(at, one)))
            starts.append(Assign(at, one, Load(at, row, turn)))
        else:
            row = Object(f"kept_{one.name}", one.type, (size, *one.shape), "local", one.at)
            keeps.extend(copied(one, row, to=turn))
            starts.extend(copied(row, one, of=turn))
        sweep.frame.start.append(Declare(at, row))
    return _Carried(tuple(keeps), tuple(starts))


def _bytes(one: Data) -> int:
    made = SIZES[one.type]
    for size in one.shape if isinstance(one, Object) else ():
        known = folded(size)
        made *= int(known.value) if known else 1
    return made


def _backwards(sweep: Sweep, turns: Turns, carried: _Carried, iteration: Block, rerun: tuple[Block, Block]) -> Block:
    body = (*carried.starts, *iteration)
    free = not carried.again and order_free(body, sweep.gradients - {one.share for one in sweep.extremes.values()})
    wins = {one.first_wins for one in sweep.extremes.values()}
    if len(wins) == 2 or (True in wins and not free):
        raise _OrderMatters
    if carried.again:
        return turns.run_again(*rerun, body)
    return turns.as_before(body) if free and False not in wins else turns.reversed(body)
