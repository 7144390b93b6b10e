"""The function that is called: `int32 run(int64 begin, int64 end, int64 count, void** arrays, void* values, Status* status)`.

It runs the instances from begin to end. Instances of a space with digits are taken box by box: `rows` of the digit that the block's rows
are of, all values of the digits between, a stretch of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.analyse.space import ALL, Digit, Space
from laminar.kernels.compile.assembly import KINDS, Code, Module, Word, number
from laminar.kernels.compile.body import FAIL, Allowed, Body, Counters
from laminar.kernels.compile.differs import Differs
from laminar.kernels.compile.grid import Shape, Value
from laminar.kernels.compile.interrupts import Interrupts, asks, is_long
from laminar.kernels.compile.marks import Marked
from laminar.kernels.compile.regions import ALL as START
from laminar.kernels.compile.shadows import mark_of
from laminar.kernels.compile.sizes import size_word
from laminar.kernels.compile.statements import written
from laminar.kernels.compile.watch import FEW, Watch
from laminar.kernels.language.tree import Kernel, Object, Variable

RUN: Final = "run"
POINTER: Final = "ptr"


@dataclass
class Frame:
    """What every function of a kernel is given: `common` are its parameters."""

    kernel: Kernel
    space: Space
    status: Word = field(default_factory=lambda: Word("%status", POINTER))
    count: Word = field(default_factory=lambda: Word("%count", "i64"))
    arrays: dict[Object, Word] = field(default_factory=dict)
    values: dict[Variable, Word] = field(default_factory=dict)
    watch: Watch | None = None
    loose: frozenset[Variable | Object] = frozenset()  # what may be looked at before it has a value

    @staticmethod
    def of(kernel: Kernel, space: Space, watch: Watch | None = None) -> Frame:
        made = Frame(kernel, space, watch=watch)
        if watch is not None:
            made.loose = watch.loose(kernel)
        for number_, one in enumerate(kernel.arrays):
            assert isinstance(one.of, Object)
            made.arrays[one.of] = Word(f"%array{number_}", POINTER)
        for number_, one in enumerate(kernel.values):
            assert isinstance(one.of, Variable)
            made.values[one.of] = Word(f"%value{number_}", KINDS[one.of.type])
        return made

    @property
    def common(self) -> list[tuple[Word, str]]:
        return [
            (self.status, ""),
            (self.count, ""),
            *((word, "noalias") for word in self.arrays.values()),
            *((word, "") for word in self.values.values()),
        ]

    def given(self, code: Code) -> dict[Variable, Word]:
        count = self.kernel.count
        word = code.convert("trunc", self.count, "i32") if count.type == "int" else self.count
        return {count: word, **self.values}

    def interrupts(self, code: Code) -> Interrupts | None:
        """As a function starts; None: no instance takes long."""
        return Interrupts(code, self.status, counts=asks(self.kernel.body)) if is_long(self.kernel.body) else None

    def body(
        self,
        code: Code,
        differs: Differs,
        digits: dict[Digit, Value],
        proofs: Allowed,
        active: tuple[Word, ...] = (),
        counters: Counters | None = None,
        interrupts: Interrupts | None = None,
    ) -> Body:
        """Ready to be written: variables that are parameters and change have their values."""
        given = self.given(code)
        sizes = {one: tuple(size_word(code, size, given) for size in one.shape) for one in self.kernel.objects}
        made = Body(code, self.kernel, differs, self.status, dict(self.arrays), sizes, given, digits, proofs, active)
        made.counters, made.interrupts = counters, interrupts
        if counters is not None:
            made.loose = self.loose
            made.marks = {one: mark_of(one) for one in counters.filled}
            made.arrays |= {made.marks[one]: word for one, word in counters.filled.items()}
            kept = [one for one, found in counters.races.items() if not isinstance(found, Marked) and found[0] == "few"]
            made.been = {one: (self._nowhere(code), []) for one in kept}
        for variable in [one for one in given if one in self.space.changed]:
            word = given.pop(variable)
            made.write(made.variable(variable), Value(variable.type, 0, (word,)))
        return made

    @staticmethod
    def _nowhere(code: Code) -> list[Word]:
        found = [code.room("i64") for _ in range(FEW)]
        for slot in found:
            code.store(number("i64", -1), slot)
        return found


def loop(code: Code, start: Word, end: Word, step: int, body: Callable[[Word], None]) -> Word:
    """While start + step <= end; gives where it stopped."""
    again, work, after = code.fresh("next"), code.fresh("do"), code.fresh("done")
    at = code.room("i64")
    code.store(start, at)
    code.label(again)
    now = code.load("i64", at)
    following = code.binary("add nsw", now, number("i64", step))
    code.branch(code.compare("sle", following, end), work, after)
    code.label(work)
    body(now)
    code.store(following, at)
    code.jump(again)
    code.label(after)
    return code.load("i64", at)


def write_fail(module: Module) -> None:
    """Note the first failure in the status: kind, line, column, and instance, index, size."""
    names = ["kind", "line", "column"]
    words = [
        Word("%status", POINTER),
        *(Word(f"%{one}", "i32") for one in names),
        *(Word(f"%{one}", "i64") for one in ("instance", "index", "size")),
    ]
    code = Code(module, FAIL, [(one, "") for one in words], "void", "cold noinline nounwind")
    for place, word in zip((0, 4, 8, 16, 24, 32), words[1:], strict=True):
        code.store(word, code.address("i8", words[0], number("i64", place)), 4 if word.type == "i32" else 8)
    code.emit("ret void")
    code.finish()


def write_each(module: Module, frame: Frame, name: str, proofs: Allowed, attributes: str = "", *, recorded: bool = False) -> None:
    """One instance after another, from %begin to %end. `recorded`: with the elements that each looks at."""
    begin, end = Word("%begin", "i64"), Word("%end", "i64")
    code = Code(module, name, [(begin, ""), (end, ""), *frame.common], "i32", f"noinline nounwind {attributes}")
    differs = Differs.of(frame.space, Shape())
    counters = frame.watch.counters(code, frame.status, recorded=recorded) if frame.watch is not None else None

    interrupts = frame.interrupts(code)

    def one(now: Word) -> None:
        if interrupts is not None and interrupts.counts:
            interrupts.round()
        body = frame.body(code, differs, {ALL: Value("long", 0, (now,))}, proofs, counters=counters, interrupts=interrupts)
        body.count(START)
        written(body, frame.kernel.body)

    loop(code, begin, end, 1, one)
    if frame.watch is not None and counters is not None:
        frame.watch.flush(code, frame.status, counters)
    code.give(number("i32", 0))
    code.finish()


def write_run(module: Module, frame: Frame, choose: Callable[[Code, dict[Variable, Word]], None], name: str = RUN) -> None:
    """Arguments to words; `choose` writes what is called with them."""
    *_, arrays, values, _ = parameters = _called(frame)
    code = Code(module, name, [(one, "") for one in parameters], "i32", "nounwind")
    for number_, word in enumerate(frame.arrays.values()):
        code.emit(f"{word.name} = load ptr, ptr {code.address('ptr', arrays, number('i64', number_)).name}")
    for number_, word in enumerate(frame.values.values()):
        place = code.address("i64", values, number("i64", number_))
        if word.type in ("float", "double"):
            code.emit(f"{word.name} = load {word.type}, {place}")
        else:
            slot = code.load("i64", place)
            if word.type == "i64":
                code.emit(f"{word.name} = add i64 {slot.name}, 0")
            elif word.type == "i1":
                code.emit(f"{word.name} = icmp ne i64 {slot.name}, 0")
            else:
                code.emit(f"{word.name} = trunc {slot} to {word.type}")
    choose(code, frame.given(code))
    code.finish()


def _called(frame: Frame) -> list[Word]:
    begin, end, arrays, values = Word("%begin", "i64"), Word("%end", "i64"), Word("%arrays", POINTER), Word("%values", POINTER)
    return [begin, end, frame.count, arrays, values, frame.status]


def write_watched(module: Module, frame: Frame, plain: str, recorded: str) -> None:
    """Some stretches in the midst by the code that records, and all the others by the plain code; in order."""
    watch, parameters = frame.watch, _called(frame)
    assert watch is not None
    begin, end, *rest = parameters
    code = Code(module, RUN, [(one, "") for one in parameters], "i32", "nounwind")
    records, parts, window, unit = (
        code.load("i64", watch.place(code, frame.status, name)) for name in ("records", "parts", "window", "unit")
    )
    size = number("i64", 8 * watch.record * len(watch.regions.accesses))
    count = code.binary("sub", end, begin)
    reached = code.room("i64")
    code.store(begin, reached)

    def run(name: str, start: Word, stop: Word) -> None:
        failed, fine = code.fresh("failed"), code.fresh("fine")
        result = code.call(name, "i32", [start, stop, *rest])
        code.branch(code.compare("ne", result, number("i32", 0)), failed, fine, rare=True)
        code.label(failed)
        code.give(result)
        code.label(fine)

    def stretch(part: Word) -> None:
        odd = code.binary("add", code.binary("shl", part, number("i64", 1)), number("i64", 1))
        middle = code.binary("sdiv", code.binary("mul", odd, count), code.binary("shl", parts, number("i64", 1)))
        now = code.load("i64", reached)
        whole = code.binary("mul", code.binary("sdiv", middle, unit), unit)  # so that blocks are cut in two as rarely as can be
        start = code.intrinsic("smax", now, code.binary("add", begin, whole))
        stop = code.intrinsic("smin", end, code.binary("add", start, window))
        run(plain, now, start)
        row = code.binary("sub", code.binary("mul", part, window), start)
        code.store(code.binary("add", records, code.binary("mul", row, size)), watch.place(code, frame.status, "base"))
        run(recorded, start, stop)
        code.store(stop, reached)

    loop(code, number("i64", 0), parts, 1, stretch)
    run(plain, code.load("i64", reached), end)
    code.give(code.convert("zext", watch.met(code, frame.status), "i32"))
    code.finish()


def call_each(code: Code, frame: Frame, name: str, *first: Word) -> Word:
    return code.call(name, "i32", [*first, *(word for word, _ in frame.common)])
