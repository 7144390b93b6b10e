"""Liveness: variables and local arrays whose values are needed further on, looked at from the end of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Barrier,
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
    Variable,
    expressions,
    walk,
)

Live: TypeAlias = frozenset[Variable | Object]


@dataclass
class _Walk:
    barriers: dict[int, Live] = field(default_factory=dict)
    ends: dict[object, Live] = field(default_factory=dict)  # what is live where a jump goes to
    loops: int = 0

    def block(self, block: Block, live: Live) -> Live:
        for one in reversed(block):
            live = self.statement(one, live)
        return live

    def statement(self, one: Statement, live: Live) -> Live:
        match one:
            case Barrier():
                self.barriers[id(one)] = self.barriers.get(id(one), frozenset()) | live
                return live
            case Declare():
                return live - {one.what}
            case Assign():
                return (live - {one.variable}) | _used((one.value,))
            case If():
                return self.block(one.then, live) | self.block(one.other, live) | _used((one.condition,))
            case Scope():
                self.ends[one.number] = live
                return self.block(one.body, live)
            case Loop():
                return self._loop(one, live)
            case Leave():
                return self.ends[one.number]
            case Break() | Continue():
                return self.ends[type(one), self.loops]
            case Atomic() if one.object.memory == "local":
                return live | {one.object} | _used(expressions(one))
        return live | _used(expressions(one))

    def _loop(self, one: Loop, live: Live) -> Live:
        self.loops += 1
        self.ends[Break, self.loops] = live
        body: Live = frozenset()
        while True:
            tested = self.block(one.before, _used((one.condition,)) | live | body)
            self.ends[Continue, self.loops] = update = self.block(one.update, tested)
            again = self.block(one.body, update)
            if again == body:
                break
            body = again
        self.loops -= 1
        return body if one.test_last else tested


def live_at_barriers(kernel: Kernel) -> dict[int, Live]:
    """What is needed behind each barrier, by its id: variables that are assigned somewhere, and local arrays."""
    found = _Walk()
    found.block(kernel.body, frozenset())
    return found.barriers


def _used(whole: tuple[Expression, ...]) -> Live:
    every = [part for one in whole for part in walk(one)]
    read = frozenset(part.variable for part in every if isinstance(part, Read))
    return read | frozenset(part.object for part in every if isinstance(part, Load) and part.object.memory == "local")
