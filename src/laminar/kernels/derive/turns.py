"""The iterations of a loop that counts: how many, which one the counter stands for, and the loop from the last to the first."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.kernels.analyse.counted import Counted
from laminar.kernels.derive.active import Data
from laminar.kernels.language.fold import folded
from laminar.kernels.language.same import same_all
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Binary,
    Block,
    Constant,
    Declare,
    Expression,
    Load,
    Loop,
    Read,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)
from laminar.kernels.language.types import cast


@dataclass(frozen=True)
class Turns:
    """The loop's numbers as expressions that still hold when it is over. `first`: of the counter."""

    loop: Loop
    found: Counted
    first: Expression

    @property
    def counter(self) -> Variable:
        return self.found.counter

    @property
    def count(self) -> Expression:
        """How many iterations; not above 0 if there are none."""
        step, bound = abs(self.found.step), cast(self.found.bound, self.counter.type)
        high, low = (bound, self.first) if self.found.step > 0 else (self.first, bound)
        extra = step - (self.found.operator in ("<", ">"))
        gap = self._of("-", high, low)
        gap = gap if not extra else self._of("+", gap, self._number(extra))
        made = gap if step == 1 else self._of("/", gap, self._number(step))
        return folded(made) or made

    @property
    def known(self) -> int | None:
        found = folded(self.count)
        return max(int(found.value), 0) if found is not None else None

    def turn(self) -> Expression:
        """Which iteration the counter stands for: 0, 1, …"""
        here, first = Read(self.loop.at, self.counter), folded(self.first)
        gap = here if first is not None and first.value == 0 else self._of("-", here, self.first)
        return gap if self.found.step == 1 else self._of("/", gap, self._number(self.found.step))

    def as_before(self, body: Block) -> Block:
        at = self.loop.at
        return (Assign(at, self.counter, self.first), Loop(at, (), self.loop.condition, body, self.loop.update))

    def reversed(self, body: Block) -> Block:
        at, here, up = self.loop.at, Read(self.loop.at, self.counter), self.found.step > 0
        if abs(self.found.step) != 1:
            return self._numbered((Assign(at, self.counter, self._at_turn(turn := self._turn())),), body, turn)
        last: Expression = cast(self.found.bound, self.counter.type)
        if self.found.operator in ("<", ">"):
            last = self._of("-" if up else "+", last, self._number(1))
        condition = Binary(at, "bool", ">=" if up else "<=", here, self.first)
        update = Assign(at, self.counter, self._of("-" if up else "+", here, self._number(1)))
        return (Assign(at, self.counter, folded(last) or last), Loop(at, (), condition, body, (update,)))

    def run_again(self, restored: Block, plain: Block, body: Block) -> Block:
        """Before each iteration those before it are run again."""
        at, turn, here = self.loop.at, self._turn(), Variable("here", self.counter.type, self.loop.at)
        short = Loop(at, (), Binary(at, "bool", "!=", Read(at, self.counter), Read(at, here)), plain, self.loop.update)
        first = (Declare(at, here), Assign(at, here, self._at_turn(turn)), *restored, Assign(at, self.counter, self.first), short)
        return self._numbered(first, body, turn)

    def _numbered(self, first: Block, body: Block, turn: Variable) -> Block:
        at, now = self.loop.at, Read(self.loop.at, turn)
        begin = self._of("-", self.count, self._number(1))
        update = Assign(at, turn, self._of("-", now, self._number(1)))
        loop = Loop(at, (), Binary(at, "bool", ">=", now, self._number(0)), (*first, *body), (update,))
        return (Declare(at, turn), Assign(at, turn, folded(begin) or begin), loop)

    def _turn(self) -> Variable:
        return Variable("turn", self.counter.type, self.loop.at)

    def _at_turn(self, turn: Variable) -> Expression:
        now: Expression = Read(self.loop.at, turn)
        return self._of("+", self.first, now if self.found.step == 1 else self._of("*", now, self._number(self.found.step)))

    def _number(self, value: int) -> Constant:
        return Constant(self.loop.at, self.counter.type, value)

    def _of(self, operator: str, left: Expression, right: Expression) -> Expression:
        if operator in "+-" and isinstance(right, Constant) and right.value == 0:
            return left
        if operator == "+" and isinstance(left, Constant) and left.value == 0:
            return right
        return Binary(self.loop.at, self.counter.type, operator, left, right)  # type: ignore[arg-type]


def order_free(body: Block, gradients: set[Data]) -> bool:
    """Do iterations give the same in any order, but for rounding? Each gradient from outside is only added to, or only read."""
    inside = {one.what for one in statements(body) if isinstance(one, Declare)}
    added: set[Data] = set()
    changed: set[Data] = set()
    read: set[Data] = set()
    for one in statements(body):
        skip: Expression | None = None
        if isinstance(one, Assign | Store):
            target: Data = one.variable if isinstance(one, Assign) else one.object
            skip = _itself(one)
            (added if skip is not None else changed).add(target)
        elif isinstance(one, Atomic):
            added.add(one.object)
        for part in (part for whole in expressions(one) for part in walk(whole) if part is not skip):
            if isinstance(part, Read):
                read.add(part.variable)
            elif isinstance(part, Load):
                read.add(part.object)
    outside = gradients - inside
    return not (outside & changed) and not (outside & added & read)


def _itself(one: Assign | Store) -> Expression | None:
    """The v on the right of `v = v + e`."""
    if not (isinstance(one.value, Binary) and one.value.operator == "+"):
        return None
    left = one.value.left
    if isinstance(one, Assign):
        return left if isinstance(left, Read) and left.variable is one.variable else None
    return left if isinstance(left, Load) and left.object is one.object and same_all(left.index, one.index) else None
