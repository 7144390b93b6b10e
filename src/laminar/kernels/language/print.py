"""A tree to text again: what `read_kernel` makes of it means the same as the tree. Names are made unique, functions stay inlined.

A return from within an inlined function becomes a `break` out of a loop that runs once, with a flag where loops are in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from laminar.kernels.language.intrinsics import ALLOCATE, ATOMICS, CONSTANTS, INTRINSICS, OUTSIDE, TESTS
from laminar.kernels.language.spell import bare, called_as, literal_of
from laminar.kernels.language.text import WORDS
from laminar.kernels.language.tree import (
    Assign,
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
    blocks,
    expressions,
    statements,
    walk,
)

_C: Final = """
    NULL auto barrier bool break case char const continue default do double else enum extern float for goto if inline int kernel
    long register restrict return short signed size_t sizeof static struct switch typedef union unsigned void volatile while
"""
_TAKEN: Final = frozenset({*_C.split(), *WORDS, *ALLOCATE, *ATOMICS, *CONSTANTS, *INTRINSICS, *OUTSIDE, *TESTS})
_OPERATORS: Final = {"and": "&&", "or": "||"}


def print_kernel(kernel: Kernel, *, heading: str = "") -> str:
    """`heading` is a comment before it."""
    return _Printer(kernel).text(heading)


def show(expression: Expression) -> str:
    """An expression with the names that its variables were declared with, for messages."""
    return bare(_Printer(None).value(expression))


class _Printer:
    def __init__(self, kernel: Kernel | None) -> None:
        self.kernel = kernel
        self.names: dict[int, str] = {}
        self.used: set[str] = set(_TAKEN)
        self.lines: list[str] = []
        self.flags: dict[int, str] = {}  # scope -> the variable that says that it was left
        self.scopes: list[tuple[int, int]] = []  # (scope, how many loops are open within it)
        self.returns: int | None = None  # the scope that is all of the kernel

    def text(self, heading: str) -> str:
        kernel = self.kernel
        assert kernel is not None
        for parameter in kernel.parameters:
            self.names[id(parameter.of)] = parameter.name
            self.used.add(parameter.name)
        if heading:
            self.lines.append(f"/* {heading} */")
        if not kernel.contract:
            self.lines.append("#pragma laminar contract off")
        if kernel.instances is not None:
            self.lines.append(f"#pragma laminar instances {bare(self.value(kernel.instances))}")
        self.lines += [f"#pragma laminar assume {bare(self.value(one))}" for one in kernel.assumptions]
        self.lines.append(f"void {kernel.name}({', '.join(self.parameter(one) for one in kernel.parameters)}) {{")
        body = kernel.body
        if len(body) == 1 and isinstance(body[0], Scope):
            self.returns = body[0].number
            body = body[0].body
        self.block(body, 1)
        return "\n".join([*self.lines, "}"]) + "\n"

    def parameter(self, one: Parameter) -> str:
        if isinstance(one.of, Variable):
            return f"{one.of.type} {one.name}"
        word = "const " if one.mode == "in" else "" if one.mode == self.inferred(one.of) else f"{one.mode} "
        return f"{word}{one.of.type} {one.name}{self.indices(one.of.shape)}"

    def inferred(self, object_: Object) -> str:
        assert self.kernel is not None
        for statement in statements(self.kernel.body):
            if isinstance(statement, Atomic) and statement.object is object_:
                return "inout"
            if any(isinstance(one, Load) and one.object is object_ for whole in expressions(statement) for one in walk(whole)):
                return "inout"
        return "out"

    def name(self, what: Variable | Object) -> str:
        found = self.names.get(id(what))
        if found is None:
            found = self.names[id(what)] = self.fresh(what.name) if self.kernel is not None else what.name
        return found

    def fresh(self, name: str) -> str:
        found, number = name, 2
        while found in self.used:
            found, number = f"{name}_{number}", number + 1
        self.used.add(found)
        return found

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def block(self, block: Block, depth: int) -> None:
        skip = False
        for number, one in enumerate(block):
            if skip:
                skip = False
                continue
            following = block[number + 1] if number + 1 < len(block) else None
            if isinstance(one, Declare) and isinstance(one.what, Variable) and _starts(one.what, following):
                assert isinstance(following, Assign)
                self.add(depth, f"{one.what.type} {self.name(one.what)} = {bare(self.value(following.value))};")
                skip = True
            else:
                self.statement(one, depth)

    def statement(self, one: Statement, depth: int) -> None:
        match one:
            case Declare(what=Variable() as what):
                self.add(depth, f"{what.type} {self.name(what)};")
            case Declare(what=Object() as what):
                self.add(depth, f"{'shared ' * (what.memory == 'shared')}{what.type} {self.name(what)}{self.indices(what.shape)};")
            case Assign() | Store():
                self.add(depth, f"{self.change(one)};")
            case Atomic():
                target = f"{self.name(one.object)}{self.indices(one.index)}"
                self.add(depth, f"atomic_{one.operator}(&{target}, {bare(self.value(one.value))});")
            case If():
                self.branch(one, depth)
            case Loop():
                self.loop(one, depth)
            case Break():
                self.add(depth, "break;")
            case Continue():
                self.add(depth, "continue;")
            case Scope():
                self.scope(one, depth)
            case Leave():
                self.leave(one, depth)
            case Barrier():
                self.add(depth, "barrier();")

    def change(self, one: Assign | Store) -> str:
        target = self.name(one.variable) if isinstance(one, Assign) else f"{self.name(one.object)}{self.indices(one.index)}"
        return f"{target} = {bare(self.value(one.value))}"

    def branch(self, one: If, depth: int) -> None:
        self.add(depth, f"if ({bare(self.value(one.condition))}) {{")
        self.block(one.then, depth + 1)
        if one.other:
            self.add(depth, "} else {")
            self.block(one.other, depth + 1)
        self.add(depth, "}")

    def loop(self, one: Loop, depth: int) -> None:
        simple = not one.before and all(isinstance(step, Assign | Store) for step in one.update)
        if simple and one.test_last and not one.update:
            self.add(depth, "do {")
            self.inside(one.body, depth)
            self.add(depth, f"}} while ({bare(self.value(one.condition))});")
        elif simple and not one.test_last:
            steps = ", ".join(self.change(step) for step in one.update if isinstance(step, Assign | Store))
            condition = bare(self.value(one.condition))
            self.add(depth, f"for (; {condition}; {steps}) {{" if steps else f"while ({condition}) {{")
            self.inside(one.body, depth)
            self.add(depth, "}")
        else:
            self.long_loop(one, depth)
        if any(isinstance(inner, Leave) for inner in statements(one.body)):
            self.after_loop(one, depth)

    def long_loop(self, one: Loop, depth: int) -> None:
        """What comes between two iterations does not fit C's brackets: it comes first in all but the first."""
        again = self.fresh("again")
        self.add(depth, f"bool {again} = false;")
        self.add(depth, "while (true) {")
        test = f"if (!({self.value(one.condition)})) {{"
        between = (*one.update, *one.before) if one.test_last else one.update
        if between or one.test_last:
            self.add(depth + 1, f"if ({again}) {{")
            self.block(between, depth + 2)
            if one.test_last:
                self.add(depth + 2, f"{test} break; }}")
            self.add(depth + 1, "}")
            self.add(depth + 1, f"{again} = true;")
        if not one.test_last:
            self.block(one.before, depth + 1)
            self.add(depth + 1, f"{test} break; }}")
        self.inside(one.body, depth)
        self.add(depth, "}")

    def inside(self, body: Block, depth: int) -> None:
        self.scopes = [(number, loops + 1) for number, loops in self.scopes]
        self.block(body, depth + 1)
        self.scopes = [(number, loops - 1) for number, loops in self.scopes]

    def scope(self, one: Scope, depth: int) -> None:
        if _left_within_loops(one):
            flag = self.flags[one.number] = self.fresh("left")
            self.add(depth, f"bool {flag} = false;")
        self.add(depth, "do {")
        self.scopes.append((one.number, 0))
        self.block(one.body, depth + 1)
        self.scopes.pop()
        self.add(depth, "} while (false);")

    def leave(self, one: Leave, depth: int) -> None:
        if one.number == self.returns:
            self.add(depth, "return;")
            return
        if one.number in self.flags:
            self.add(depth, f"{self.flags[one.number]} = true;")
        self.add(depth, "break;")

    def after_loop(self, one: Loop, depth: int) -> None:
        """A scope that was left within goes on being left."""
        for number, _ in reversed(self.scopes):
            if number in self.flags and any(isinstance(inner, Leave) and inner.number == number for inner in statements(one.body)):
                self.add(depth, f"if ({self.flags[number]}) {{ break; }}")

    def indices(self, index: tuple[Expression, ...]) -> str:
        return "".join(f"[{bare(self.value(one))}]" for one in index)

    def value(self, one: Expression) -> str:
        """In brackets where an operator stands beside it."""
        match one:
            case Constant():
                return literal_of(one)
            case Read():
                return self.name(one.variable)
            case Load():
                return f"{self.name(one.object)}{self.indices(one.index)}"
            case Unary():
                return f"({one.operator}{self.value(one.value)})"
            case Binary():
                return f"({self.value(one.left)} {_OPERATORS.get(one.operator, one.operator)} {self.value(one.right)})"
            case Choice():
                return f"({self.value(one.condition)} ? {self.value(one.yes)} : {self.value(one.no)})"
            case Cast():
                return f"(({one.type}){self.value(one.value)})"
            case Call():
                arguments = ", ".join(bare(self.value(part)) for part in one.arguments)
                return f"{called_as(one)}({arguments})"


def _starts(what: Variable, following: Statement | None) -> bool:
    """Is the next statement the variable's first value, and does it not read itself?"""
    return (
        isinstance(following, Assign)
        and following.variable is what
        and not any(isinstance(one, Read) and one.variable is what for one in walk(following.value))
    )


def _left_within_loops(scope: Scope) -> bool:
    def leaves(block: Block, looped: bool) -> Iterator[bool]:
        for one in block:
            if isinstance(one, Leave) and one.number == scope.number:
                yield looped
            for inner in blocks(one):
                yield from leaves(inner, looped or isinstance(one, Loop | Scope))

    return any(leaves(scope.body, False))
