"""Statements to lines of Python.

Python has no jump out of two loops: a jump that is more than `break` or `continue` sets `j` to its target and breaks; whoever is broken
out of looks at `j`. What is nested too deeply for Python becomes a function within, a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from laminar.kernels.analyse.counted import counter_of
from laminar.kernels.emulate.accesses import change, store
from laminar.kernels.emulate.expressions import atom, value
from laminar.kernels.emulate.writer import Writer
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Barrier,
    Block,
    Break,
    Continue,
    Declare,
    If,
    Leave,
    Loop,
    Object,
    Scope,
    Statement,
    Store,
    Variable,
    blocks,
    statements,
)

DEEPEST: Final = 60  # Python reads 100 levels
MOST_LOOPS: Final = 16  # Python compiles 20 within each other


@dataclass
class Frame:
    """A loop of Python's, or a part. `ends`, `again`: what `break` and `continue` mean in it; `escapes`: jumps that go further out."""

    kind: Literal["loop", "part"]
    ends: int = 0
    again: int = 0
    escapes: set[int] = field(default_factory=set)


@dataclass
class Body:
    """What is known while statements are written. Jumps have numbers, from 1."""

    w: Writer
    frames: list[Frame] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    continues: list[int] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)
    known_left: dict[int, list[set[Variable]]] = field(default_factory=dict)
    jumps: int = 0
    barriers: list[Barrier] = field(default_factory=list)

    def jump(self) -> int:
        self.jumps += 1
        return self.jumps


def block(b: Body, nodes: Block) -> None:
    for number, node in enumerate(nodes):
        after = nodes[number + 1] if number + 1 < len(nodes) else None
        _statement(b, node, after)
        if any(isinstance(one, (Break, Continue, Leave, Barrier)) for one in statements((node,))):
            b.w.block = None  # not all who came here go on


def _statement(b: Body, node: Statement, after: Statement | None) -> None:
    w = b.w
    match node:
        case Declare():
            _declare(w, node.what, after)
        case Assign():
            found = value(w, node.value)
            w.register(node.variable, node.at, write=True)
            w.line(f"{w.variable(node.variable)} = {found}")
            if w.traced:
                w.line(f"{w.origin(node.variable)} = ({w.end(node.at, node.variable)}, v0)")
            if w.known is not None:
                w.known.add(node.variable)
        case Store():
            index = [atom(w, one) for one in node.index]
            w.target = (node, index)
            found = atom(w, node.value)
            w.target = None
            store(w, node, index, found)
        case Atomic():
            index = [atom(w, one) for one in node.index]
            change(w, node, index, atom(w, node.value))
        case If():
            _if(b, node)
        case Loop():
            _loop(b, node)
        case Scope():
            _scope(b, node)
        case Break():
            _go(b, b.breaks[-1])
        case Continue():
            _go(b, b.continues[-1])
        case Leave():
            if w.known is not None:
                b.known_left[node.number].append(set(w.known))
            _go(b, b.leaves[node.number])
        case Barrier():
            w.line(f"base = yield {len(b.barriers)}")
            w.line("me = base + v0")
            b.barriers.append(node)
        case _:
            assert_never(node)


def _declare(w: Writer, what: Variable | Object, after: Statement | None) -> None:
    if isinstance(what, Variable):
        w.variable(what)
        if w.known is not None:
            w.known.discard(what)
        if not (isinstance(after, Assign) and after.variable is what):
            w.line(f"{w.variable(what)} = None")
            if w.traced:
                w.line(f"{w.origin(what)} = None")
    elif what.memory == "local":
        elements = 1
        for size in what.shape:
            elements *= int(getattr(size, "value", 1))
        w.line(f"a{w.object(what)} = [None] * {elements}")
        if w.traced:
            w.line(f"{w.origin(what)} = [None] * {elements}")


def _if(b: Body, node: If) -> None:
    w = b.w
    condition = value(w, node.condition)
    with w.under(f"if {condition}:"):
        _inner(b, node.then)
    first, second = w.then, w.known
    if node.other:
        with w.under("else:"):
            _inner(b, node.other)
        second = w.then
    w.known = second if first is None else first if second is None else first & second


def _inner(b: Body, nodes: Block) -> None:
    """The statements of a block within; as a part if it is too deep for Python."""
    w = b.w
    if not nodes:
        return
    if w.depth < DEEPEST and sum(1 for one in _until_part(b)) < MOST_LOOPS:
        block(b, nodes)
        return
    lines, depth, number = w.lines, w.depth, len(w.parts)
    w.parts.append([])
    w.lines, w.depth = w.parts[number], 2
    frame = Frame("part")
    b.frames.append(frame)
    block(b, nodes)
    b.frames.pop()
    w.lines, w.depth = lines, depth
    w.line(f"{'yield from ' if w.waits else ''}part{number}()")
    _go_on(b, frame)


def _until_part(b: Body) -> Iterator[Frame]:
    for one in reversed(b.frames):
        if one.kind == "part":
            return
        yield one


@contextmanager
def _around(b: Body, frame: Frame) -> Iterator[None]:
    """`while True:`; jumps that go further out are looked at after it."""
    b.frames.append(frame)
    with b.w.under("while True:"):
        yield
    b.frames.pop()
    _go_on(b, frame)


def _go(b: Body, target: int) -> None:
    b.w.known = None
    top = b.frames[-1]
    if target == top.ends:
        b.w.line("break")
    elif target == top.again:
        b.w.line("continue")
    else:
        b.w.line(f"j = {target}")
        top.escapes.add(target)
        b.w.line(_out(top))


def _out(frame: Frame) -> str:
    return "break" if frame.kind == "loop" else "return"


def _go_on(b: Body, left: Frame) -> None:
    """After a loop or part: jumps that are under way go on from here."""
    if not left.escapes:
        return
    top = b.frames[-1]
    for target in sorted(left.escapes):
        b.w.line(f"if j == {target}:")
        if target in (top.ends, top.again):
            b.w.line(" j = 0")
            b.w.line(" break" if target == top.ends else " continue")
        else:
            top.escapes.add(target)
            b.w.line(f" {_out(top)}")


def _loop(b: Body, node: Loop) -> None:
    w = b.w
    b.breaks.append(b.jump())
    b.continues.append(b.jump())
    own = _continues(node.body)
    apart = own and (bool(node.update) or node.test_last)  # `continue` does not go to the start of Python's loop
    entry = None if w.known is None else set(w.known)
    w.loops += 1
    with _around(b, Frame("loop", ends=b.breaks[-1], again=0 if apart else b.continues[-1])):
        if not node.test_last:
            _test(b, node)
        w.block = None
        w.line("n -= 1")
        w.line(f"if n < 0: endless({w.place(node.at)})")
        if id(node) in w.claims and (counter := counter_of(node)) is not None:
            w.hold(node, w.variable(counter))
        if apart:
            with _around(b, Frame("loop", ends=b.continues[-1])):
                _inner(b, node.body)
                w.line("break")
            w.block = None
            w.known = None if entry is None else set(entry)
        else:
            _inner(b, node.body)
        block(b, node.update)
        if node.test_last:
            _test(b, node)
    w.loops -= 1
    b.breaks.pop()
    b.continues.pop()
    w.known = entry


def _test(b: Body, node: Loop) -> None:
    block(b, node.before)
    condition = value(b.w, node.condition)
    if condition != "True":
        b.w.line(f"if not {condition}: break")


def _continues(nodes: Block) -> bool:
    """Whether some `continue` belongs to the loop whose body this is."""
    return any(
        isinstance(one, Continue) or (not isinstance(one, Loop) and any(_continues(inner) for inner in blocks(one))) for one in nodes
    )


def _scope(b: Body, node: Scope) -> None:
    w = b.w
    target = b.leaves[node.number] = b.jump()
    b.known_left[node.number] = []
    with _around(b, Frame("loop", ends=target)):
        _inner(b, node.body)
        w.line("break")
    ends = [*b.known_left.pop(node.number), *([] if w.then is None else [w.then])]
    w.known = set.intersection(*ends) if ends else None
