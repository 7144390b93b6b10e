"""Statements of the tree, for all instances of a block at once.

Where all of a block go the same way, it is a jump. Where they do not, both ways are gone, each with a mask of those that take part
(Karrenberg and Hack, "Whole-Function Vectorization", 2011; Pharr and Mark, "ispc", 2012).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from laminar.kernels.compile.assembly import KINDS, number
from laminar.kernels.compile.atomics import changed
from laminar.kernels.compile.body import ENDLESS, Around, Body, Local, Rounds
from laminar.kernels.compile.branches import branch
from laminar.kernels.compile.differs import is_set, narrows
from laminar.kernels.compile.expressions import value_of
from laminar.kernels.compile.grid import constant, scalar
from laminar.kernels.compile.interrupts import FIRST, polls
from laminar.kernels.compile.memory import stored
from laminar.kernels.compile.shadows import mark_of, note_assigned, note_declared
from laminar.kernels.compile.steady import steady
from laminar.kernels.language.tree import (
    SIZES,
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    Declare,
    If,
    Leave,
    Loop,
    Object,
    Scope,
    Statement,
    Store,
    Variable,
)

MOST_ROUNDS: Final = 1 << 30  # of a loop that may have no end, with those of loops within it


def written(body: Body, block: Block) -> None:
    for number_, one in enumerate(block):
        rest = block[number_ + 1 :]
        _statement(body, one, rest[0] if rest else None)
        if not body.code.open:
            return
        if rest and body.mask is None and narrows(one):
            body.count((id(rest[0]), "rest"))
        if rest and body.mask is not None and narrows(one):  # what follows may be for nobody
            with body.code.when(body.any(body.everybody())):
                body.count((id(rest[0]), "rest"))
                written(body, rest)
            return


def _statement(body: Body, one: Statement, following: Statement | None) -> None:
    match one:
        case Declare():
            _declare(body, one, following)
        case Assign():
            body.assign(one.variable, value_of(body, one.value))
            note_assigned(body, one.variable)
        case Store():
            index = tuple(value_of(body, part) for part in one.index)
            body.target = (one, index)
            value = value_of(body, one.value)
            body.target = None
            stored(body, one, index, value)
        case Atomic():
            changed(body, one, tuple(value_of(body, part) for part in one.index), value_of(body, one.value))
        case If():
            branch(body, one, written)
        case Loop():
            _loop(body, one)
        case Scope():
            _scope(body, one)
        case Break() | Continue() | Leave():
            _jump(body, one)


def _declare(body: Body, one: Declare, following: Statement | None) -> None:
    if isinstance(one.what, Variable):
        body.declare(one.what)
        note_declared(body, one.what)
        if not is_set(one.what, following):
            body.write(body.variable(one.what), constant(one.what.type, 0))
    else:
        _array(body, one.what)
        if one.what in body.loose:
            _array(body, body.marks.setdefault(one.what, mark_of(one.what)), like=one.what)


def _array(body: Body, object_: Object, like: Object | None = None) -> None:
    """All zero; laid out as `like`."""
    code, shape = body.code, body.shape
    bits = body.differs.objects.get(like or object_, 0)
    elements = 1
    for size in body.sizes[like or object_]:
        elements *= int(size.name)
    kind = "i8" if object_.type == "bool" else KINDS[object_.type]
    many = elements * shape.size(bits) * max(shape.wide(bits), 1)
    if object_ not in body.locals:
        body.locals[object_] = Local(code.room(f"[{many} x {kind}]", align=64), bits)
    place = body.locals[object_].place
    code.call("llvm.memset.p0.i64", "void", [place, number("i8", 0), number("i64", many * SIZES[object_.type]), number("i1", 0)])


def _loop(body: Body, one: Loop) -> None:
    code = body.code
    bits = body.differs.loops.get(id(one), 0)
    after = code.fresh("after")
    around, rounds = body.rounds, body.rounds  # loops within one that may have no end count with it
    if rounds is None and id(one) in body.proofs.endless:
        rounds = Rounds(code.room("i64"), code.room("i64"))
        code.store(number("i64", 0), rounds.done)
        code.store(number("i64", min(FIRST, _most(body))), rounds.until)
    body.rounds = rounds
    if not bits and steady(body, one):
        _steady_rounds(body, one, after)
        body.rounds = around
        return
    if not bits:
        body.loops.append(Around(after, code.fresh("update"), False, id(one)))
        _rounds(body, one, rounds)
    else:
        with body.narrowed(scalar("bool", number("i1", 1)), "loop", jumps=True):
            body.loops.append(Around(after, code.fresh("update"), True, id(one)))
            _rounds(body, one, rounds)
    body.loops.pop()
    body.rounds = around


def _rounds(body: Body, one: Loop, rounds: Rounds | None) -> None:
    code, around = body.code, body.loops[-1]
    again = code.fresh("again")
    code.label(again)
    if rounds is not None:
        _count(body, one, rounds)
    elif body.interrupts is not None and polls(one):
        body.interrupts.round()
    if not one.test_last:
        _ask(body, one)
    _round(body, one)
    code.label(around.update)
    if body.mask is not None and any(narrows(inner) for inner in one.body):  # nobody may be left
        work = code.fresh("work")
        code.branch(body.any(body.everybody()), work, around.after)
        code.label(work)
    body.count((id(one), "update"))
    written(body, one.update)
    if one.test_last:
        _ask(body, one)
    code.jump(again)
    code.label(around.after)


def _steady_rounds(body: Body, one: Loop, after: str) -> None:
    """The first round with counters of its own, the others without; then they are taken as often as there were rounds."""
    code, counters, many = body.code, body.counters, body.code.room("i64")
    assert counters is not None
    own = {number_: code.room("i64") for number_ in counters.places}
    for room in (*own.values(), many):
        code.store(number("i64", 0), room)
    done = code.fresh("done")
    body.loops.append(Around(done, code.fresh("update"), False, id(one)))
    for counted in (replace(counters, places=own, once=True), None):
        body.counters = counted
        again = code.fresh("again")
        code.label(again)
        if body.interrupts is not None and polls(one):
            body.interrupts.round()
        _ask(body, one)
        code.store(code.binary("add", code.load("i64", many), number("i64", 1)), many)
        _round(body, one)
        body.count((id(one), "update"))
        written(body, one.update)
        if counted is None:
            code.jump(again)
    body.loops.pop()
    body.counters = counters
    code.label(done)
    for number_, room in own.items():
        place, all_ = counters.places[number_], code.binary("mul", code.load("i64", room), code.load("i64", many))
        code.store(code.binary("add", code.load("i64", place), all_), place)
    code.label(after)


def _ask(body: Body, one: Loop) -> None:
    """The condition: go on, or to the end."""
    code, around = body.code, body.loops[-1]
    body.count((id(one), "test"))
    written(body, one.before)
    test = value_of(body, one.condition)
    if around.masked:
        assert body.mask is not None
        left = body.both(body.everybody(), test)
        body.write(body.mask, left)
        test = scalar("bool", body.any(body.read(body.mask)))
    work = code.fresh("work")
    code.branch(test.whole, work, around.after)
    code.label(work)


def _round(body: Body, one: Loop) -> None:
    """The body; with a mask of its own if some of those that take part in it may go on with the next one sooner."""
    masked = body.loops[-1].masked
    body.count((id(one), "body"))
    if body.differs.continues.get(id(one), 0) or (masked and any(narrows(inner) for inner in one.body)):
        with body.narrowed(scalar("bool", number("i1", 1)), "round", jumps=True):
            written(body, one.body)
    else:
        written(body, one.body)


def _most(body: Body) -> int:
    return body.counters.rounds if body.counters is not None else MOST_ROUNDS


def _count(body: Body, one: Loop, rounds: Rounds) -> None:
    """Rounds, up to where it is asked whether the call is to end; and whether there were too many."""
    code, most = body.code, number("i64", _most(body))
    now = code.load("i64", rounds.done)
    looks, failed, on, fine = (code.fresh(name) for name in ("looks", "failed", "on", "fine"))
    code.store(code.binary("add", now, number("i64", 1)), rounds.done)
    code.branch(code.compare("sge", now, code.load("i64", rounds.until)), looks, fine, rare=True)
    code.label(looks)
    code.branch(code.compare("sge", now, most), failed, on, rare=True)
    code.label(failed)
    body.fail(ENDLESS, one.at, body.taking_part(), scalar("long", now), most)
    code.label(on)
    assert body.interrupts is not None, "a loop that may have no end takes long"
    code.store(code.intrinsic("smin", most, code.binary("add", now, body.interrupts.look())), rounds.until)
    code.label(fine)


def _scope(body: Body, one: Scope) -> None:
    code, after = body.code, body.code.fresh("after")
    masked = bool(body.differs.scopes.get(one.number, 0))
    body.scopes[one.number] = Around(after, after, masked)
    if masked:
        with body.narrowed(scalar("bool", number("i1", 1)), "scope", one.number, jumps=True):
            written(body, one.body)
            code.label(after)
    else:
        written(body, one.body)
        code.label(after)


def _jump(body: Body, one: Break | Continue | Leave) -> None:
    """A jump of all, or those that take part do so no longer, up to where it goes."""
    sort, number_ = "round" if isinstance(one, Continue) else "loop", 0
    if isinstance(one, Leave):
        sort, number_ = "scope", one.number
        around = body.scopes[one.number]
        masked, label = around.masked, around.after
    else:
        around = body.loops[-1]
        masked = bool(body.differs.continues.get(around.loop, 0)) if isinstance(one, Continue) else around.masked
        label = around.update if isinstance(one, Continue) else around.after
    if not masked:
        body.code.jump(label)
        return
    leaving = body.everybody()
    for frame in reversed(body.frames):
        body.remove(frame, leaving)
        if frame.sort == sort and frame.number == number_:
            break
