"""Which name means what: blocks within blocks, with a function's own names apart from those of its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pycparser import c_ast

from laminar.kernels.language.text import Text
from laminar.kernels.language.tree import At, Block, Constant, Expression, Object, Scope, Statement, Type, Variable

Out: TypeAlias = list[Statement]
"""Statements that come before the one that is being made."""


@dataclass(frozen=True)
class Bound:
    """`pointer`: the name is the address of it; without a `what` it is NULL. `value`: of a constant that may be a size. `given`: the
    instance's number or the number of instances, which are fixed without a const."""

    what: Variable | Object | None
    at: At
    kind: Literal["scalar", "array", "pointer"]
    fixed: bool = False
    value: Constant | None = None
    given: bool = False


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
