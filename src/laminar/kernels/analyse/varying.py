"""What may differ among instances (the uniform and varying of ISPC: Pharr, Mark, "ispc: A SPMD Compiler for High-Performance CPU
Programming", 2012).

A variable varies if a varying value is assigned to it, or any value under a varying condition that does not also govern its declaration:
what is declared within `if (i < n) { … }` is the same for all that come there. Loops that not all instances leave at the same time are
such conditions, too. An element of an array with an index that is the same for all is the same for all, in a kernel without races.
"""

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
    Store,
    Variable,
    expressions,
    walk,
)

Control: TypeAlias = frozenset[int]
"""Ids of statements whose condition varies and which govern a place."""


@dataclass(frozen=True)
class _Jump:
    """A way out of where a statement stands, for some instances: to a loop's end ("break"), its update ("continue"), or a scope's end."""

    to: str | int
    control: Control


@dataclass
class Varying:
    """`control`: of each statement that assigns, stores or waits, by its id. `causes`: the first varying condition of a place, by id."""

    kernel: Kernel
    what: set[Variable | Object] = field(default_factory=set)
    control: dict[int, Control] = field(default_factory=dict)
    statements: dict[int, Statement] = field(default_factory=dict)
    _declared: dict[Variable | Object, Control] = field(default_factory=dict)
    _loops: set[int] = field(default_factory=set)  # that instances leave at different times

    @staticmethod
    def of(kernel: Kernel) -> Varying:
        made = Varying(kernel, {kernel.instance})
        size = -1
        while size != len(made.what) + len(made._loops):
            size = len(made.what) + len(made._loops)
            made._block(kernel.body, frozenset())
        return made

    def varies(self, expression: Expression) -> bool:
        return any(
            (isinstance(one, Read) and one.variable in self.what) or (isinstance(one, Load) and one.object in self.what)
            for one in walk(expression)
        )

    def _block(self, block: Block, control: Control) -> list[_Jump]:
        """What jumps out of it under a varying condition."""
        jumps: list[_Jump] = []
        for one in block:
            found = self._statement(one, control)
            jumps += found
            for jump in found:  # what comes after it is for those that did not jump
                control = control | jump.control
        return jumps

    def _statement(self, one: Statement, control: Control) -> list[_Jump]:
        self.control[id(one)] = control
        self.statements[id(one)] = one
        match one:
            case Declare():
                self._declared[one.what] = control
            case Assign():
                self._written(one.variable, self.varies(one.value), control)
            case Store() | Atomic() if one.object.memory == "local":
                self._written(one.object, any(self.varies(part) for part in expressions(one)), control)
            case If():
                inner = control | {id(one)} if self.varies(one.condition) else control
                return [*self._block(one.then, inner), *self._block(one.other, inner)]
            case Loop():
                return self._loop(one, control)
            case Scope():
                return [jump for jump in self._block(one.body, control) if jump.to != one.number]
            case Break() | Continue() | Leave():
                to = one.number if isinstance(one, Leave) else type(one).__name__
                return [_Jump(to, control)] if control else []
        return []

    def _loop(self, one: Loop, control: Control) -> list[_Jump]:
        inner = control | {id(one)} if id(one) in self._loops else control
        jumps = [*self._block(one.before, inner)]
        if self.varies(one.condition):
            self._loops.add(id(one))
        within = self._block(one.body, inner)
        jumps += [*within, *self._block(one.update, inner)]
        if any(jump.to != "Continue" and jump.control - inner for jump in within):
            self._loops.add(id(one))
        return [jump for jump in jumps if jump.to not in ("Break", "Continue")]

    def _written(self, what: Variable | Object, varies: bool, control: Control) -> None:
        if varies or control - self._declared.get(what, frozenset()):
            self.what.add(what)

    def waits(self) -> list[Barrier]:
        """Barriers that not all instances may reach."""
        return [one for key, one in self.statements.items() if isinstance(one, Barrier) and self.control[key]]
