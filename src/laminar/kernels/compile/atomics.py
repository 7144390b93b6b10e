"""Atomics: one instance after another changes an element, and nobody comes in between."""

from __future__ import annotations

from laminar.kernels.compile import arithmetic
from laminar.kernels.compile.assembly import Word, number
from laminar.kernels.compile.body import Body
from laminar.kernels.compile.grid import Value, cell, scalar
from laminar.kernels.compile.memory import Element, element, present, watch_filled
from laminar.kernels.language.tree import Atomic


def changed(body: Body, node: Atomic, index: tuple[Value, ...], value: Value) -> None:
    at = element(body, node, index)
    watch_filled(body, node, at)
    code, shape = body.code, body.shape
    bits = shape.bits
    everybody = body.taking_part() or scalar("bool", number("i1", 1))
    for row, vector in shape.cells(bits):
        there = present(body, row, bits, node.object)
        width = shape.wide(bits)
        words = [cell(code, shape, one, row, vector, width) for one in (at.offset, value, everybody)]
        if there is not None:
            words[2] = code.binary("and", words[2], code.splat(there, width))
        if not width:
            with code.when(words[2]):
                _atomic(body, at, node.operator, words[0], words[1])
        else:
            _lane_by_lane(body, at, node.operator, words)


def _lane_by_lane(body: Body, at: Element, operator: str, words: list[Word]) -> None:
    code, width = body.code, body.shape.width
    bits = code.as_bits(words[2], f"i{width}")
    rooms = [code.room(word.type, align=64) for word in words[:2]]
    for word, room in zip(words[:2], rooms, strict=True):
        code.store(word, room)
    left = code.room(bits.type)
    code.store(bits, left)
    again, do, after = code.fresh("lanes"), code.fresh("lane"), code.fresh("after")
    code.label(again)
    now = code.load(bits.type, left)
    code.branch(code.compare("ne", now, number(bits.type, 0)), do, after)
    code.label(do)
    lane = code.call(f"llvm.cttz.{bits.type}", bits.type, [now, number("i1", 0)])
    code.store(code.binary("and", now, code.binary("sub", now, number(bits.type, 1))), left)
    lane = code.convert("zext", lane, "i64")
    given = [code.load(word.kind, code.address(word.kind, room, lane)) for word, room in zip(words[:2], rooms, strict=True)]
    _atomic(body, at, operator, given[0], given[1])
    code.jump(again)
    code.label(after)


def _atomic(body: Body, at: Element, operator: str, offset: Word, value: Word) -> None:
    code = body.code
    place = code.address(at.kind, at.place, offset)
    if at.object.type in ("int", "long"):
        code.op(f"atomicrmw {operator} {place}, {value} monotonic", value.type)
        return
    if operator == "add":
        code.op(f"atomicrmw fadd {place}, {value} monotonic", value.type)
        return
    _exchange(body, at, operator, place, value)


def _exchange(body: Body, at: Element, operator: str, place: Word, value: Word) -> None:
    """The least or the largest of floats, as fmin and fmax of the old value and the new one: until nobody came in between."""
    code = body.code
    whole = "i32" if at.kind == "float" else "i64"
    again, done = code.fresh("again"), code.fresh("done")
    code.label(again)
    old = code.op(f"load atomic {whole}, {place} monotonic, align {at.align}", whole)
    new = arithmetic.least(code, operator, code.as_bits(old, at.kind), value)
    pair = f"{{ {whole}, i1 }}"
    tried = code.op(f"cmpxchg {place}, {old}, {code.as_bits(new, whole)} monotonic monotonic", pair)
    code.branch(code.op(f"extractvalue {tried}, 1", "i1"), done, again)
    code.label(done)
