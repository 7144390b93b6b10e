"""What a kernel consists of, before it runs: its operators as a tree, and its data objects as a table.

Both are of the kernel as it was read: functions stand in place of their calls, and conversions are casts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from laminar.kernels.language.fold import folded
from laminar.kernels.language.print import show
from laminar.kernels.language.spell import called_as, literal_of
from laminar.kernels.language.tree import (
    SIZES,
    Assign,
    At,
    Atomic,
    Barrier,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Choice,
    Constant,
    Continue,
    Declare,
    Expression,
    If,
    Kernel,
    Leave,
    Load,
    Loop,
    Object,
    Parameter,
    Read,
    Scope,
    Statement,
    Store,
    Unary,
    Variable,
    expressions,
    statements,
    walk,
)


@dataclass(frozen=True)
class Node:
    """An operator and its operands. `part`: what it is to the one above (`value`, `then`). `name`: of the variable, array, function or
    constant that it is about. `type`: of its value; None of a statement."""

    operator: str
    at: At
    part: str = ""
    name: str | None = None
    type: str | None = None
    children: tuple[Node, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "part": self.part,
            "name": self.name,
            "type": self.type,
            "line": self.at.line,
            "column": self.at.column,
            "children": [one.to_json() for one in self.children],
        }


@dataclass(frozen=True)
class DataObject:
    """`role`: instance, count, value or array of a parameter; else local or shared array, or variable. `bytes`: None where sizes are told
    by the caller. `read_in`, `written_in`: lines."""

    name: str
    role: str
    type: str
    shape: tuple[str, ...]
    memory: str
    mode: str | None
    bytes: int | None
    at: At
    read_in: tuple[int, ...]
    written_in: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "type": self.type,
            "shape": list(self.shape),
            "memory": self.memory,
            "mode": self.mode,
            "bytes": self.bytes,
            "line": self.at.line,
            "column": self.at.column,
            "read_in": list(self.read_in),
            "written_in": list(self.written_in),
        }


def tree_of(kernel: Kernel) -> Node:
    return Node("kernel", kernel.instance.at, name=kernel.name, children=_block(kernel.body))


def tree_text(root: Node) -> str:
    """One operator a line, with what is within it below; its place in the source comes first."""
    rows = [(f"{one.at.line}:{one.at.column}", f"{lead}{_words(one)}") for lead, one in _drawn(root, "", "")]
    width = max(len(place) for place, _ in rows)
    return "\n".join(f"{place:>{width}}  {words}" for place, words in rows)


def _drawn(node: Node, first: str, rest: str) -> Iterator[tuple[str, Node]]:
    yield first, node
    for number, one in enumerate(node.children):
        last = number == len(node.children) - 1
        yield from _drawn(one, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _words(node: Node) -> str:
    part = f"{node.part}: " if node.part else ""
    return part + " ".join(one for one in (node.operator, node.name, node.type) if one)


def objects_of(kernel: Kernel) -> tuple[DataObject, ...]:
    """Parameters in their order, then arrays, then variables."""
    roles = {one.of: one for one in kernel.parameters}
    read: dict[Variable | Object, set[int]] = {}
    written: dict[Variable | Object, set[int]] = {}
    for statement in statements(kernel.body):
        for part in (part for whole in expressions(statement) for part in walk(whole)):
            if isinstance(part, Read | Load):
                read.setdefault(part.variable if isinstance(part, Read) else part.object, set()).add(part.at.line)
        if isinstance(statement, Assign):
            written.setdefault(statement.variable, set()).add(statement.at.line)
        elif isinstance(statement, Store | Atomic):
            written.setdefault(statement.object, set()).add(statement.at.line)
            if isinstance(statement, Atomic):
                read.setdefault(statement.object, set()).add(statement.at.line)
    others: list[Variable | Object] = [*kernel.objects, *kernel.variables]
    order = [*roles, *(one for one in others if one not in roles)]
    return tuple(_data_object(one, roles.get(one), read.get(one, set()), written.get(one, set())) for one in order)


def _data_object(of: Variable | Object, parameter: Parameter | None, read: set[int], written: set[int]) -> DataObject:
    shape = of.shape if isinstance(of, Object) else ()
    memory = of.memory if isinstance(of, Object) else "register"
    role = parameter.role if parameter else of.memory if isinstance(of, Object) else "variable"
    sizes = [folded(one) for one in shape]
    known = math.prod(int(one.value) for one in sizes if one) * SIZES[of.type] if all(sizes) else None
    mode = parameter.mode if parameter else None
    lines = (tuple(sorted(read)), tuple(sorted(written)))
    return DataObject(of.name, role, of.type, tuple(show(one) for one in shape), memory, mode, known, of.at, *lines)


def _block(block: Block) -> tuple[Node, ...]:
    return tuple(_statement(one) for one in block)


def _statement(one: Statement) -> Node:
    match one:
        case Declare():
            return Node("declare", one.at, name=one.what.name, type=one.what.type)
        case Assign():
            return Node("assign", one.at, name=one.variable.name, children=(_expression(one.value, "value"),))
        case Store():
            return Node("store", one.at, name=one.object.name, children=(*_all(one.index, "index"), _expression(one.value, "value")))
        case Atomic():
            children = (*_all(one.index, "index"), _expression(one.value, "value"))
            return Node(f"atomic_{one.operator}", one.at, name=one.object.name, children=children)
        case If():
            parts = (_part("then", one.at, one.then), _part("else", one.at, one.other))
            return Node("if", one.at, children=(_expression(one.condition, "condition"), *(part for part in parts if part.children)))
        case Loop():
            test = (*_block(one.before), _expression(one.condition, "condition"))
            inner = [one for one in (_part("body", one.at, one.body), _part("update", one.at, one.update)) if one.children]
            return Node("do" if one.test_last else "loop", one.at, children=(*inner, *test) if one.test_last else (*test, *inner))
        case Scope():
            return Node("function", one.at, name=one.name, children=_block(one.body))
        case Break() | Continue() | Barrier():
            return Node(type(one).__name__.lower(), one.at)
        case Leave():
            return Node("return", one.at)
    assert_never(one)


def _part(name: str, at: At, block: Block) -> Node:
    return Node(name, block[0].at if block else at, children=_block(block))


def _all(many: Sequence[Expression], part: str) -> tuple[Node, ...]:
    return tuple(_expression(one, part) for one in many)


def _expression(one: Expression, part: str = "") -> Node:
    match one:
        case Constant():
            return Node("constant", one.at, part, literal_of(one), one.type)
        case Read():
            return Node("read", one.at, part, one.variable.name, one.type)
        case Load():
            return Node("load", one.at, part, one.object.name, one.type, _all(one.index, "index"))
        case Unary():
            return Node(one.operator, one.at, part, None, one.type, (_expression(one.value),))
        case Binary():
            return Node(one.operator, one.at, part, None, one.type, (_expression(one.left), _expression(one.right)))
        case Choice():
            children = (_expression(one.condition, "condition"), _expression(one.yes, "then"), _expression(one.no, "else"))
            return Node("?:", one.at, part, None, one.type, children)
        case Cast():
            return Node("cast", one.at, part, None, one.type, (_expression(one.value),))
        case Call():
            return Node("call", one.at, part, called_as(one), one.type, _all(one.arguments, ""))
    assert_never(one)
