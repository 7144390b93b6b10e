"""Code that looks for what goes wrong between instances and with what has no value, and code that notes where an instance looks.

Who was at an element is a word of 32 bits: 0, nobody; 1, several that read it; 2, several that changed it by atomics; else one instance,
four times its number and what for (READ, CHANGED; WRITTEN, also for a mixture of the other two). That is all it takes to tell whether two
instances met of which one wrote: the states of Eraser (Savage et al., 1997) without its locks. Code that looks for races runs one instance
after another. So where an instance comes to a few places at most, it keeps where it has been itself, and a byte of an element says the
rest: 0, nobody; ONE or OTHERS that read it; HELD, one that wrote. Random elements of a byte are in the cache where words are not.
"""

from __future__ import annotations

from typing import Final

from laminar.kernels.analyse.space import ALL
from laminar.kernels.compile.assembly import Word, number
from laminar.kernels.compile.body import RACE, UNSET, Body
from laminar.kernels.compile.differs import Kind
from laminar.kernels.compile.grid import Value, constant, scalar
from laminar.kernels.compile.marks import Marked
from laminar.kernels.language.tree import At, Atomic, Load, Object, Read, Store, Variable

READ: Final = 0
WRITTEN: Final = 1
CHANGED: Final = 2
SEVERAL: Final = {READ: 1, CHANGED: 2}
ONE, OTHERS, HELD = 1, 2, 3


def watch_races(body: Body, node: Load | Store | Atomic, offset: Value) -> None:
    """Has another instance been here, and would that matter?"""
    counters, code = body.counters, body.code
    if counters is None or node.object not in counters.races or id(node) in counters.quiet:
        return
    found = counters.races[node.object]
    if isinstance(found, Marked):
        found.mark(code, offset.whole)
        return
    sort, shadow = found
    if sort == "few":
        bad = _met_elsewhere(body, node, code.address("i8", shadow, offset.whole), offset.whole)
    else:
        place = code.address("i32", shadow, offset.whole)
        bad = _met(body, place, WRITTEN if isinstance(node, Store) else READ if isinstance(node, Load) else CHANGED)
    _fail_if(body, bad, RACE, node.at, offset)


def _met_elsewhere(body: Body, node: Load | Store | Atomic, place: Word, offset: Word) -> Word:
    """The same, where this instance has kept the elements at which it has been."""
    code, was = body.code, body.code.load("i8", place)

    def is_(state: int) -> Word:
        return code.compare("eq", was, number("i8", state))

    mine, (slots, used) = number("i1", 0), body.been[node.object]
    for slot in slots[: len(used)]:
        mine = code.binary("or", code.compare("eq", code.load("i64", slot), offset), mine)
    if len(used) < len(slots):  # what is not kept is taken for another's: the emulator will know better
        code.store(offset, slots[len(used)])
        used.append(node)
    if isinstance(node, Store):
        code.store(number("i8", HELD), place)
        alone = code.binary("and", mine, code.compare("ne", was, number("i8", OTHERS)))
        return code.binary("xor", code.binary("or", is_(0), alone), number("i1", 1))
    another = code.binary("and", is_(ONE), code.binary("xor", mine, number("i1", 1)))
    code.store(code.select(is_(0), number("i8", ONE), code.select(another, number("i8", OTHERS), was)), place)
    return code.binary("and", is_(HELD), code.binary("xor", mine, number("i1", 1)))


def _met(body: Body, place: Word, kind: int) -> Word:
    """Whether two instances met that should not have; the word becomes what it is after this access."""
    code = body.code

    def word(value: int) -> Word:
        return number("i32", value)

    me = code.convert("trunc", code.binary("add", code.binary("shl", body.digits[ALL].whole, number("i64", 2)), number("i64", 4)), "i32")
    was = code.load("i32", place)
    nobody = code.compare("eq", was, word(0))
    mine = code.compare("eq", code.binary("and", was, word(-4)), me)
    alone = code.binary("or", nobody, mine)
    if kind == WRITTEN:
        code.store(code.binary("or", me, word(WRITTEN)), place)
        return code.binary("xor", alone, number("i1", 1))
    fresh, several = code.binary("or", me, word(kind)), word(SEVERAL[kind])
    alike = code.compare("eq", code.binary("and", was, word(3)), word(kind))
    kept = code.select(alike, was, code.binary("or", me, word(WRITTEN)))
    code.store(code.select(nobody, fresh, code.select(mine, kept, several)), place)
    one_other = code.binary("and", alike, code.compare("uge", was, word(4)))
    fine = code.binary("or", alone, code.binary("or", one_other, code.compare("eq", was, several)))
    return code.binary("xor", fine, number("i1", 1))


def _fail_if(body: Body, bad: Word, kind: int, at: At, index: Value, who: Value | None = None) -> None:
    code = body.code
    failed, fine = code.fresh("failed"), code.fresh("fine")
    code.branch(bad, failed, fine, rare=True)
    code.label(failed)
    body.fail(kind, at, who, index, number("i64", 0))
    code.label(fine)


def fail_unset(body: Body, at: At, empty: Value) -> None:
    """If any of those that take part looks at what has no value."""
    bad = body.both(body.taking_part(), empty)
    _fail_if(body, body.any(bad), UNSET, at, scalar("long", number("i64", 0)), bad)


def note(body: Body, node: Load | Store | Atomic, offset: Value) -> None:
    """The element, in the record of this instance and place."""
    counters, code = body.counters, body.code
    if counters is None or counters.records is None or node.object.memory == "local":
        return
    size = counters.record * len(counters.regions.accesses)
    first = code.binary("mul", body.digits[ALL].whole, number("i64", size))
    first = code.binary("add", first, number("i64", counters.record * counters.regions.sites[id(node)]))
    many = code.address("i64", counters.records, first)
    before = code.load("i64", many)
    slot = code.intrinsic("smin", before, number("i64", counters.record - 2))
    code.store(offset.whole, code.address("i64", many, code.binary("add", slot, number("i64", 1))))
    code.store(code.binary("add", before, number("i64", 1)), many)


def note_declared(body: Body, variable: Variable) -> None:
    """From here on it has no value."""
    found = _known(body, variable)
    if found is not None:
        body.declare(found)
        body.write(body.variables[found], constant("bool", 0))


def note_assigned(body: Body, variable: Variable) -> None:
    found = _known(body, variable)
    if found is not None:
        body.assign(found, constant("bool", 1))


def watch_read(body: Body, node: Read) -> None:
    if body.counters is None or id(node) not in body.counters.unsure:
        return
    found = _known(body, node.variable)
    if found is not None:
        fail_unset(body, node.at, body.opposite(body.read(body.variables[found])))


def _known(body: Body, variable: Variable) -> Variable | None:
    """A variable that says whether this one has a value, if somebody may have to ask."""
    if body.counters is None or variable not in body.loose:
        return None
    if variable not in body.has:
        made = Variable(variable.name, "bool", variable.at)
        body.has[variable] = made
        body.variables[made] = body.slot("bool", Kind(body.shape.bits))
    return body.has[variable]


def mark_of(object_: Object) -> Object:
    """An array that says which elements of this one have a value."""
    return Object(object_.name, "bool", object_.shape, object_.memory, object_.at)
