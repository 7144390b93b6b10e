"""Which name means what: blocks within blocks, with a function's own names apart from those of its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pycparser import c_ast

from laminar.kernels.language.pointers import NOTHING, Flow, Pointer
from laminar.kernels.language.text import Text
from laminar.kernels.language.tree import At, Block, Constant, Expression, Object, Scope, Statement, Type, Variable

Out: TypeAlias = list[Statement]
"""Statements that come before the one that is being made."""


@dataclass(frozen=True)
class Bound:
    """`what`: of a variable or array. `value`: of a constant that may be a size. `given`: the instance's number or the number of
    instances, which are fixed without a const."""

    what: Variable | Object | None
    at: At
    kind: Literal["scalar", "array", "pointer"]
    fixed: bool = False
    value: Constant | None = None
    given: bool = False
    pointer: Pointer | None = None


@dataclass
class Exits:
    """Of a loop that is being read: where pointers point as it is left, and as its next round begins early."""

    breaks: list[Flow | None] = field(default_factory=list)
    continues: list[Flow | None] = field(default_factory=list)


@dataclass
class Body:
    """What is common to all that is read of a file, while it is lowered."""

    text: Text
    functions: dict[str, c_ast.FuncDef]
    call: Callable[[Names, c_ast.FuncCall, Out], Expression | None]  # language/calls.py: the value of a call
    variables: list[Variable] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    scopes: int = 0
    calls: list[str] = field(default_factory=list)  # functions that are being inlined
    defines: list[str] = field(default_factory=list)  # that are being looked into
    constants: dict[str, Constant] = field(default_factory=dict)  # that were looked into
    wrapped: dict[str, int] = field(default_factory=dict)  # of these, those that were too large for their type, with what they would be
    used: set[str] = field(default_factory=set)  # functions that were inlined
    statements: int = 0
    flow: Flow | None = field(default_factory=lambda: NOTHING)  # where pointers point at this place; None: nobody comes here
    pointers: list[Pointer] = field(default_factory=list)  # those that move
    offsets: set[Variable] = field(default_factory=set)  # variables that keep the index of an element that a pointer points at
    rounds: int = 0  # times that bodies of loops in which pointers move were read
    assigned: dict[str, frozenset[str]] = field(default_factory=dict)  # by function, names that it assigns to
    dead: bool = False  # what is being read is never run: what its pointers point at does not matter
    stand_ins: int = 0  # times that such a pointer was looked at

    def mark(self) -> tuple[int, ...]:
        """How far this is, for `reset`: where something is read that will not be kept."""
        return len(self.variables), len(self.objects), len(self.pointers), self.scopes, self.statements

    def reset(self, mark: tuple[int, ...]) -> None:
        variables, objects, pointers, self.scopes, self.statements = mark
        del self.variables[variables:], self.objects[objects:], self.pointers[pointers:]

    def variable(self, name: str, type_: Type, at: At) -> Variable:
        self.variables.append(made := Variable(name, type_, at))
        return made

    def object(self, one: Object) -> Object:
        self.objects.append(one)
        return one


@dataclass
class Names:
    """Of one function. `blocks`: the innermost last. `result`: where a function's value goes; `scope`: the number that `Leave` names."""

    body: Body
    function: str
    scope: int
    result: Variable | None = None
    blocks: list[dict[str, Bound]] = field(default_factory=lambda: [{}])
    loops: int = 0
    depth: int = 0  # operators around the one that is being read
    left: bool = False  # some Leave was written
    exits: list[Exits] = field(default_factory=list)  # of the loops around, the innermost last
    assigned: frozenset[str] = frozenset()  # names that the function assigns to

    @property
    def text(self) -> Text:
        return self.body.text

    def find(self, name: str) -> Bound | None:
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        return None

    def bind(self, name: str, bound: Bound) -> None:
        before = self.blocks[-1].get(name)
        if before is not None:
            self.text.fail("K11", bound.at, f"`{name}` is declared twice; first in line {before.at.line}", "give one of them another name")
        self.blocks[-1][name] = bound

    def wrapped(self, at: At, statements: list[Statement]) -> Block:
        """A function's statements; as a scope only if something leaves it."""
        return (Scope(at, self.function, self.scope, tuple(statements)),) if self.left else tuple(statements)
