"""Trees made from trees: a subclass says what becomes of a statement or an expression, what is within comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Binary,
    Block,
    Call,
    Cast,
    Choice,
    Expression,
    If,
    Load,
    Loop,
    Scope,
    Statement,
    Store,
    Unary,
)


class Rewrite:
    """As it stands it makes a copy, in which every node is a new one, but for reads and constants: others are known by their ids."""

    def block(self, block: Block) -> Block:
        return tuple(part for one in block for part in self.statement(one))

    def statement(self, one: Statement) -> Block:
        """What stands in its place; nothing, or several."""
        match one:
            case Assign():
                return (replace(one, value=self.expression(one.value)),)
            case Store() | Atomic():
                return (replace(one, index=self._all(one.index), value=self.expression(one.value)),)
            case If():
                return (If(one.at, self.expression(one.condition), self.block(one.then), self.block(one.other)),)
            case Loop():
                inner: dict[str, Any] = {"before": self.block(one.before), "body": self.block(one.body), "update": self.block(one.update)}
                return (replace(one, condition=self.expression(one.condition), **inner),)
            case Scope():
                return (replace(one, body=self.block(one.body)),)
        return (replace(one),)

    def expression(self, one: Expression) -> Expression:
        match one:
            case Load():
                return replace(one, index=self._all(one.index))
            case Unary() | Cast():
                return replace(one, value=self.expression(one.value))
            case Choice():
                return Choice(one.at, self.expression(one.condition), self.expression(one.yes), self.expression(one.no))
            case Call():
                return replace(one, arguments=self._all(one.arguments))
            case Binary():
                return replace(one, left=self.expression(one.left), right=self.expression(one.right))
        return one

    def _all(self, parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(self.expression(one) for one in parts)
