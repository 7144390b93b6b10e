"""Loops that count: `for (k = 0; k < n; k++)`, whose counter nothing else changes and whose bound stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Barrier,
    Binary,
    Block,
    Break,
    Cast,
    Constant,
    Continue,
    Expression,
    Leave,
    Load,
    Loop,
    Read,
    Scope,
    Statement,
    Store,
    Variable,
    blocks,
    statements,
    walk,
)

Compare: TypeAlias = Literal["<", "<=", ">", ">="]
_TURNED: Final[dict[str, Compare]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Counted:
    """The body runs while `counter operator bound`, then `step` is added. `start`: what the counter was set to before the loop, if that
    was found. `exact`: nothing but the condition ends it. `update`: the statement that counts. `wide`: an int is compared with a
    long, which it may never reach."""

    counter: Variable
    start: Expression | None
    operator: Compare
    bound: Expression
    step: int
    exact: bool
    update: Assign
    wide: bool = False

    @property
    def always_ends(self) -> bool:
        """Is every bound met, whatever it is? So it is of one of the counter's own type, in steps of one."""
        return abs(self.step) == 1 and self.operator in ("<", ">") and not self.wide

    @property
    def last_bound(self) -> int:
        """It ends for every bound up to this one (from this one on, if it counts down); beyond, the counter would wrap around."""
        low, high = LIMITS[self.counter.type]
        strict = self.operator in ("<", ">")
        return high - self.step + strict if self.step > 0 else low - self.step - strict


def counted(loop: Loop, preceding: Block = ()) -> Counted | None:
    """`preceding`: statements of the same block before the loop, where the start is looked for."""
    if loop.test_last or not isinstance(loop.condition, Binary):
        return None
    inside = [*statements(loop.before), *statements(loop.body), *statements(loop.update)]
    changed = [one.variable for one in inside if isinstance(one, Assign)]
    for left, right, operator in (
        (loop.condition.left, loop.condition.right, loop.condition.operator),
        (loop.condition.right, loop.condition.left, _TURNED.get(loop.condition.operator, "")),
    ):
        variable = _plain(left)
        if variable is None or operator not in _TURNED or changed.count(variable) != 1 or not _stays(right, changed, inside):
            continue
        update = _update(loop, variable)
        step = _step(update, variable) if update else None
        if update is None or not step or (step > 0) != (operator in ("<", "<=")):
            continue
        exact, wide = not ends_loop(loop.body), variable.type == "int" and _narrow(right).type == "long"
        return Counted(variable, _start(variable, preceding), _compare(operator), right, step, exact, update, wide)
    return None


def counter_of(loop: Loop) -> Variable | None:
    found = counted(loop)
    return found.counter if found is not None else None


def finite(loop: Loop) -> bool:
    """Is it sure to end, if what is within it does?"""
    found = counted(loop)
    if found is None:
        return False
    bound = folded(found.bound)
    if bound is not None:
        return int(bound.value) <= found.last_bound if found.step > 0 else int(bound.value) >= found.last_bound
    return found.always_ends


def _compare(operator: str) -> Compare:
    return next(one for one in _TURNED.values() if one == operator)


def _plain(expression: Expression) -> Variable | None:
    """The variable whose value it is, as it is or made wider."""
    expression = _narrow(expression)
    return expression.variable if isinstance(expression, Read) and expression.type in ("int", "long") else None


def _narrow(expression: Expression) -> Expression:
    """The same value, before it was made wider."""
    while isinstance(expression, Cast) and expression.type == "long" and expression.value.type == "int":
        expression = expression.value
    return expression


def _stays(bound: Expression, changed: list[Variable], inside: list[Statement]) -> bool:
    """Nothing within the loop, and no other instance, changes what it is made of."""
    written = {one.object for one in inside if isinstance(one, (Store, Atomic))}
    meets = any(isinstance(one, Barrier) for one in inside)
    for one in walk(bound):
        if isinstance(one, Read) and one.variable in changed:
            return False
        if isinstance(one, Load) and (one.object in written or (meets and one.object.memory != "local")):
            return False
    return bound.type in ("int", "long")


def _update(loop: Loop, variable: Variable) -> Assign | None:
    """Where it counts: in the update, or at the end of a body that nothing jumps to."""
    for one in loop.update:
        if isinstance(one, Assign) and one.variable is variable:
            return one
    last = loop.body[-1] if loop.body else None
    if isinstance(last, Assign) and last.variable is variable and not _continued(loop.body):
        return last
    return None


def _step(update: Assign, variable: Variable) -> int | None:
    value = update.value
    if not isinstance(value, Binary) or value.operator not in ("+", "-") or value.type != variable.type:
        return None
    for one, other in ((value.left, value.right), (value.right, value.left)):
        if isinstance(one, Read) and one.variable is variable and isinstance(size := folded(other), Constant):
            if value.operator == "-" and one is value.right:
                return None
            return int(size.value) if value.operator == "+" else -int(size.value)
    return None


def _start(variable: Variable, preceding: Block) -> Expression | None:
    for one in reversed(preceding):
        if isinstance(one, Assign) and one.variable is variable:
            return one.value
        if any(isinstance(inner, Assign) and inner.variable is variable for inner in statements((one,))):
            return None
    return None


def _continued(block: Block) -> bool:
    """Does something in it go on with the next round of the loop that the block is of?"""
    return any(
        isinstance(one, Continue) or (not isinstance(one, Loop) and any(_continued(inner) for inner in blocks(one))) for one in block
    )


def escapes(block: Block) -> bool:
    """Is there anything in it that may go on somewhere else than behind it?"""
    return _continued(block) or ends_loop(block)


def ends_loop(body: Block, *, within: bool = False, scopes: frozenset[int] = frozenset()) -> bool:
    """Does something in a loop's body end the loop? `within`: in a loop of its own."""
    for one in body:
        if isinstance(one, Break) and not within:
            return True
        if isinstance(one, Leave) and one.number not in scopes:
            return True
        inner = scopes | {one.number} if isinstance(one, Scope) else scopes
        if any(ends_loop(part, within=within or isinstance(one, Loop), scopes=inner) for part in blocks(one)):
            return True
    return False
