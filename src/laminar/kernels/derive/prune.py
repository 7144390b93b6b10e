"""What nobody needs is left out: by liveness, backwards (Kennedy 1971); sums that start at zero lose the zero."""

from __future__ import annotations

from dataclasses import replace

from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Atomic,
    Binary,
    Block,
    Constant,
    Declare,
    Expression,
    If,
    Load,
    Loop,
    Object,
    Read,
    Statement,
    Store,
    Unary,
    Variable,
    statements,
    walk,
)

Data = Variable | Object


def pruned(block: Block, wanted: frozenset[Data]) -> tuple[Block, set[Data]]:
    """The statements that `wanted` after the block needs, and what of before the block it reads."""
    one = _Pruner()
    made, live = one.block(block, set(wanted))
    return one.declared(made), live


class _Pruner:
    def block(self, block: Block, live: set[Data]) -> tuple[Block, set[Data]]:
        kept: list[Statement] = []
        for one in reversed(block):
            made, live = self.statement(one, live)
            kept.extend(made)
        return tuple(reversed(kept)), live

    def statement(self, one: Statement, live: set[Data]) -> tuple[Block, set[Data]]:
        match one:
            case Declare():
                return (one,), live - {one.what}
            case Assign():
                if one.variable not in live:
                    return (), live
                return (one,), (live - {one.variable}) | reads(one.value)
            case Store() | Atomic():
                if one.object not in live:
                    return (), live
                return (one,), live.union(*(reads(part) for part in (*one.index, one.value)))
            case If():
                then, first = self.block(one.then, live)
                other, second = self.block(one.other, live)
                if not _does(then) and not _does(other):
                    return (), live
                if not _does(then):
                    return (If(one.at, Unary(one.at, "bool", "!", one.condition), other, ()),), second | live | reads(one.condition)
                return (replace(one, then=then, other=other if _does(other) else ()),), first | second | reads(one.condition)
            case Loop():
                return self.loop(one, live)
        return (one,), live

    def loop(self, one: Loop, live: set[Data]) -> tuple[Block, set[Data]]:
        head = live | reads(one.condition)
        while True:
            update, end = self.block(one.update, head)
            body, start = self.block(one.body, end)
            if start <= head:
                break
            head |= start
        counters = {step.variable for step in one.update if isinstance(step, Assign)}
        if not _does(body) and not counters & live:
            return (), live
        return (replace(one, body=body, update=update),), head

    def declared(self, block: Block) -> Block:
        """Only what is still used is declared."""
        used: set[Data] = set()
        for one in statements(block):
            used |= touched(one)
        return _undeclared(block, used)


def _undeclared(block: Block, used: set[Data]) -> Block:
    made: list[Statement] = []
    for one in block:
        match one:
            case Declare():
                if one.what in used:
                    made.append(one)
            case If():
                made.append(replace(one, then=_undeclared(one.then, used), other=_undeclared(one.other, used)))
            case Loop():
                made.append(replace(one, body=_undeclared(one.body, used)))
            case _:
                made.append(one)
    return tuple(made)


def _does(block: Block) -> bool:
    return any(not isinstance(one, Declare) for one in block)


def reads(expression: Expression) -> set[Data]:
    found: set[Data] = set()
    for one in walk(expression):
        if isinstance(one, Read):
            found.add(one.variable)
        elif isinstance(one, Load):
            found.add(one.object)
    return found


def reads_of(one: Statement) -> set[Data]:
    match one:
        case Assign():
            return reads(one.value)
        case Store() | Atomic():
            return set().union(*(reads(part) for part in (*one.index, one.value)))
        case If() | Loop():
            return reads(one.condition)
    return set()


def touched(one: Statement) -> set[Data]:
    """What a statement itself reads or changes."""
    return reads_of(one) | ({one.variable} if isinstance(one, Assign) else {one.object} if isinstance(one, Store | Atomic) else set())


def written(block: Block) -> set[Data]:
    """Variables and arrays that a block changes."""
    found: set[Data] = set()
    for one in statements(block):
        if isinstance(one, Assign):
            found.add(one.variable)
        elif isinstance(one, Store | Atomic):
            found.add(one.object)
    return found


def without_zeros(block: Block, zero: frozenset[Variable] = frozenset()) -> Block:
    """`d = 0; d = d + e` is `d = e`. `zero`: variables that are 0 where the block starts."""
    known, made = set(zero), list[Statement]()
    for one in block:
        match one:
            case Assign():
                value = _plain(one.value, known)
                made.append(replace(one, value=value))
                is_zero = isinstance(value, Constant) and value.value == 0 and value.type not in WHOLE
                known = known | {one.variable} if is_zero else known - {one.variable}
            case If():
                made.append(replace(one, then=without_zeros(one.then, frozenset(known)), other=without_zeros(one.other, frozenset(known))))
                known -= {data for data in written((one,)) if isinstance(data, Variable)}
            case Loop():
                known -= {data for data in written((one,)) if isinstance(data, Variable)}
                made.append(replace(one, body=without_zeros(one.body, frozenset(known))))
            case _:
                made.append(one)
    return tuple(made)


def _plain(value: Expression, known: set[Variable]) -> Expression:
    if isinstance(value, Read) and value.variable in known:
        return Constant(value.at, value.type, 0.0)
    if isinstance(value, Binary) and value.operator == "+" and isinstance(value.left, Read) and value.left.variable in known:
        return value.right
    return value
