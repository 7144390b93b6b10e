"""What code with counters counts and looks for, and where it keeps that: in words behind the status of a call.

    counters of regions · pointers to who was at each element, shifts and numbers of marks, distances · pointers to which elements have a
    value · records, and words for them

Some stretches of neighbouring instances are run one by one, with the elements they look at recorded: how far neighbours are apart is told
by these. All instances are run once, whichever way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from laminar.kernels.analyse.assigned import Assigned
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.compile.assembly import Code, Word, number
from laminar.kernels.compile.board import Status
from laminar.kernels.compile.body import Counters
from laminar.kernels.compile.marks import UNKNOWN, Marked, counted_bits, overlap
from laminar.kernels.compile.regions import Regions
from laminar.kernels.compile.side_by_side import SideBySide
from laminar.kernels.emulate.accesses import STRIDES
from laminar.kernels.language.same import same_all
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Block,
    Declare,
    Expression,
    If,
    Kernel,
    Load,
    Loop,
    Object,
    Read,
    Statement,
    Store,
    Variable,
    blocks,
    expressions,
    statements,
    walk,
)

Sort: TypeAlias = Literal["once", "few", "owner"]
"""Of what is kept of an element: that somebody was there, a bit, if nobody comes twice (marks.py); what for, a byte, if an instance knows
itself where it has been; or who, and what for, a word (shadows.py)."""

STATUS: Final = ctypes.sizeof(Status)  # bytes
FEW: Final = 4  # places that an instance compares with where it has been
MOST_OWNERS: Final = (1 << 29) - 2  # instances that a word has numbers for
OWN_WORDS: Final = ("records", "base", "parts", "window", "unit")


@dataclass(frozen=True)
class Watch:
    """`races`: arrays over whose elements instances may meet; `quiet`: accesses, by id, to elements that the instance has
    written for sure, and those that another one stands for: `beside` has these. `empty`: global
    arrays that start without values; `unsure`: reads and loads, by id, of what may have none. `rounds`: that a loop which may have no end
    may take. `depth`: accesses of a place that are recorded of an instance."""

    regions: Regions
    races: Mapping[Object, Sort] = field(default_factory=dict)
    quiet: frozenset[int] = frozenset()
    beside: Mapping[Object, SideBySide] = field(default_factory=dict)
    empty: tuple[Object, ...] = ()
    unsure: frozenset[int] = frozenset()
    rounds: int = 1 << 30
    depth: int = STRIDES

    @staticmethod
    def of(kernel: Kernel, *, independent: bool, empty: Iterable[str] = (), rounds: int = 1 << 30) -> Watch:
        assigned, own = Assigned.of(kernel), _Own()
        own.block(kernel.body, [])
        names, quiet = set(empty), frozenset(own.found)
        races: dict[Object, Sort] = {} if independent else {one: _sort(kernel, one, quiet) for one in _written(kernel)}
        beside = _beside(kernel, [one for one, sort in races.items() if sort != "once"], quiet)
        return Watch(
            Regions.of(kernel),
            races | dict.fromkeys(beside, "once"),
            quiet.union(*(one.others for one in beside.values())),
            beside,
            tuple(one for one in kernel.objects if one.memory == "global" and one.name in names),
            frozenset(assigned.unsure) | frozenset(assigned.unset),
            rounds,
            STRIDES if any(isinstance(one, Loop) for one in statements(kernel.body)) else 1,
        )

    def loose(self, kernel: Kernel) -> frozenset[Variable | Object]:
        """What the unsure ones look at."""
        found: set[Variable | Object] = set()
        for one in statements(kernel.body):
            for part in (part for whole in expressions(one) for part in walk(whole) if id(part) in self.unsure):
                assert isinstance(part, (Read, Load))
                found.add(part.variable if isinstance(part, Read) else part.object)
        return frozenset(found)

    @property
    def words(self) -> int:
        """Of eight bytes, with the status."""
        return self.word("unit") + 1

    def word(self, name: str) -> int:
        """Where the counters begin, the pointers of each kind, and where each other word is."""
        counters = STATUS // 8
        races = counters + len(self.regions.numbers)
        many, distances = len(self.races), sum(len(one.apart) for one in self.beside.values())
        filled = races + 3 * many + distances
        known = {"counters": counters, "races": races, "shifts": races + many, "made": races + 2 * many, "apart": races + 3 * many}
        known["filled"] = filled
        return known.get(name, filled + len(self.empty) + (OWN_WORDS.index(name) if name in OWN_WORDS else 0))

    @property
    def record(self) -> int:
        """Words of a place's record: how many there were, elements, and one for those that are too many."""
        return self.depth + 2

    def place(self, code: Code, status: Word, name: str, number_: int = 0) -> Word:
        return code.address("i64", status, number("i64", self.word(name) + number_))

    def counters(self, code: Code, status: Word, present: Word | None = None, *, recorded: bool = False) -> Counters:
        """As a function starts."""
        places = {one: code.room("i64") for one in self.regions.numbers.values() if one not in self.regions.sums}
        for place in places.values():
            code.store(number("i64", 0), place)
        races = {one: self._watched(code, status, at, sort) for at, (one, sort) in enumerate(self.races.items())}
        filled = {one: code.load("ptr", self.place(code, status, "filled", at)) for at, one in enumerate(self.empty)}
        records = code.load("ptr", self.place(code, status, "base")) if recorded else None
        return Counters(self.regions, places, races, self.quiet, filled, self.unsure, self.rounds, present, records, self.record)

    def _watched(self, code: Code, status: Word, at: int, sort: Sort) -> Marked | tuple[Literal["few", "owner"], Word]:
        place = code.load("ptr", self.place(code, status, "races", at))
        if sort != "once":
            return sort, place
        made = Marked(place, code.load("i64", self.place(code, status, "shifts", at)), code.room("i64"))
        code.store(number("i64", 0), made.made)
        return made

    def flush(self, code: Code, status: Word, counters: Counters) -> None:
        kept = [(self.place(code, status, "counters", number_), one) for number_, one in counters.places.items()]
        marked = enumerate(counters.races.values())
        kept += [(self.place(code, status, "made", at), one.made) for at, one in marked if isinstance(one, Marked)]
        for place, one in kept:
            code.store(code.binary("add", code.load("i64", place), code.load("i64", one)), place)

    def met(self, code: Code, status: Word) -> Word:
        """At the end: has an element been marked twice, or are two marks as far apart as accesses that one of them stands for?"""
        found, distances = number("i1", 0), 0
        for at, (array, sort) in enumerate(self.races.items()):
            if sort != "once":
                continue
            place = code.load("ptr", self.place(code, status, "races", at))
            shift, made = (code.load("i64", self.place(code, status, name, at)) for name in ("shifts", "made"))
            found = code.binary("or", code.compare("ne", counted_bits(code, place, shift), made), found)
            for _ in self.beside[array].apart if array in self.beside else ():
                distance = code.load("i64", self.place(code, status, "apart", distances))
                distances += 1
                met = overlap(code, place, shift, code.intrinsic("smax", distance, number("i64", 0)))
                met = code.select(code.compare("ne", distance, number("i64", 0)), met, number("i1", 0))
                met = code.select(code.compare("eq", distance, number("i64", UNKNOWN)), number("i1", 1), met)
                found = code.binary("or", met, found)
        return found


def _written(kernel: Kernel) -> tuple[Object, ...]:
    """Arrays that instances share and change, but for those with nothing but atomics."""
    found: dict[Object, set[type]] = {}
    for access in _accesses(kernel.body):
        if access.object.memory != "local":
            found.setdefault(access.object, set()).add(type(access))
    return tuple(one for one in kernel.objects if found.get(one, set()) - {Load} and found[one] != {Atomic})


def _sort(kernel: Kernel, object_: Object, quiet: frozenset[int]) -> Sort:
    """`once`: an instance writes one element, and looks at no other. `few`: it comes to some places, each once."""
    found = [one for one in _accesses(kernel.body) if one.object is object_ and id(one) not in quiet]
    if all(isinstance(one, Store) for one in found) and _most(kernel.body, object_, quiet) <= 1:
        return "once"
    loops = [one for one in statements(kernel.body) if isinstance(one, Loop)]
    again = {id(one) for loop in loops for one in _accesses((loop,))}
    few = len(found) <= FEW and not any(isinstance(one, Atomic) or id(one) in again for one in found)
    return "few" if few else "owner"


def _beside(kernel: Kernel, objects: list[Object], quiet: frozenset[int]) -> dict[Object, SideBySide]:
    if not objects:
        return {}
    facts, every = Facts.of(kernel), list(_accesses(kernel.body))
    made = {one: SideBySide.of(facts, [node for node in every if node.object is one and id(node) not in quiet]) for one in objects}
    return {one: found for one, found in made.items() if found is not None}


def _accesses(block: Block) -> Iterator[Load | Store | Atomic]:
    for one in statements(block):
        for access in (one, *(part for whole in expressions(one) for part in walk(whole))):
            if isinstance(access, (Load, Store, Atomic)):
                yield access


def _most(block: Block, object_: Object, quiet: frozenset[int]) -> int:
    """How often an instance may write to it for the first time; two: or more."""
    total = 0
    for one in block:
        if isinstance(one, Store):
            total += one.object is object_ and id(one) not in quiet
        elif isinstance(one, If):
            total += max(_most(one.then, object_, quiet), _most(one.other, object_, quiet))
        else:
            inner = sum(_most(part, object_, quiet) for part in blocks(one))
            total += 2 if inner and isinstance(one, Loop) else inner
    return min(total, 2)


class _Own:
    """Accesses to elements that the instance itself has written by then, or will have by the end of the statement: they say nothing new."""

    def __init__(self) -> None:
        self.found: set[int] = set()

    def block(self, block: Block, mine: list[Store]) -> None:
        """`mine`: stores on every way here, with nothing in between that would change where they go."""
        for one in block:
            after = [store for store in mine if not _moves(one, store)]
            held = after if isinstance(one, Loop) else mine
            for whole in expressions(one):
                self._look(whole, held, one)
            if isinstance(one, (Store, Atomic)) and _is_at(one, held):
                self.found.add(id(one))
            for inner in blocks(one):
                self.block(inner, list(held))
            mine = [*after, one] if isinstance(one, Store) and not _moves(one, one) else after

    def _look(self, whole: Expression, mine: list[Store], around: Statement) -> None:
        target = [around] if isinstance(around, Store) and whole is around.value else []
        self.found |= {id(part) for part in walk(whole) if isinstance(part, Load) and _is_at(part, [*mine, *target])}


def _is_at(access: Load | Store | Atomic, stores: list[Store]) -> bool:
    return any(one.object is access.object and same_all(one.index, access.index) for one in stores)


def _moves(statement: Statement, store: Store) -> bool:
    """May the index of the store be another one after it?"""
    reads = {part for index in store.index for part in walk(index)}
    variables = {part.variable for part in reads if isinstance(part, Read)}
    objects = {part.object for part in reads if isinstance(part, Load)}
    for one in statements((statement,)):
        if isinstance(one, Assign) and one.variable in variables:
            return True
        if isinstance(one, Declare) and (one.what in variables or one.what in objects):
            return True
        if isinstance(one, (Store, Atomic)) and one.object in objects:
            return True
    return False
