"""Variables and local arrays that are read before they have a value: surely, maybe, or never."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from laminar.kernels.analyse.counted import Counted, counted, escapes
from laminar.kernels.language.fold import folded
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    Declare,
    Expression,
    If,
    Kernel,
    Leave,
    Load,
    Loop,
    Object,
    Read,
    Scope,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)

Thing: TypeAlias = Variable | Object
Part: TypeAlias = Thing | tuple[Object, tuple[int, ...]]
"""Also an element of a local array."""


@dataclass(frozen=True)
class State:
    """`sure`: has a value on every way here; `maybe`: on some."""

    sure: frozenset[Part]
    maybe: frozenset[Part]

    def and_(self, *what: Part) -> State:
        return State(self.sure.union(what), self.maybe.union(what))

    def without(self, what: Thing) -> State:
        gone = {one for one in self.maybe if one is what or (isinstance(one, tuple) and one[0] is what)}
        return State(self.sure - gone, self.maybe - gone)

    def meet(self, other: State | None) -> State:
        return self if other is None else State(self.sure & other.sure, self.maybe | other.maybe)


@dataclass
class Assigned:
    """`unsure`: reads of what has a value on some ways only; `unset`: on none. By id, with how the thing is called."""

    unsure: dict[int, Read | Load] = field(default_factory=dict)
    unset: dict[int, Read | Load] = field(default_factory=dict)
    read: dict[Thing, list[Read | Load]] = field(default_factory=dict)
    _jumps: dict[object, State] = field(default_factory=dict)
    _loops: list[tuple[Loop, Counted | None]] = field(default_factory=list)
    _filled: list[tuple[Loop, Object]] = field(default_factory=list)  # arrays that have all values once a loop has ended

    @staticmethod
    def of(kernel: Kernel) -> Assigned:
        made = Assigned()
        start: frozenset[Part] = frozenset(one.of for one in kernel.parameters)
        made._block(kernel.body, State(start, start))
        return made

    def _block(self, block: Block, state: State | None) -> State | None:
        """None: nothing goes on behind it."""
        for place, one in enumerate(block):
            if state is None:
                return None
            state = self._statement(one, state, block[:place])
        return state

    def _statement(self, one: Statement, state: State, preceding: Block) -> State | None:
        if not isinstance(one, Loop):
            self._reads(expressions(one), state)
        match one:
            case Declare():
                return state.without(one.what)
            case Assign():
                return state.and_(one.variable)
            case Store() if one.object.memory == "local":
                return self._store(one, state)
            case Store() | Atomic():
                return State(state.sure, state.maybe | {one.object})
            case If():
                first, second = self._block(one.then, state), self._block(one.other, state)
                return first.meet(second) if first else second
            case Scope():
                state_ = self._block(one.body, state)
                left = self._jumps.pop(one.number, None)
                return state_.meet(left) if state_ else left
            case Loop():
                return self._loop(one, state, counted(one, preceding))
            case Break() | Continue() | Leave():
                to: object = one.number if isinstance(one, Leave) else (type(one), len(self._loops))
                self._jumps[to] = state.meet(self._jumps.get(to))
                return None
        return state

    def _loop(self, one: Loop, state: State, found: Counted | None) -> State | None:
        changed = frozenset(_changed(one))
        head = State(state.sure, state.maybe | changed)
        self._loops.append((one, found))
        depth = len(self._loops)
        tested = self._block(one.before, head) or head
        self._reads((one.condition,), tested) if not one.test_last else None
        body = self._block(one.body, tested)
        body = _either(body, self._jumps.pop((Continue, depth), None))
        ended = self._block(one.update, body) if body else None
        if one.test_last and ended:
            self._reads((one.condition,), ended)
        left = self._jumps.pop((Break, depth), None)
        self._loops.pop()
        once = one.test_last or (found is not None and found.exact and _runs(found))
        out = _either(ended if once else tested, left)
        filled = [array for loop, array in self._filled if loop is one]
        return out.and_(*filled) if out else None

    def _reads(self, of: tuple[Expression, ...], state: State) -> None:
        for part in (part for whole in of for part in walk(whole)):
            if isinstance(part, Read) or (isinstance(part, Load) and part.object.memory == "local"):
                what: Thing = part.variable if isinstance(part, Read) else part.object
                self.read.setdefault(what, []).append(part)
                if what not in state.maybe:
                    self.unset[id(part)] = part
                elif what not in state.sure:
                    self.unsure[id(part)] = part

    def _store(self, store: Store, state: State) -> State:
        """Elements by their numbers, until all have one; or by loops that go through all of them."""
        state = State(state.sure, state.maybe | {store.object})
        sizes = [int(one.value) for size in store.object.shape if (one := folded(size)) is not None]
        numbers = [int(one.value) for index in store.index if (one := folded(index)) is not None]
        if len(numbers) == len(store.index) and len(sizes) == len(numbers):
            state = state.and_((store.object, tuple(numbers)))
            elements = sum(isinstance(one, tuple) and one[0] is store.object for one in state.sure)
            return state.and_(store.object) if elements == prod(sizes) else state
        around = self._loops[len(self._loops) - len(sizes) :] if len(sizes) <= len(self._loops) else []
        nested: list[Statement] = [*(loop for loop, _ in around[1:]), store]
        through = {found for (loop, count), inner in zip(around, nested, strict=False) if (found := _through(loop, count, inner))}
        named = [(one.variable, size) for one, size in zip(store.index, sizes, strict=True) if isinstance(one, Read)]
        if around and len(named) == len(sizes) == len(through) and set(named) == through:
            self._filled.append((around[0][0], store.object))
        return state


def check_assigned(kernel: Kernel, name: str = "kernel.c") -> None:
    """Raises KernelError (K15) for the first read of what has no value on any way there."""
    for one in sorted(Assigned.of(kernel).unset.values(), key=lambda one: one.at):
        what = one.variable if isinstance(one, Read) else one.object
        said = f"`{what.name}` has no value here" if isinstance(one, Read) else f"no element of `{what.name}` has a value here"
        instead = f"`{what.type} {what.name} = …;`" if isinstance(one, Read) else f"set its elements before: `{what.name}[…] = …;`"
        raise KernelError("K15", one.at, said, instead=instead, text=kernel.text, name=name)


def _through(loop: Loop, found: Counted | None, inner: Statement) -> tuple[Variable, int] | None:
    """The counter of a loop that does `inner` in each round, and the number up to which it goes from 0."""
    bound = folded(found.bound) if found else None
    start = folded(found.start) if found and found.start else None
    if found is None or bound is None or start is None or start.value != 0:
        return None
    if found.step != 1 or found.operator != "<" or escapes(loop.body):
        return None
    return (found.counter, int(bound.value)) if any(one is inner for one in loop.body) else None


def _changed(loop: Loop) -> list[Thing]:
    return [
        one.variable if isinstance(one, Assign) else one.object for one in statements((loop,)) if isinstance(one, (Assign, Store, Atomic))
    ]


def _runs(found: Counted) -> bool:
    """At least once?"""
    start, bound = folded(found.start) if found.start else None, folded(found.bound)
    if start is None or bound is None:
        return False
    distance = int(bound.value) - int(start.value) if found.step > 0 else int(start.value) - int(bound.value)
    return distance > 0 or (distance == 0 and found.operator in ("<=", ">="))


def _either(one: State | None, other: State | None) -> State | None:
    return one.meet(other) if one else other
