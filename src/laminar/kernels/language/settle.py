"""What is left of pointers when a kernel has been read: as little as there can be.

An index that is the same wherever it is looked at stands there itself, and the variable that kept it goes: `float *p = &y[i]; *p = 1;` is
`y[i] = 1;`. Whether a pointer is NULL is kept only where the run tells. Other variables of a pointer are declared where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from laminar.kernels.language.names import Body
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.same import same
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Binary,
    Block,
    Cast,
    Constant,
    Declare,
    Expression,
    If,
    Read,
    Statement,
    Unary,
    Variable,
    blocks,
    expressions,
    statements,
    walk,
)
from laminar.kernels.language.types import cast


def settled(body: Body, block: Block) -> Block:
    if not body.offsets and not body.pointers:
        return block
    flags = {one.is_set for one in body.pointers if one.is_set is not None}
    found = _Indices(body, block, flags).block(block)
    found = _Without(flags - _needed(found, flags)).block(found)
    there = {one.what for one in statements(found) if isinstance(one, Declare)}
    own = dict.fromkeys(variable for one in body.pointers for variable in (one.is_set, *one.variables) if variable is not None)
    own |= dict.fromkeys(one for one in body.variables if one in body.offsets)
    body.variables = [*(one for one in body.variables if one not in own), *(one for one in own if one in there)]
    return found


def _needed(block: Block, flags: set[Variable]) -> set[Variable]:
    """Those that something depends on: `p_set = q_set` needs q_set only if p_set is needed."""
    needed = set[Variable]()
    while True:
        read = {
            part.variable
            for one in statements(block)
            if not (isinstance(one, Assign) and one.variable in flags and one.variable not in needed)
            for whole in expressions(one)
            for part in walk(whole)
            if isinstance(part, Read) and part.variable in flags
        }
        if read == needed:
            return needed
        needed = read


class _Without(Rewrite):
    def __init__(self, gone: set[Variable]) -> None:
        self._gone = gone

    def statement(self, one: Statement) -> Block:
        what = one.variable if isinstance(one, Assign) else one.what if isinstance(one, Declare) else None
        return () if what in self._gone else super().statement(one)


class _Indices(Rewrite):
    """Those that are the same everywhere stand where they are looked at; the others are declared with their pointers."""

    def __init__(self, body: Body, block: Block, flags: set[Variable]) -> None:
        self._of = {one.is_set: one for one in body.pointers}
        self._flags = flags
        self._fixed = _Fixed(body, block)

    def statement(self, one: Statement) -> Block:
        if isinstance(one, Declare) and one.what in self._of:
            kept: list[Statement] = [one]
            for variable in self._of[one.what].variables:
                if variable in self._fixed.assigned and self._fixed.value(variable) is None:  # with a value also where it is NULL
                    kept += [Declare(one.at, variable), Assign(one.at, variable, cast(Constant(one.at, "int", 0), variable.type))]
            return tuple(kept)
        what = one.variable if isinstance(one, Assign) else one.what if isinstance(one, Declare) else None
        if isinstance(what, Variable) and self._fixed.value(what) is not None:
            return ()
        made = super().statement(one)
        if isinstance(one, If) and isinstance(one.condition, Read) and one.condition.variable in self._flags:
            return tuple(part for part in made if not isinstance(part, If) or part.then or part.other)
        return made

    def expression(self, one: Expression) -> Expression:
        value = self._fixed.value(one.variable) if isinstance(one, Read) else None
        return super().expression(one) if value is None else Rewrite().expression(value)


class _Fixed:
    """Which index is the same wherever it is looked at: all that is assigned to its variable is one sum or product of constants, of
    parameters that never change, and of variables that are set as they are declared, before the pointer, and never again."""

    def __init__(self, body: Body, block: Block) -> None:
        self.assigned: dict[Variable, list[Expression]] = {}
        self._offsets = body.offsets
        self._declared: dict[Variable, int] = {}
        self._at_once: set[Variable] = set()
        for number, (one, after) in enumerate(_in_order(block)):
            if isinstance(one, Assign):
                self.assigned.setdefault(one.variable, []).append(one.value)
            elif isinstance(one, Declare) and isinstance(one.what, Variable):
                self._declared[one.what] = number
                if isinstance(after, Assign) and after.variable is one.what:
                    self._at_once.add(one.what)
        for pointer in body.pointers:
            if pointer.is_set is not None:
                self._declared |= dict.fromkeys(pointer.variables, self._declared.get(pointer.is_set, 0))
        self._values: dict[Variable, Expression | None] = {}

    def value(self, offset: Variable) -> Expression | None:
        if offset not in self._offsets or offset not in self.assigned:
            return None
        if offset not in self._values:
            self._values[offset] = None  # of those that depend on each other, none
            found = [self._plain(one, self._declared[offset]) for one in self.assigned[offset]]
            first = found[0]
            if first is not None and all(one is not None and same(one, first) for one in found):
                self._values[offset] = first
        return self._values[offset]

    def _plain(self, one: Expression, before: int) -> Expression | None:
        """With the indices in it that are the same everywhere; None if it is not."""
        match one:
            case Constant():
                return one
            case Read():
                inner = self.value(one.variable)
                return inner if inner is not None else one if self._is_fixed(one.variable, before) else None
            case Cast() | Unary(operator="-"):
                if one.type not in WHOLE or one.value.type not in WHOLE or (value := self._plain(one.value, before)) is None:
                    return None
                return Cast(one.at, one.type, value) if isinstance(one, Cast) else Unary(one.at, one.type, "-", value)
            case Binary(operator="+" | "-" | "*") if one.type in WHOLE:
                left, right = self._plain(one.left, before), self._plain(one.right, before)
                return Binary(one.at, one.type, one.operator, left, right) if left is not None and right is not None else None
        return None

    def _is_fixed(self, variable: Variable, before: int) -> bool:
        if variable not in self._declared:
            return variable not in self.assigned
        return variable in self._at_once and len(self.assigned[variable]) == 1 and self._declared[variable] < before


def _in_order(block: Block) -> Iterator[tuple[Statement, Statement | None]]:
    """All statements, each with the one after it in its block."""
    for number, one in enumerate(block):
        yield one, block[number + 1] if number + 1 < len(block) else None
        for inner in blocks(one):
            yield from _in_order(inner)
