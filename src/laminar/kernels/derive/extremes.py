"""The largest or least of many: `if (v > m) m = v;` in a loop, or `m = fmaxf(m, v)`.

Nothing has to be kept: when all iterations are over, m is the value of one of them, and its gradient goes to the first whose value is m
(to the last, where `>=` let later ones replace earlier ones), or to what m was before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.kernels.language.same import same
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Binary,
    Block,
    Call,
    Choice,
    Constant,
    Declare,
    Expression,
    If,
    Loop,
    Read,
    Statement,
    Variable,
    expressions,
    statements,
    walk,
)

if TYPE_CHECKING:
    from laminar.kernels.derive.sweep import Sweep

_FIRST_WINS = {">": True, "<": True, ">=": False, "<=": False}
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


@dataclass(frozen=True)
class Extreme:
    """`statement` sets `variable` to `value` where it is more extreme. `share`: its gradient, until it is handed on."""

    statement: Statement
    variable: Variable
    value: Expression
    first_wins: bool
    share: Variable

    def backward(self, sweep: Sweep) -> Block:
        at = self.statement.at
        taken = Variable("d", self.variable.type, at)
        back: list[Statement] = [
            Declare(at, taken),
            Assign(at, taken, Read(at, self.share)),
            Assign(at, self.share, Constant(at, self.share.type, 0.0)),
        ]
        sweep.spread(self.value, Read(at, taken), back)
        return (If(at, Binary(at, "bool", "==", self.value, Read(at, self.variable)), tuple(back), ()),)


def extremes_of(loop: Loop) -> list[Extreme]:
    """Those whose variables nothing else in the loop reads or writes."""
    inside = list(statements(loop.body))
    declared = {one.what for one in inside if isinstance(one, Declare)}
    found: list[Extreme] = []
    for one in inside:
        seen = _seen(one)
        if seen is None:
            continue
        variable, value, first_wins = seen
        own = [one, *(inner for inner in statements((one,)) if inner is not one)]
        sets = {inner.variable for inner in own if isinstance(inner, Assign)}
        others = [other for other in (*inside, loop) if not any(other is inner for inner in own)]
        touched = any(
            (isinstance(other, Assign) and other.variable in sets) or any(_reads(part, sets) for part in expressions(other))
            for other in others
        )
        if not touched and variable not in declared and not _reads(value, {variable}):
            found.append(Extreme(one, variable, value, first_wins, Variable(f"share_{variable.name}", variable.type, one.at)))
    return found


def _seen(one: Statement) -> tuple[Variable, Expression, bool] | None:
    match one:
        case Assign(variable=variable, value=Call(name="fmax" | "fmin", arguments=(left, right))):
            for own, other in ((left, right), (right, left)):
                if isinstance(own, Read) and own.variable is variable:
                    return variable, other, True
        case Assign(variable=variable, value=Choice(condition=Binary() as test, yes=yes, no=no)) if variable.type not in WHOLE:
            if isinstance(no, Read) and no.variable is variable:
                return _compared(test, variable, yes)
        case If(condition=Binary() as test, then=then, other=()):
            sets = [inner for inner in then if isinstance(inner, Assign) and inner.variable.type not in WHOLE]
            rest = [inner for inner in then if not (isinstance(inner, Assign) and inner.variable.type in WHOLE)]
            if len(sets) == 1 and rest == sets:
                return _compared(test, sets[0].variable, sets[0].value)
    return None


def _compared(test: Binary, variable: Variable, value: Expression) -> tuple[Variable, Expression, bool] | None:
    """`value > variable`, either way round."""
    for left, right, operator in ((test.left, test.right, test.operator), (test.right, test.left, _TURNED.get(test.operator, ""))):
        if operator in _FIRST_WINS and isinstance(right, Read) and right.variable is variable and same(left, value):
            return variable, value, _FIRST_WINS[operator]
    return None


def _reads(expression: Expression, variables: set[Variable]) -> bool:
    return any(isinstance(part, Read) and part.variable in variables for part in walk(expression))
