"""Boxes of instances: the function that runs one, and the walk over those between begin and end.

An instance's number is q, m, c: `c` the last digit, along which the lanes are; `m` the digits up to that of the rows; `q` the digit of
the rows and all above it. A box is some values of q that share what is above, a stretch of m, and a stretch of c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from laminar.kernels.analyse.space import ALL, Cut, Digit, between
from laminar.kernels.compile.assembly import Code, Module, Word, number
from laminar.kernels.compile.body import Allowed
from laminar.kernels.compile.differs import Differs, Kind
from laminar.kernels.compile.entry import Frame, call_each, loop
from laminar.kernels.compile.grid import LANES, ROWS, Shape, Value, each, scalar
from laminar.kernels.compile.regions import ALL as START
from laminar.kernels.compile.sizes import product_word
from laminar.kernels.compile.statements import written
from laminar.kernels.language.tree import SIZES, Expression, Object, Variable, expressions, statements, walk

BOX = "own.box"
LINE: Final = 64  # bytes of the cache's lines
WORTH: Final = 1024  # instances from which on it is worth beginning at one


@dataclass(frozen=True)
class Plan:
    """How many instances at once, and which digit the rows are of: 1 for the last but one; 0 in a space without digits."""

    shape: Shape
    axis: int = 0

    @property
    def text(self) -> str:
        shape = self.shape
        return f"{shape.rows} rows x {shape.vectors} vectors x {shape.width} lanes"


@dataclass(frozen=True)
class _Sizes:
    """Of the last digit, of the digits between, of each above (the topmost has none)."""

    last: Word
    middle: Word
    each: tuple[Word, ...]


def _sizes(code: Code, frame: Frame, given: dict[Variable, Word], axis: int) -> _Sizes:
    cuts = frame.space.cuts
    last = product_word(code, cuts[0], given, frame.space)
    every = tuple(product_word(code, between(low, high), given, frame.space) for low, high in pairwise(cuts))
    middle = product_word(code, between(cuts[0], cuts[axis - 1]), given, frame.space)
    return _Sizes(last, middle, every)


def digits_in_use(frame: Frame) -> set[Digit]:
    found = {ALL}

    def look(one: Expression) -> None:
        digit = frame.space.digit(one)
        if digit is not None:
            found.add(digit)

    for statement in statements(frame.kernel.body):
        for whole in expressions(statement):
            for part in walk(whole):
                look(part)
    return found


def write_box(module: Module, frame: Frame, plan: Plan, proofs: Allowed) -> None:
    q, rows, first, beyond, start, end = (Word(f"%{name}", "i64") for name in ("q", "rows", "first", "beyond", "from", "to"))
    parameters = [(one, "") for one in (q, rows, first, beyond, start, end)]
    code = Code(module, BOX, [*parameters, *frame.common], "i32", "noinline nounwind")
    shape, narrow = plan.shape, Shape(plan.shape.rows, 1, plan.shape.width)
    differs = {one: Differs.of(frame.space, one, plan.axis) for one in dict.fromkeys((shape, narrow))}
    given = frame.given(code)
    sizes = _sizes(code, frame, given, plan.axis) if plan.axis else None
    active = tuple(code.compare("slt", number("i64", row), rows) for row in range(shape.rows)) if shape.rows > 1 else ()
    watch = frame.watch
    counters = watch.counters(code, frame.status, rows if shape.rows > 1 else None) if watch is not None else None
    above = _rows_digits(code, plan, sizes, q, rows)
    interrupts = frame.interrupts(code)

    def stretch(middle: Word) -> None:
        elementary = [*_middle_digits(code, plan, sizes, middle), *above]

        def block(shape: Shape, masked: bool, now: Word) -> None:
            if interrupts is not None and interrupts.counts:
                interrupts.round()
            digits = {one: _digit(code, frame, shape, sizes, one, now, elementary) for one in digits_in_use(frame)}
            body = frame.body(code, differs[shape], digits, proofs, active, counters, interrupts)
            if masked:
                lanes = Value("long", LANES, (number("i64", 0),), 1)
                left = code.binary("sub", end, now)
                body.mask = body.tail = body.slot("bool", Kind(LANES))
                test = each(code, shape, "bool", [lanes, scalar("long", left)], partial(code.compare, "slt"))
                body.write(body.mask, test)
            body.count(START)
            written(body, frame.kernel.body)

        at = loop(code, start, end, shape.vectors * shape.width, partial(block, shape, False))
        whole = code.binary("add", end, number("i64", shape.width - 1))
        loop(code, at, whole, shape.width, partial(block, narrow, True))

    loop(code, first, beyond, 1, stretch)
    if watch is not None and counters is not None:
        watch.flush(code, frame.status, counters)
    code.give(number("i32", 0))
    code.finish()


def _rows_digits(code: Code, plan: Plan, sizes: _Sizes | None, q: Word, rows: Word) -> list[tuple[Word, ...]]:
    """The digit of the rows, for each row, and those above it."""
    if sizes is None:
        return []
    found: list[tuple[Word, ...]] = []
    rest = q
    for size in sizes.each[plan.axis - 1 :]:
        found.append((code.binary("urem", rest, size),))
        rest = code.binary("udiv", rest, size)
    found.append((rest,))
    last = code.binary("sub", rows, number("i64", 1))
    steps = [code.intrinsic("smin", number("i64", row), last) for row in range(plan.shape.rows)]
    found[0] = tuple(code.binary("add", found[0][0], step) for step in steps) if len(steps) > 1 else found[0]
    return found


def _middle_digits(code: Code, plan: Plan, sizes: _Sizes | None, middle: Word) -> list[tuple[Word, ...]]:
    found: list[tuple[Word, ...]] = []
    for size in sizes.each[: plan.axis - 1] if sizes is not None else ():
        found.append((code.binary("urem", middle, size),))
        middle = code.binary("udiv", middle, size)
    return found


def _digit(
    code: Code, frame: Frame, shape: Shape, sizes: _Sizes | None, digit: Digit, now: Word, elementary: list[tuple[Word, ...]]
) -> Value:
    """Made of the elementary ones that it spans."""
    cuts: list[Cut] = [(), *frame.space.cuts]
    total: list[Word] = [number("i64", 0)]
    scale = number("i64", 1)
    for place, cut in enumerate(cuts):
        if len(cut) < len(digit.low) or (digit.high is not None and len(cut) >= len(digit.high)):
            continue
        words = elementary[place - 1] if place else (now,)
        if len(words) > len(total):
            total = total * len(words)
        total = [
            code.binary("add", before, code.binary("mul", scale, words[row if len(words) > 1 else 0])) for row, before in enumerate(total)
        ]
        if sizes is not None and place < len(cuts) - 1:
            scale = code.binary("mul", scale, sizes.each[place - 1] if place else sizes.last)
    bits = (ROWS if len(total) > 1 else 0) | (LANES if not digit.low else 0)
    if not bits & LANES:
        return Value("long", bits, tuple(total))
    steps = [number("i64", vector * shape.width) for vector in range(shape.vectors)]
    return Value("long", bits, tuple(code.binary("add", word, step) for word in total for step in steps), 1)


def _askew(code: Code, frame: Frame, plan: Plan, begin: Word, end: Word) -> Word:
    """Instances up to the first whose element of the output is at the start of a line of the cache: vectors that lie across two lines take
    a sixth longer where memory is what counts. Arrays of one program mostly lie alike, so that the inputs' vectors do not either."""
    zero = number("i64", 0)
    made = next((one.of for one in frame.kernel.arrays if one.mode != "in" and isinstance(one.of, Object) and len(one.of.shape) == 1), None)
    if made is None or plan.shape.width == 1:
        return zero
    size = SIZES[made.type]
    place = code.op(f"ptrtoint {frame.arrays[made]} to i64", "i64")
    here = code.binary("add", place, code.binary("mul", begin, number("i64", size)))
    off = code.binary("and", code.binary("sub", zero, here), number("i64", LINE - 1))
    before = code.binary("lshr", off, number("i64", size.bit_length() - 1))
    worth = code.compare("sge", code.binary("sub", end, begin), number("i64", WORTH))
    return code.select(worth, before, zero)


def walk_boxes(code: Code, frame: Frame, given: dict[Variable, Word], plan: Plan, begin: Word, end: Word) -> None:
    """Box after box; ends with what the function gives."""
    one, zero = number("i64", 1), number("i64", 0)
    if not plan.axis:
        start = code.binary("add", begin, _askew(code, frame, plan, begin, end))
        result = call_each(code, frame, BOX, zero, one, zero, one, begin, start)
        rest, failed = code.fresh("rest"), code.fresh("failed")
        code.branch(code.compare("eq", result, number("i32", 0)), rest, failed)
        code.label(failed)
        code.give(result)
        code.label(rest)
        code.give(call_each(code, frame, BOX, zero, one, zero, one, start, end))
        return
    sizes = _sizes(code, frame, given, plan.axis)
    slab = code.binary("mul", sizes.middle, sizes.last)
    at = code.room("i64")
    code.store(begin, at)
    again, work, part, full, whole, done, failed = (
        code.fresh(word) for word in ("boxes", "work", "part", "full", "whole", "done", "failed")
    )
    code.label(again)
    now = code.load("i64", at)
    left = code.binary("sub", end, now)
    code.branch(code.compare("sgt", left, zero), work, done)

    def box(q: Word, rows: Word, first: Word, beyond: Word, start: Word, stop: Word, many: Word) -> None:
        code.store(code.binary("add", now, many), at)
        result = call_each(code, frame, BOX, q, rows, first, beyond, start, stop)
        code.branch(code.compare("eq", result, number("i32", 0)), again, failed)

    code.label(work)
    column, above = code.binary("urem", now, sizes.last), code.binary("udiv", now, sizes.last)
    middle, q = code.binary("urem", above, sizes.middle), code.binary("udiv", above, sizes.middle)
    middle_more = code.binary("add", middle, one)
    partial_row = code.binary("or", code.compare("ne", column, zero), code.compare("slt", left, sizes.last))
    code.branch(partial_row, part, full)
    code.label(part)
    stop = code.intrinsic("smin", sizes.last, code.binary("add", column, left))
    box(q, one, middle, middle_more, column, stop, code.binary("sub", stop, column))
    code.label(full)
    partial_slab = code.binary("or", code.compare("ne", middle, zero), code.compare("slt", left, slab))
    some = code.fresh("some")
    code.branch(partial_slab, some, whole)
    code.label(some)
    beyond = code.intrinsic("smin", sizes.middle, code.binary("add", middle, code.binary("udiv", left, sizes.last)))
    box(q, one, middle, beyond, zero, sizes.last, code.binary("mul", code.binary("sub", beyond, middle), sizes.last))
    code.label(whole)
    rows = code.intrinsic("smin", number("i64", plan.shape.rows), code.binary("udiv", left, slab))
    if plan.axis <= len(sizes.each):
        size = sizes.each[plan.axis - 1]
        rows = code.intrinsic("smin", rows, code.binary("sub", size, code.binary("urem", q, size)))
    box(q, rows, zero, sizes.middle, zero, sizes.last, code.binary("mul", rows, slab))
    code.label(failed)
    code.give(number("i32", 1))
    code.label(done)
    code.give(number("i32", 0))
