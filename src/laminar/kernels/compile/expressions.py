"""Expressions of the tree, for all instances of a block at once."""

from __future__ import annotations

from laminar.kernels.compile import arithmetic
from laminar.kernels.compile.arithmetic import same
from laminar.kernels.compile.assembly import KINDS, number
from laminar.kernels.compile.body import DIVIDED, Body
from laminar.kernels.compile.differs import Kind, constant_of, stride_of
from laminar.kernels.compile.functions import function
from laminar.kernels.compile.grid import LANES, Value, base, constant, each, scalar
from laminar.kernels.compile.memory import loaded
from laminar.kernels.compile.regions import Key, is_target
from laminar.kernels.compile.shadows import watch_read
from laminar.kernels.language.tree import WHOLE, Binary, Call, Cast, Choice, Constant, Expression, Load, Read, Unary, walk


def value_of(body: Body, one: Expression) -> Value:
    code, shape = body.code, body.shape
    if isinstance(one, Read):
        watch_read(body, one)
    digit = body.differs.space.digit(one)
    if digit is not None and digit in body.digits:
        return _typed(body, body.digits[digit], KINDS[one.type])
    match one:
        case Constant():
            return constant(one.type, one.value)
        case Read():
            if one.variable in body.given:
                return scalar(one.type, body.given[one.variable])
            return body.read(body.variable(one.variable))
        case Load():
            store = body.target
            if store is not None and is_target(store[0], one):
                return loaded(body, one, store[1])
            return loaded(body, one, tuple(value_of(body, part) for part in one.index))
        case Unary():
            return each(
                code, shape, one.type, [value_of(body, one.value)], lambda word: arithmetic.unary(code, one.operator, one.type, word)
            )
        case Cast():
            given = one.value.type
            return each(code, shape, one.type, [value_of(body, one.value)], lambda word: arithmetic.cast(code, word, given, one.type))
        case Call():
            values = [value_of(body, part) for part in one.arguments]
            return each(code, shape, one.type, values, lambda *words: function(code, one.name, list(words)))
        case Choice():
            return _choice(body, one)
        case Binary(operator="and" | "or"):
            return _short(body, one)
        case Binary():
            return _binary(body, one)


def _typed(body: Body, value: Value, kind: str) -> Value:
    """A digit, which is long, as the type that the text gives it."""
    if kind == "i64":
        return value
    how = "trunc" if body.shape.bits else "trunc nuw nsw"  # as many instances as an int holds; of blocks LLVM makes worse loops by that
    words = tuple(body.code.convert(how, word, kind) for word in value.words)
    return Value("int", value.bits, words, value.stride)


def _binary(body: Body, one: Binary) -> Value:
    code, shape = body.code, body.shape
    left, right = value_of(body, one.left), value_of(body, one.right)
    bits = left.bits | right.bits
    if one.type in ("int", "long") and bits & LANES:
        steps = [value.stride if value.bits & LANES else 0 for value in (left, right)]
        stride = stride_of(one.operator, steps[0], steps[1], constant_of(one.left), constant_of(one.right))
        if stride is not None:
            words = [
                arithmetic.binary(code, one.operator, one.type, base(shape, left, row, vector), base(shape, right, row, vector))
                for row, vector in shape.cells(bits)
            ]
            return Value(one.type, bits, tuple(words), stride)
    operands = one.left.type
    if body.counters is not None and one.operator in ("/", "%") and operands in WHOLE:
        _watch_division(body, one, right)
    return each(code, shape, one.type, [left, right], lambda first, second: arithmetic.binary(code, one.operator, operands, first, second))


def _watch_division(body: Body, one: Binary, right: Value) -> None:
    code = body.code
    if constant_of(one.right):
        return
    bad = body.both(body.taking_part(), each(code, body.shape, "bool", [right], lambda word: code.compare("eq", word, same(word, 0))))
    failed, fine = code.fresh("failed"), code.fresh("fine")
    code.branch(body.any(bad), failed, fine, rare=True)
    code.label(failed)
    body.fail(DIVIDED, one.at, bad, right, number("i64", 0))
    code.label(fine)


def careful(body: Body, one: Expression) -> bool:
    """Must it not be looked at where it is not asked for?"""
    if body.counters is not None:
        return True
    return any(isinstance(part, Load) and id(part) not in body.proofs.free for part in walk(one))


def needs_someone(body: Body, one: Expression) -> bool:
    """Does it load for several instances at once, so that a mask for each does not help?"""
    return any(
        isinstance(part, Load) and id(part) not in body.proofs.free and not body.differs.kind(part).bits & LANES for part in walk(one)
    )


def _short(body: Body, one: Binary) -> Value:
    code, shape = body.code, body.shape
    left = value_of(body, one.left)
    if careful(body, one.right):
        asked = left if one.operator == "and" else body.opposite(left)
        right = if_asked(body, asked, one.right, (id(one), "right"))
    else:
        right = value_of(body, one.right)
    return each(code, shape, "bool", [left, right], lambda first, second: code.binary(one.operator, first, second))


def _choice(body: Body, one: Choice) -> Value:
    test = value_of(body, one.condition)
    yes = _side(body, test, one.yes, (id(one), "yes"))
    no = _side(body, body.opposite(test), one.no, (id(one), "no"))
    return body.either(test, yes, no)


def _side(body: Body, asked: Value, one: Expression, key: Key) -> Value:
    return if_asked(body, asked, one, key) if careful(body, one) else value_of(body, one)


def if_asked(body: Body, asked: Value, one: Expression, key: Key) -> Value:
    """The value for those who ask; anything for the others."""

    def compute() -> Value:
        body.count(key)
        return value_of(body, one)

    if asked.bits and not needs_someone(body, one):
        with body.narrowed(asked):
            return compute()
    slot = body.slot(one.type, Kind(body.differs.kind(one).bits))
    body.write(slot, constant(one.type, 0))
    if not asked.bits:
        with body.code.when(asked.whole):
            body.write(slot, compute())
        return body.read(slot)
    with body.narrowed(asked) as mask, body.code.when(body.any(body.read(mask))):
        body.write(slot, compute())
    return body.read(slot)
