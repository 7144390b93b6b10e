"""Elements of arrays: one for all, one for each row, vectors that lie side by side, or each lane its own."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.kernels.compile.assembly import KINDS, Word, number, wide
from laminar.kernels.compile.body import ALL, OUTSIDE, RACE, Body
from laminar.kernels.compile.grid import FARTHEST, LANES, ROWS, Value, base, cell, each
from laminar.kernels.language.tree import SIZES, Atomic, Load, Object, Store


@dataclass(frozen=True)
class Element:
    """Where an access goes: `offset` in elements, a long."""

    object: Object
    place: Word
    offset: Value

    @property
    def kind(self) -> str:
        return "i8" if self.object.type == "bool" else KINDS[self.object.type]

    @property
    def align(self) -> int:
        return SIZES[self.object.type]


def element(body: Body, node: Load | Store | Atomic, index: tuple[Value, ...]) -> Element:
    """With a check of the bounds, unless it is known to be within."""
    index = tuple(_long(body, one) for one in index)
    sizes = body.sizes[node.object]
    if id(node) not in body.proofs.unchecked:
        for one, size in zip(index, sizes, strict=True):
            _check(body, node, one, size)
    offset = index[0]
    for one, size in zip(index[1:], sizes[1:], strict=True):
        offset = _sum(body, _times(body, offset, size), one)
    if body.counters is not None and node.object in body.counters.shadows:
        _watch_races(body, node, offset)
    if node.object not in body.locals:
        return Element(node.object, body.arrays[node.object], offset)
    return _own(body, node.object, offset)


def _watch_races(body: Body, node: Load | Store | Atomic, offset: Value) -> None:
    """One instance after another: did another one write it, or read what is written now? Two readers are enough (emulate/accesses.py)."""
    code, counters = body.code, body.counters
    assert counters is not None
    me = code.binary("add", body.digits[ALL].whole, number("i64", 1))
    places = [code.address("i64", one, offset.whole) for one in counters.shadows[node.object]]
    writer, reader, before = (code.load("i64", one) for one in places)

    def other(who: Word) -> Word:
        return code.binary("and", code.compare("ne", who, number("i64", 0)), code.compare("ne", who, me))

    bad = other(writer)
    if isinstance(node, Load):
        new = code.compare("ne", reader, me)
        code.store(code.select(new, reader, before), places[2])
        code.store(me, places[1])
    else:
        bad = code.binary("or", bad, code.binary("or", other(reader), other(before)))
        code.store(me, places[0])
    failed, fine = code.fresh("failed"), code.fresh("fine")
    code.branch(bad, failed, fine, rare=True)
    code.label(failed)
    body.fail(RACE, node.at, None, offset, number("i64", 0))
    code.label(fine)


def _own(body: Body, object_: Object, offset: Value) -> Element:
    """A local array has its elements for each instance that has others."""
    shape, local = body.shape, body.locals[object_]
    if not local.bits:
        return Element(object_, local.place, offset)
    width = max(shape.wide(local.bits), 1)
    offset = _times(body, offset, number("i64", shape.size(local.bits) * width))
    words = [number("i64", number_ * width) for number_, _ in enumerate(shape.cells(local.bits))]
    cells = Value("long", local.bits, tuple(words), 1 if local.bits & LANES else None)
    offset = _sum(body, offset, cells)
    return Element(object_, local.place, offset)


def _long(body: Body, value: Value) -> Value:
    words = tuple(word if word.kind == "i64" else body.code.convert("sext", word, "i64") for word in value.words)
    return Value("long", value.bits, words, value.stride)


def _times(body: Body, value: Value, size: Word) -> Value:
    stride = value.stride
    if value.bits & LANES and stride is not None:
        known = int(size.name) if size.constant else None
        if known is None or abs(known * stride) > FARTHEST:
            value, stride = Value("long", value.bits, _flat(body, value), None), None
        else:
            stride *= known
    words = tuple(body.code.binary("mul", word, body.code.splat(size, word.width)) for word in value.words)
    return Value("long", value.bits, words, stride)


def _flat(body: Body, value: Value) -> tuple[Word, ...]:
    cells = body.shape.cells(value.bits)
    return tuple(cell(body.code, body.shape, value, row, vector, body.shape.wide(value.bits)) for row, vector in cells)


def _sum(body: Body, left: Value, right: Value) -> Value:
    bits = left.bits | right.bits
    steps = [one.stride if one.bits & LANES else 0 for one in (left, right)]
    if bits & LANES and (steps[0] is None or steps[1] is None):
        return each(body.code, body.shape, "long", [left, right], lambda one, other: body.code.binary("add", one, other))
    cells = [(base(body.shape, left, *at), base(body.shape, right, *at)) for at in body.shape.cells(bits)]
    words = tuple(body.code.binary("add", one, other) for one, other in cells)
    return Value("long", bits, words, (steps[0] or 0) + (steps[1] or 0) if bits & LANES else None)


def _check(body: Body, node: Load | Store | Atomic, index: Value, size: Word) -> None:
    code = body.code
    wrong = each(code, body.shape, "bool", [index], lambda word: code.compare("uge", word, code.splat(size, word.width)))
    mask = body.taking_part()
    bad = body.both(mask, wrong)
    failed, fine = code.fresh("failed"), code.fresh("fine")
    code.branch(body.any(bad), failed, fine, rare=True)
    code.label(failed)
    body.fail(OUTSIDE, node.at, bad, index, size)
    code.label(fine)


def loaded(body: Body, node: Load, index: tuple[Value, ...]) -> Value:
    at = element(body, node, index)
    offset, shape, type_ = at.offset, body.shape, node.type
    free = id(node) in body.proofs.free
    if not offset.bits & LANES or offset.stride == 0:
        bits = offset.bits & ROWS
        words = tuple(_one(body, at, base(shape, offset, row, 0), None if free else body.row_mask(row)) for row, _ in shape.cells(bits))
        return Value(type_, bits, tuple(_inward(body, at, word) for word in words))
    slot = body.tail if free else body.mask
    mask = body.reduced(body.read(slot), offset.bits) if slot is not None else None
    words = tuple(_inward(body, at, _vector(body, at, row, vector, mask)) for row, vector in shape.cells(offset.bits))
    return Value(type_, offset.bits, words)


def _one(body: Body, at: Element, offset: Word, asked: Word | None) -> Word:
    code = body.code
    if asked is None:
        return code.load(at.kind, code.address(at.kind, at.place, offset), at.align)
    room = code.room(at.kind)
    code.store(number(at.kind, 0), room)
    with code.when(asked):
        code.store(code.load(at.kind, code.address(at.kind, at.place, offset), at.align), room)
    return code.load(at.kind, room)


def _inward(body: Body, at: Element, word: Word) -> Word:
    """In memory a bool is a byte."""
    return body.code.compare("ne", word, number("i8", 0, word.width)) if at.object.type == "bool" else word


def _vector(body: Body, at: Element, row: int, vector: int, mask: Value | None) -> Word:
    code, shape = body.code, body.shape
    width, type_ = shape.width, wide(at.kind, shape.width)
    stride = at.offset.stride
    test = cell(code, shape, mask, row, vector, width) if mask is not None else None
    if stride == 1:
        place = code.address(at.kind, at.place, base(shape, at.offset, row, vector))
        if test is None:
            return code.load(type_, place, at.align)
        return _masked(body, at, "load", type_, [place, number("i32", at.align), test, Word("zeroinitializer", type_)])
    index = cell(code, shape, at.offset, row, vector, width)
    places = code.address(at.kind, at.place, index)
    test = test or number("i1", 1, width)
    return _masked(body, at, "gather", type_, [places, number("i32", at.align), test, Word("zeroinitializer", type_)])


def _masked(body: Body, at: Element, what: str, type_: str, arguments: list[Word], result: str | None = None) -> Word:
    kind = {"float": "f32", "double": "f64"}.get(at.kind, at.kind)
    width = body.shape.width
    where = f"v{width}p0" if what in ("gather", "scatter") else "p0"
    return body.code.call(f"llvm.masked.{what}.v{width}{kind}.{where}", type_ if result is None else result, arguments)


def _outward(body: Body, at: Element, value: Value) -> Value:
    if at.object.type != "bool":
        return value
    return each(body.code, body.shape, "int", [value], lambda word: body.code.convert("zext", word, "i8"))


def stored(body: Body, node: Store, index: tuple[Value, ...], value: Value) -> None:
    at = element(body, node, index)
    code, shape, offset = body.code, body.shape, at.offset
    mask = body.taking_part()
    bits = offset.bits | value.bits | (mask.bits if mask is not None and offset.bits & LANES else 0)
    value = _outward(body, at, value)
    for row, vector in shape.cells(bits):
        with_row = [
            one for one in (present(body, row, bits, node.object), body.row_mask(row) if not bits & LANES else None) if one is not None
        ]
        after = code.fresh("stored")
        for test in with_row:
            go = code.fresh("store")
            code.branch(test, go, after)
            code.label(go)
        if bits & LANES:
            _store_vector(body, at, row, vector, value, mask)
        else:
            code.store(base(shape, value, row, 0), code.address(at.kind, at.place, base(shape, offset, row, 0)), at.align)
        if with_row:
            code.label(after)


def present(body: Body, row: int, bits: int, object_: Object) -> Word | None:
    """Is the row there? None: surely, or it does not matter."""
    if not body.active or not bits & ROWS or object_.memory == "local":
        return None
    return body.active[row]


def _store_vector(body: Body, at: Element, row: int, vector: int, value: Value, mask: Value | None) -> None:
    code, shape = body.code, body.shape
    width = shape.width
    word = cell(code, shape, value, row, vector, width)
    test = cell(code, shape, mask, row, vector, width) if mask is not None else None
    if at.offset.stride == 1:
        place = code.address(at.kind, at.place, base(shape, at.offset, row, vector))
        if test is None:
            code.store(word, place, at.align)
        else:
            _masked(body, at, "store", word.type, [word, place, number("i32", at.align), test], "void")
        return
    places = code.address(at.kind, at.place, cell(code, shape, at.offset, row, vector, width))
    test = test or number("i1", 1, width)
    _masked(body, at, "scatter", word.type, [word, places, number("i32", at.align), test], "void")
