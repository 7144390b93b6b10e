"""Elements of arrays: one for all, one for each row, vectors that lie side by side, or each lane its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laminar.kernels.compile.assembly import KINDS, Word, number, wide
from laminar.kernels.compile.body import OUTSIDE, Body
from laminar.kernels.compile.grid import FARTHEST, LANES, ROWS, Value, base, cell, each, scalar
from laminar.kernels.compile.shadows import fail_unset, note, watch_races
from laminar.kernels.language.tree import SIZES, Atomic, Load, Object, Store


@dataclass(frozen=True)
class Element:
    """Where an access goes: `offset` in elements, a long."""

    object: Object
    place: Word
    offset: Value
    mark: Element | None = None  # where it is said whether it has a value, if that is asked

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
    watch_races(body, node, offset)
    note(body, node, offset)
    mark = body.marks.get(node.object)
    found = _placed(body, node.object, offset)
    return found if mark is None else replace(found, mark=_placed(body, mark, offset))


def _placed(body: Body, object_: Object, offset: Value) -> Element:
    return _own(body, object_, offset) if object_ in body.locals else Element(object_, body.arrays[object_], offset)


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
    watch_filled(body, node, at)
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


def watch_filled(body: Body, node: Load | Atomic, at: Element) -> None:
    """Has it a value?"""
    mark, shape, counters = at.mark, body.shape, body.counters
    if mark is None or counters is None or (node.object.memory == "local" and isinstance(node, Load) and id(node) not in counters.unsure):
        return
    if not mark.offset.bits & LANES or mark.offset.stride == 0:
        bits = mark.offset.bits & ROWS
        words = [_one(body, mark, base(shape, mark.offset, row, 0), body.row_mask(row)) for row, _ in shape.cells(bits)]
    else:
        bits, asked = mark.offset.bits, body.taking_part()
        mask = body.reduced(asked, bits) if asked is not None else None
        words = [_vector(body, mark, row, vector, mask) for row, vector in shape.cells(bits)]
    fail_unset(body, node.at, Value("bool", bits, tuple(body.code.compare("eq", word, number("i8", 0, word.width)) for word in words)))


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
    _put(body, at, _outward(body, at, value))
    if at.mark is not None:
        _put(body, at.mark, scalar("bool", number("i8", 1)))


def _put(body: Body, at: Element, value: Value) -> None:
    code, shape, offset = body.code, body.shape, at.offset
    mask = body.taking_part()
    bits = offset.bits | value.bits | (mask.bits if mask is not None and offset.bits & LANES else 0)
    for row, vector in shape.cells(bits):
        with_row = [
            one for one in (present(body, row, bits, at.object), body.row_mask(row) if not bits & LANES else None) if one is not None
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
