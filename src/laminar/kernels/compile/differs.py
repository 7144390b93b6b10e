"""What differs among the instances of a block, and in which direction: from row to row, from lane to lane, or not at all.

As in analyse/varying.py, where it is said for all instances of a run; a block has two directions. Of whole numbers that differ from lane to
lane by a fixed step the step is known, too: that tells vectors that lie side by side in memory from those that have to be gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.kernels.analyse.space import Space
from laminar.kernels.compile.grid import FARTHEST, LANES, ROWS, Shape
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Binary,
    Block,
    Break,
    Continue,
    Declare,
    Expression,
    If,
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
    parts,
    statements,
)


@dataclass(frozen=True)
class Kind:
    """`stride`: of lanes; None if there is none that is known."""

    bits: int = 0
    stride: int | None = None

    @property
    def step(self) -> int | None:
        return self.stride if self.bits & LANES else 0


def stride_of(operator: str, left: int | None, right: int | None, first: int | None, second: int | None) -> int | None:
    """Of `left operator right` by their steps; `first`, `second`: their values if they are constants."""
    made: int | None = None
    if left is None or right is None:
        return None
    if operator == "+":
        made = left + right
    elif operator == "-":
        made = left - right
    elif operator == "*" and second is not None:
        made = left * second
    elif operator == "*" and first is not None:
        made = right * first
    return made if made is not None and abs(made) <= FARTHEST else None


def constant_of(expression: Expression) -> int | None:
    value = folded(expression) if expression.type in WHOLE else None
    return int(value.value) if value is not None else None


@dataclass
class _Level:
    """A statement around the place that is being looked at. `bits`: in what its condition, or who is still there, differs."""

    bits: int
    loop: Loop | None = None
    scope: int | None = None
    body: bool = False


@dataclass
class Differs:
    """`axis`: which digit of the space the rows are. `loops`: by id, in what instances leave them at different times; `scopes`: by
    number; `continues`: in what they go on with the next round at different times."""

    space: Space
    shape: Shape
    axis: int = 0
    variables: dict[Variable, Kind] = field(default_factory=dict)
    objects: dict[Object, int] = field(default_factory=dict)
    loops: dict[int, int] = field(default_factory=dict)
    scopes: dict[int, int] = field(default_factory=dict)
    continues: dict[int, int] = field(default_factory=dict)
    _declared: dict[Variable | Object, int] = field(default_factory=dict)
    _changed: bool = True

    @staticmethod
    def of(space: Space, shape: Shape, axis: int = 0) -> Differs:
        made = Differs(space, shape, axis)
        if shape.bits:
            while made._changed:
                made._changed = False
                made._block(space.kernel.body, [_Level(0)])
        return made

    def kind(self, one: Expression) -> Kind:
        digit = self.space.digit(one) if self.shape.bits else None
        if digit is not None:
            within = len(digit.low) <= self._start and (digit.high is None or len(digit.high) > self._start)
            bits = (LANES if not digit.low else 0) | (ROWS if self.axis and within else 0)
            return Kind(bits & self.shape.bits, 1 if bits & LANES else None)
        if isinstance(one, Read):
            return self.variables.get(one.variable, Kind())
        bits = self.objects.get(one.object, 0) if isinstance(one, Load) else 0
        kinds = [self.kind(part) for part in parts(one)]
        for inner in kinds:
            bits |= inner.bits
        if isinstance(one, Binary) and one.type in ("int", "long") and bits & LANES:
            first, second = constant_of(one.left), constant_of(one.right)
            return Kind(bits, stride_of(one.operator, kinds[0].step, kinds[1].step, first, second))
        return Kind(bits)

    @property
    def _start(self) -> int:
        """Factors below the rows' digit."""
        return len(self.space.cuts[self.axis - 1]) if self.axis else 0

    def _block(self, block: Block, levels: list[_Level]) -> None:
        for number, one in enumerate(block):
            self._statement(one, block[number + 1] if number + 1 < len(block) else None, levels)

    def _statement(self, one: Statement, following: Statement | None, levels: list[_Level]) -> None:
        match one:
            case Declare():
                self._declared[one.what] = len(levels)
                if isinstance(one.what, Variable) and not is_set(one.what, following):
                    self._assign(one.what, Kind(), 0)
            case Assign():
                self._assign(one.variable, self.kind(one.value), self._control(one.variable, levels))
            case Store() | Atomic() if one.object.memory == "local":
                bits = self._control(one.object, levels)
                for part in expressions(one):
                    bits |= self.kind(part).bits
                self._note(self.objects, one.object, bits)
            case If():
                inner = _Level(self.kind(one.condition).bits)
                self._block(one.then, [*levels, inner])
                self._block(one.other, [*levels, inner])
            case Loop():
                self._loop(one, levels)
            case Scope():
                self._block(one.body, [*levels, _Level(self.scopes.get(one.number, 0), scope=one.number)])
            case Break() | Continue() | Leave():
                self._jump(one, levels)

    def _loop(self, one: Loop, levels: list[_Level]) -> None:
        self._note(self.loops, id(one), self.kind(one.condition).bits)
        within = [*levels, _Level(self.loops[id(one)], loop=one)]
        self._block(one.before, within)
        self._block(one.body, [*within, _Level(self.continues.get(id(one), 0), loop=one, body=True)])
        self._block(one.update, within)

    def _jump(self, one: Break | Continue | Leave, levels: list[_Level]) -> None:
        bits = 0
        for level in reversed(levels):
            if isinstance(one, Leave) and level.scope == one.number:
                self._note(self.scopes, one.number, bits)
                return
            if level.loop is not None and level.body and isinstance(one, Continue):
                self._note(self.continues, id(level.loop), bits)
                return
            if level.loop is not None and not level.body:
                self._note(self.loops, id(level.loop), bits)
                if isinstance(one, Break):
                    return
            bits |= level.bits

    def _control(self, what: Variable | Object, levels: list[_Level]) -> int:
        bits = 0
        for level in levels[self._declared.get(what, 1) :]:
            bits |= level.bits
        return bits

    def _assign(self, variable: Variable, kind: Kind, control: int) -> None:
        bits = kind.bits | control
        before = self.variables.get(variable)
        if before is None and variable in self.space.changed and self._is_given(variable):
            before = Kind()
        made = Kind(bits, kind.stride if not control else None)
        if before is not None:
            together = before.bits | bits
            made = Kind(together, made.stride if before == made else None)
        if made != before:
            self.variables[variable] = made
            self._changed = True

    def _is_given(self, variable: Variable) -> bool:
        """A parameter has a value before anything is assigned to it."""
        return any(one.of is variable for one in self.space.kernel.parameters)

    def _note(self, table: dict[object, int] | dict[Object, int] | dict[int, int], key: object, bits: int) -> None:
        before = table.get(key, 0)  # type: ignore[call-overload]
        if before | bits != before or key not in table:
            table[key] = before | bits  # type: ignore[index]
            self._changed = True


def is_set(variable: Variable, following: Statement | None) -> bool:
    """Does the statement after its declaration give it a value, so that none is needed before?"""
    return isinstance(following, Assign) and following.variable is variable


def narrows(statement: Statement) -> bool:
    """May some instances go elsewhere within it, so that not all come to what follows?"""
    return any(isinstance(one, (Break, Continue, Leave)) for one in statements((statement,)))
