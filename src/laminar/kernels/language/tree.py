"""The operator tree: what a kernel is once it has been read, checked and typed.

All functions are inlined (there is no recursion), so that a kernel is one body. Pointers are replaced by what they point at, so that none
is left. Expressions have no effects; what changes something is a statement. Each operand has the type that its operator needs:
conversions are casts. `At` is where it stands in the source, also for what was inlined.

Statements run for one instance. Values of a type: bool (one bit), int and long (32 and 64 bits, wrap around), float and double (IEEE, to
nearest). Division of whole numbers by zero gives 0, and the rest 0; a shift goes by the low bits of its right side; a float too large for
a whole number becomes the nearest one, and NaN 0: every way of running a kernel does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Type: TypeAlias = Literal["bool", "int", "long", "float", "double"]
Memory: TypeAlias = Literal["global", "shared", "local"]
Mode: TypeAlias = Literal["in", "out", "inout"]

SIZES: Final[dict[Type, int]] = {"bool": 1, "int": 4, "long": 8, "float": 4, "double": 8}
RANKS: Final[dict[Type, int]] = {"bool": 0, "int": 1, "long": 2, "float": 3, "double": 4}
WHOLE: Final = frozenset({"bool", "int", "long"})


class At(NamedTuple):
    line: int
    column: int


class Added(At):
    """Of what stands in no text: it was put there to make one kernel out of another, and is not counted."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Variable:
    """A scalar: in a register, or wherever the compiler puts it. Counted as memory kind `register`."""

    name: str
    type: Type
    at: At


@dataclass(frozen=True, eq=False)
class Object:
    """An array. Sizes of a global one are expressions of the parameters' values, those of others are numbers."""

    name: str
    type: Type
    shape: tuple[Expression, ...]
    memory: Memory
    at: At


@dataclass(frozen=True)
class Constant:
    at: At
    type: Type
    value: bool | int | float


@dataclass(frozen=True)
class Read:
    """The value of a variable."""

    at: At
    variable: Variable

    @property
    def type(self) -> Type:
        return self.variable.type


@dataclass(frozen=True)
class Load:
    """An element of an array; indices are int or long."""

    at: At
    object: Object
    index: tuple[Expression, ...]

    @property
    def type(self) -> Type:
        return self.object.type


@dataclass(frozen=True)
class Unary:
    at: At
    type: Type
    operator: Literal["-", "!", "~"]
    value: Expression


@dataclass(frozen=True)
class Binary:
    """Both sides have one type (of a shift: each is whole). Comparisons are bool. `and`, `or` look at the right side only if need be."""

    at: At
    type: Type
    operator: Literal["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Choice:
    """`condition ? yes : no`; only one of them is looked at."""

    at: At
    condition: Expression
    yes: Expression
    no: Expression

    @property
    def type(self) -> Type:
        return self.yes.type


@dataclass(frozen=True)
class Cast:
    at: At
    type: Type
    value: Expression


@dataclass(frozen=True)
class Call:
    """A function of mathematics, of language/intrinsics.py, by its name without an f for float: `exp`."""

    at: At
    type: Type
    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Constant | Read | Load | Unary | Binary | Choice | Cast | Call


@dataclass(frozen=True)
class Declare:
    """From here on the variable or array has no value yet, each time anew."""

    at: At
    what: Variable | Object


@dataclass(frozen=True)
class Assign:
    at: At
    variable: Variable
    value: Expression


@dataclass(frozen=True)
class Store:
    at: At
    object: Object
    index: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True)
class Atomic:
    """`object[index] = object[index] operator value`, as one for all instances; in no order that may matter but for rounding."""

    at: At
    operator: Literal["add", "min", "max"]
    object: Object
    index: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True)
class If:
    at: At
    condition: Expression
    then: Block
    other: Block


@dataclass(frozen=True)
class Loop:
    """`before`, then `condition` (bool), then `body`, then `update`, and again; with `test_last` body and update come first. `continue`
    goes on with `update`."""

    at: At
    before: Block
    condition: Expression
    body: Block
    update: Block
    test_last: bool = False


@dataclass(frozen=True)
class Break:
    at: At


@dataclass(frozen=True)
class Continue:
    at: At


@dataclass(frozen=True)
class Scope:
    """A function's body, in place of its call; `name` is the function's. `Leave` within goes to its end."""

    at: At
    name: str
    number: int
    body: Block


@dataclass(frozen=True)
class Leave:
    at: At
    number: int


@dataclass(frozen=True)
class Barrier:
    at: At


Statement: TypeAlias = Declare | Assign | Store | Atomic | If | Loop | Break | Continue | Scope | Leave | Barrier
Block: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True)
class Parameter:
    """`instance`: which one of them runs; `count`: how many there are; `value`: the same for all; `array`: in global memory."""

    name: str
    role: Literal["instance", "count", "value", "array"]
    of: Variable | Object
    at: At
    mode: Mode | None = None


@dataclass(frozen=True, eq=False)
class Kernel:
    """`variables` and `objects` are all there are, of parameters, too. `instances`: how many there are, if nobody says. `contract`:
    products that are added are added without rounding in between. `assumptions`: conditions of values and count that hold in every call."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    body: Block
    variables: tuple[Variable, ...]
    objects: tuple[Object, ...]
    instances: Expression | None = None
    contract: bool = True
    assumptions: tuple[Expression, ...] = ()

    @property
    def instance(self) -> Variable:
        return _variable(self.parameters[0])

    @property
    def count(self) -> Variable:
        return _variable(self.parameters[1])

    @property
    def values(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if one.role == "value")

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if one.role == "array")


def _variable(parameter: Parameter) -> Variable:
    assert isinstance(parameter.of, Variable)
    return parameter.of


def parts(expression: Expression) -> tuple[Expression, ...]:
    """What it is made of, from left to right."""
    match expression:
        case Load():
            return expression.index
        case Unary() | Cast():
            return (expression.value,)
        case Binary():
            return (expression.left, expression.right)
        case Choice():
            return (expression.condition, expression.yes, expression.no)
        case Call():
            return expression.arguments
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """It and all within, what is within first."""
    for one in parts(expression):
        yield from walk(one)
    yield expression


def expressions(statement: Statement) -> tuple[Expression, ...]:
    """Those that a statement computes itself, in order; not those of the blocks within."""
    match statement:
        case Assign():
            return (statement.value,)
        case Store() | Atomic():
            return (*statement.index, statement.value)
        case If() | Loop():
            return (statement.condition,)
    return ()


def blocks(statement: Statement) -> tuple[Block, ...]:
    match statement:
        case If():
            return (statement.then, statement.other)
        case Loop():
            return (statement.before, statement.body, statement.update)
        case Scope():
            return (statement.body,)
    return ()


def statements(block: Block) -> Iterator[Statement]:
    """All of a block and of the blocks within."""
    for one in block:
        yield one
        for inner in blocks(one):
            yield from statements(inner)
