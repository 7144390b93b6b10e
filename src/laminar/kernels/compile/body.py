"""What is known while a kernel's body is written for a block of instances: where its variables are, who of the block takes part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from laminar.kernels.analyse.space import ALL, Digit
from laminar.kernels.compile.assembly import KINDS, Code, Word, number, wide
from laminar.kernels.compile.differs import Differs, Kind
from laminar.kernels.compile.grid import LANES, ROWS, Shape, Value, base, cell, each, scalar, spread
from laminar.kernels.compile.interrupts import Interrupts
from laminar.kernels.compile.marks import Marked
from laminar.kernels.compile.regions import Key, Regions
from laminar.kernels.language.tree import At, Atomic, Kernel, Load, Object, Store, Type, Variable

FAIL: Final = "own.fail"
OUTSIDE: Final = 1  # kinds of failure, in the status
ENDLESS: Final = 2
DIVIDED: Final = 3  # what only code with counters looks for
RACE: Final = 4
UNSET: Final = 5
DEEP: Final = 16  # conditions within each other, after which LLVM is to look no further back: it looks through all of them at each


Access: TypeAlias = Load | Store | Atomic


@dataclass(frozen=True)
class Allowed:
    """`unchecked`: accesses by id that need no check; `free`: those that are within bounds whatever conditions say, so that they may be
    done early. `endless`: loops by id that may have no end."""

    unchecked: frozenset[int] = frozenset()
    free: frozenset[int] = frozenset()
    endless: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Slot:
    """Where a variable or a mask is kept while the function runs; LLVM turns it into registers."""

    type: Type
    kind: Kind
    places: tuple[Word, ...]
    opaque: bool = False  # stays in memory


@dataclass(frozen=True)
class Local:
    """A local array: for each element the words of a value with these bits."""

    place: Word
    bits: int


@dataclass(frozen=True)
class Frame:
    """A mask that jumps may narrow. `loop`: those that are still in it; `round`: those in this round; `scope`: by number."""

    sort: Literal["if", "loop", "round", "scope"]
    mask: Slot
    number: int = 0


@dataclass(frozen=True)
class Around:
    """A loop or scope around the place: where jumps go; `masked`: not all instances leave at once."""

    after: str
    update: str
    masked: bool
    loop: int = 0


@dataclass(frozen=True)
class Counters:
    """How often each region ran, while the function runs, and what watch.py says. `races`: who was at the elements of an array, or that
    somebody was; `filled`:
    which elements have a value. `present`: how many rows are there, if some may not be. `records`: where the elements go that instances
    look at, with `record` words for each place of the text."""

    regions: Regions
    places: dict[int, Word]  # of those that are counted
    races: dict[Object, Marked | tuple[Literal["few", "owner"], Word]]
    quiet: frozenset[int]
    filled: dict[Object, Word]
    unsure: frozenset[int]
    rounds: int
    present: Word | None
    records: Word | None
    record: int
    once: bool = False  # these are of one round of a loop, which tells for all


@dataclass(frozen=True)
class Rounds:
    """`until`: when to look whether it is to go on."""

    done: Word
    until: Word


@dataclass
class Body:
    """`mask`: who takes part; None: all. `active`: rows that are there, if some may not be; they only count where something is changed."""

    code: Code
    kernel: Kernel
    differs: Differs
    status: Word
    arrays: dict[Object, Word]
    sizes: dict[Object, tuple[Word, ...]]
    given: dict[Variable, Word]
    digits: dict[Digit, Value]
    proofs: Allowed
    active: tuple[Word, ...] = ()
    mask: Slot | None = None
    tail: Slot | None = None  # lanes that are there, if some are beyond the end
    frames: list[Frame] = field(default_factory=list)
    variables: dict[Variable, Slot] = field(default_factory=dict)
    locals: dict[Object, Local] = field(default_factory=dict)
    loops: list[Around] = field(default_factory=list)
    rounds: Rounds | None = None  # counted so far, in a loop that may have no end and all within
    interrupts: Interrupts | None = None  # if it may take long
    scopes: dict[int, Around] = field(default_factory=dict)
    counters: Counters | None = None
    loose: frozenset[Variable | Object] = frozenset()  # what may be looked at before it has a value
    has: dict[Variable, Variable] = field(default_factory=dict)  # whether each of these has one
    marks: dict[Object, Object] = field(default_factory=dict)  # which elements of each of these have one
    been: dict[Object, tuple[list[Word], list[Access]]] = field(default_factory=dict)  # where an instance keeps at which elements it was
    target: tuple[Store, tuple[Value, ...]] | None = None  # the store whose value is being computed, and its index
    _declared: dict[Variable, Slot | None] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.differs.shape

    def slot(self, type_: Type, kind: Kind) -> Slot:
        width = self.shape.wide(kind.bits) if kind.stride is None else 0
        made = [self.code.room(wide(KINDS[type_], width)) for _ in range(self.shape.size(kind.bits))]
        return Slot(type_, kind, tuple(made))

    def read(self, slot: Slot) -> Value:
        kind = slot.kind
        type_ = wide(KINDS[slot.type], self.shape.wide(kind.bits) if kind.stride is None else 0)
        words = tuple(self.code.load(type_, place, opaque=slot.opaque) for place in slot.places)
        return Value(slot.type, kind.bits, words, kind.stride if kind.bits & LANES else None)

    def write(self, slot: Slot, value: Value) -> None:
        """For all, whoever takes part."""
        kind = slot.kind
        if kind.bits & LANES and kind.stride is not None:
            assert value.stride == kind.stride
            words = tuple(base(self.shape, value, row, vector) for row, vector in self.shape.cells(kind.bits))
        else:
            words = spread(self.code, self.shape, value, kind.bits).words
        for word, place in zip(words, slot.places, strict=True):
            self.code.store(word, place, opaque=slot.opaque)

    def variable(self, variable: Variable) -> Slot:
        if variable not in self.variables:
            kind = self.differs.variables.get(variable, Kind())
            self.variables[variable] = self.slot(variable.type, kind)
        return self.variables[variable]

    def declare(self, variable: Variable) -> None:
        self._declared[variable] = self.mask

    def assign(self, variable: Variable, value: Value) -> None:
        slot = self.variable(variable)
        mask = self.taking_part()
        if mask is not None and slot.kind.bits and self._declared.get(variable) is not self.mask:
            value = self.either(self.reduced(mask, slot.kind.bits), value, self.read(slot))
        self.write(slot, value)

    def either(self, test: Value, yes: Value, no: Value) -> Value:
        """By each instance's test."""
        return each(self.code, self.shape, yes.type, [test, yes, no], self.code.select)

    def taking_part(self) -> Value | None:
        return self.read(self.mask) if self.mask is not None else None

    def reduced(self, mask: Value, bits: int) -> Value:
        """In the directions of these bits: does anybody take part there? What does not differ in the others is the same for all of them."""
        if not mask.bits & ~bits:
            return mask
        kept = mask.bits & bits
        found: dict[tuple[int, int], Word] = {}
        for row, vector in self.shape.cells(mask.bits):
            word = base(self.shape, mask, row, vector)
            word = word if kept & LANES else self.some(word)
            at = (row if kept & ROWS else 0, vector if kept & LANES else 0)
            found[at] = word if at not in found else self.code.binary("or", found[at], word)
        return Value("bool", kept, tuple(found[at] for at in self.shape.cells(kept)))

    def both(self, one: Value | None, other: Value) -> Value:
        if one is None:
            return other
        return each(self.code, self.shape, "bool", [one, other], lambda left, right: self.code.binary("and", left, right))

    def opposite(self, test: Value) -> Value:
        return each(self.code, self.shape, "bool", [test], lambda one: self.code.binary("xor", one, number("i1", 1, one.width)))

    def any(self, test: Value) -> Word:
        """Does it hold for any instance?"""
        found: Word | None = None
        for word in test.words:
            one = self.some(word)
            found = one if found is None else self.code.binary("or", found, one)
        assert found is not None
        return found

    def some(self, word: Word) -> Word:
        if not word.width:
            return word
        return self.code.compare("ne", self.code.as_bits(word, f"i{word.width}"), number(f"i{word.width}", 0))

    @contextmanager
    def narrowed(
        self, test: Value, sort: Literal["if", "loop", "round", "scope"] = "if", number: int = 0, *, jumps: bool = False
    ) -> Iterator[Slot]:
        """Within, only those take part for whom the test holds, too. `jumps`: some may leave."""
        before = self.mask
        mask = self.both(self.taking_part(), test)
        bits = self.shape.bits if jumps else mask.bits
        slot = replace(self.slot("bool", Kind(bits)), opaque=sort == "if" and len(self.frames) % DEEP == DEEP - 1)
        self.write(slot, mask)
        self.mask = slot
        self.frames.append(Frame(sort, slot, number))
        yield slot
        self.frames.pop()
        self.mask = before

    def remove(self, frame: Frame, leaving: Value) -> None:
        """Those no longer take part."""
        self.write(frame.mask, self.both(self.read(frame.mask), self.opposite(leaving)))

    def everybody(self) -> Value:
        return self.taking_part() or scalar("bool", number("i1", 1))

    def fail(self, kind: int, at: At, bad: Value | None, index: Value, size: Word) -> None:
        """Note the first instance that is bad, and end. Runs once at most: it need not be fast."""
        code, shape = self.code, self.shape
        instance, where = number("i64", 0), number("i64", 0)
        for row, vector in reversed(list(shape.cells(shape.bits))):
            origin = self._long(base(shape, self.digits[ALL], row, vector))
            width = shape.width if shape.bits & LANES and shape.width > 1 else 0
            test = cell(code, shape, bad, row, vector, width) if bad is not None else number("i1", 1, width)
            found = self._long(cell(code, shape, index, row, vector, width))
            lane = number("i64", 0)
            if width:
                lane = code.call(f"llvm.cttz.i{width}", f"i{width}", [code.as_bits(test, f"i{width}"), number("i1", 0)])
                lane = self._long(lane, "zext")
                inside = code.binary("and", lane, number("i64", width - 1))
                found = code.op(f"extractelement {found}, {inside}", "i64")
            has = self.some(test)
            instance = code.select(has, code.binary("add", origin, lane), instance)
            where = code.select(has, found, where)
        places = [number("i32", kind), number("i32", at.line), number("i32", at.column), instance, where, size]
        code.call(FAIL, "void", [self.status, *places])
        code.give(number("i32", 1))

    def _long(self, word: Word, how: str = "sext") -> Word:
        return word if word.kind == "i64" else self.code.convert(how, word, "i64")

    def count(self, key: Key) -> None:
        """Those that take part have come here."""
        if self.counters is None or (place := self.counters.places.get(self.counters.regions.numbers[key])) is None:
            return
        code, shape, mask = self.code, self.shape, self.taking_part()
        bits = mask.bits if mask is not None else 0
        rows = self.counters.present or number("i64", shape.rows)
        if mask is None:
            many = code.binary("mul", rows, number("i64", shape.vectors * shape.width))
        else:
            many = number("i64", 0)
            for row, vector in shape.cells(bits):
                word = base(shape, mask, row, vector)
                whole = code.as_bits(word, f"i{word.width}") if word.width else word
                found = self._long(code.intrinsic("ctpop", whole) if word.width else whole, "zext")
                if bits & ROWS and self.active:
                    found = code.select(self.active[row], found, number("i64", 0))
                many = code.binary("add", many, found)
            scale = 1 if bits & LANES else shape.vectors * shape.width
            many = code.binary("mul", many, number("i64", scale))
            many = many if bits & ROWS else code.binary("mul", many, rows)
        code.store(code.binary("add", code.load("i64", place), many), place)

    def row_mask(self, row: int) -> Word | None:
        """Does anybody of the row take part? None: surely."""
        mask = self.taking_part()
        if mask is None or not mask.bits & ROWS:
            return None
        found: Word | None = None
        for vector in range(self.shape.vectors if mask.bits & LANES else 1):
            one = self.some(base(self.shape, mask, row, vector))
            found = one if found is None else self.code.binary("or", found, one)
        return found
