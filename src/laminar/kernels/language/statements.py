"""C statements to those of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pycparser import c_ast

from laminar.kernels.language.addresses import assigned_names, check_not_allocated, point
from laminar.kernels.language.declarations import declared
from laminar.kernels.language.expressions import combined, condition_of, element, spotted, value_of
from laminar.kernels.language.names import Exits, Names, Out
from laminar.kernels.language.parse import place, spoken
from laminar.kernels.language.pointers import Flow, Pointer, joined
from laminar.kernels.language.pointing import assume, check_written_through, end_block, pointed, pointer_named
from laminar.kernels.language.tree import Assign, At, Break, Constant, Continue, Expression, If, Leave, Load, Loop, Read, Store, Variable
from laminar.kernels.language.types import cast

MOST_ROUNDS: Final = 1000  # times that loops in which pointers move are read again


def lowered(names: Names, nodes: Sequence[c_ast.Node], out: Out, *, tail: bool) -> None:
    """A list of statements. `tail`: nothing of the function comes after them, so that a return needs no jump."""
    for number, node in enumerate(nodes):
        last = number == len(nodes) - 1
        if tail and not last and isinstance(node, c_ast.If) and node.iffalse is None and _returns(node.iftrue):
            _if(names, node, out, tail=True, otherwise=nodes[number + 1 :])
            return
        lower(names, node, out, tail=tail and last)
        if isinstance(node, (c_ast.Return, c_ast.Break, c_ast.Continue)) and not last:
            names.text.fail("K08", place(nodes[number + 1]), "this is never reached", "take it out")
        if names.body.flow is None and not names.body.dead and not last:
            with _never(names):
                lowered(names, nodes[number + 1 :], [], tail=tail)
            return


@contextmanager
def _never(names: Names) -> Iterator[None]:
    """What nobody comes to, such as what follows `if (p == NULL) return;` where p is NULL, keeps the rules, and is left out."""
    body, left = names.body, names.left
    mark, dead, body.dead = body.mark(), body.dead, True
    yield
    body.dead, body.flow, names.left = dead, None, left
    body.reset(mark)


def lower(names: Names, node: c_ast.Node, out: Out, *, tail: bool = False) -> None:
    at, text = place(node), names.text
    match node:
        case c_ast.Compound():
            names.blocks.append({})
            lowered(names, node.block_items or [], out, tail=tail)
            end_block(names)
        case c_ast.Decl():
            declared(names, node, out)
        case c_ast.DeclList():
            for one in node.decls:
                declared(names, one, out)
        case c_ast.Assignment():
            _assign(names, node, out)
        case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--"):
            _check_not_moved(names, node.expr, at)
            one = Constant(at, "int", 1)
            _change(names, node.expr, at, lambda old: combined(names, at, node.op.strip("p")[0], old, one), out)
        case c_ast.FuncCall():
            names.body.call(names, node, out)
        case c_ast.If():
            _if(names, node, out, tail=tail)
        case c_ast.For() | c_ast.While() | c_ast.DoWhile():
            _loop(names, node, out)
        case c_ast.Break() | c_ast.Continue():
            if not names.loops:
                text.fail("K08", at, f"`{type(node).__name__.lower()}` outside of a loop", "return")
            ends = names.exits[-1]
            (ends.breaks if isinstance(node, c_ast.Break) else ends.continues).append(names.body.flow)
            names.body.flow = None
            out.append(Break(at) if isinstance(node, c_ast.Break) else Continue(at))
        case c_ast.Return():
            _return(names, node, out, tail=tail)
        case c_ast.EmptyStatement():
            pass
        case _:
            _refuse(names, node, at)


def _refuse(names: Names, node: c_ast.Node, at: At) -> None:
    match node:
        case c_ast.ExprList():
            names.text.fail("K10", at, "a comma between statements", "a semicolon: each is a statement of its own")
        case c_ast.Goto() | c_ast.Label():
            names.text.fail("K08", at, "goto is not supported", "a loop with break, or a function with return")
        case c_ast.Switch() | c_ast.Case() | c_ast.Default():
            names.text.fail("K08", at, "switch is not supported", "if, else if, else")
        case c_ast.Pragma():
            names.text.fail("K17", at, "a pragma within a function", "take it out")
        case c_ast.Typedef():
            names.text.fail("K03", at, "typedef is not supported", "the type itself")
        case c_ast.StaticAssert():
            names.text.fail("K01", at, "_Static_assert is not supported", "take it out")
        case c_ast.BinaryOp() | c_ast.ID() | c_ast.Constant() | c_ast.UnaryOp() | c_ast.ArrayRef() | c_ast.TernaryOp() | c_ast.Cast():
            names.text.fail("K10", at, "this computes a value and does nothing with it", "an assignment, or take it out")
    names.text.fail("K01", at, f"{spoken(node)} is not supported here", "statements of C99")


def _returns(node: c_ast.Node) -> bool:
    if isinstance(node, c_ast.Compound):
        return bool(node.block_items) and _returns(node.block_items[-1])
    return isinstance(node, c_ast.Return)


def _block(names: Names, node: c_ast.Node | None, *, tail: bool) -> Out:
    made: Out = []
    if node is not None:
        names.blocks.append({})
        lower(names, node, made, tail=tail)
        end_block(names)
    return made


def _rest(names: Names, nodes: Sequence[c_ast.Node]) -> Out:
    """What follows `if (…) return;` is of the same block as that."""
    made: Out = []
    lowered(names, nodes, made, tail=True)
    return made


def _if(names: Names, node: c_ast.If, out: Out, *, tail: bool, otherwise: Sequence[c_ast.Node] | None = None) -> None:
    condition = condition_of(names, node.cond, out)
    known = condition.value if isinstance(condition, Constant) else None  # NULL or not: what is never run may not even make sense
    body, flow = names.body, names.body.flow
    then: Out = []
    other: Out = []
    ways: list[Flow | None] = []
    if known is not False and assume(names, node.cond, True):
        then = _block(names, node.iftrue, tail=tail)
        ways.append(body.flow)
    body.flow = flow
    if known is not True and assume(names, node.cond, False):
        other = _block(names, node.iffalse, tail=tail) if otherwise is None else _rest(names, otherwise)
        ways.append(body.flow)
    body.flow = joined(ways)
    if known is not None:
        out.extend(then if known else other)
    else:
        out.append(If(place(node), condition, tuple(then), tuple(other)))


def _loop(names: Names, node: c_ast.For | c_ast.While | c_ast.DoWhile, out: Out) -> None:
    names.blocks.append({})
    if isinstance(node, c_ast.For) and node.init is not None:
        _parts(names, node.init, out)
    body = names.body
    head, mark = body.flow, body.mark()
    moved = bool(head) and not body.dead and not {one.name for one in head or ()}.isdisjoint(assigned_names(node))
    while True:
        made, back = _round(names, node)
        again = joined([head, back])
        if not moved or again == head:
            break
        body.rounds += 1
        if body.rounds > MOST_ROUNDS:
            names.text.fail("K19", place(node), "pointers that change in loops within loops, too deep", "fewer loops within each other")
        body.reset(mark)
        head = body.flow = again
    end_block(names)
    out.append(made)


def _round(names: Names, node: c_ast.For | c_ast.While | c_ast.DoWhile) -> tuple[Loop, Flow | None]:
    """The loop, read with what pointers point at before a round, which is left behind the loop; and what they point at after a round."""
    at, body, last = place(node), names.body, isinstance(node, c_ast.DoWhile)
    before: Out = []
    update: Out = []
    condition: Expression = Constant(at, "bool", True)
    done: Flow | None = None

    def test() -> tuple[Expression, Flow | None, bool]:
        """The condition, where pointers point if it does not hold, and whether it ever does; that is known of what follows."""
        found, flow = condition_of(names, node.cond, before), body.flow
        assume(names, node.cond, False)
        over, body.flow = body.flow, flow
        return found, over, assume(names, node.cond, True)

    goes_on = True
    if node.cond is not None and not last:
        condition, done, goes_on = test()
    names.exits.append(Exits())
    names.loops += 1
    statements = _block(names, node.stmt, tail=False) if goes_on else []
    names.loops -= 1
    body.flow = joined([body.flow, *names.exits[-1].continues])
    end = node.next if isinstance(node, c_ast.For) and goes_on else None
    if body.flow is None and not body.dead and _needs_pointers(names, end, node.cond if last else None):
        end, condition = None, Constant(at, "bool", False) if last else condition  # each round leaves the loop before it comes here
    elif last:
        condition, done, _ = test()
    if end is not None:
        _parts(names, end, update)
    back = body.flow
    body.flow = joined([done, *names.exits.pop().breaks])
    return Loop(at, tuple(before), condition, tuple(statements), tuple(update), last), back


def _needs_pointers(names: Names, end: c_ast.Node | None, condition: c_ast.Node | None) -> bool:
    """Of what nobody comes to: does it depend on where pointers point?"""
    before = names.body.stand_ins
    with _never(names):
        if end is not None:
            _parts(names, end, [])
        if condition is not None:
            condition_of(names, condition, [])
    return names.body.stand_ins != before


def _parts(names: Names, node: c_ast.Node, out: Out) -> None:
    """Of `for (…; …; i++, k--)`: here commas are."""
    for one in node.exprs if isinstance(node, c_ast.ExprList) else [node]:
        lower(names, one, out)


def _return(names: Names, node: c_ast.Return, out: Out, *, tail: bool) -> None:
    at, text = place(node), names.text
    if names.result is None and node.expr is not None:
        text.fail("K12", at, f"`{names.function}` gives no value, and returns one", "`return;`, or another type before its name")
    if names.result is not None:
        if node.expr is None:
            text.fail("K12", at, f"`{names.function}` gives a {names.result.type}, and returns nothing", "a value after return")
        out.append(Assign(at, names.result, cast(value_of(names, node.expr, out), names.result.type)))
    names.body.flow = None
    if not tail:
        names.left = True
        out.append(Leave(at, names.scope))


def _assign(names: Names, node: c_ast.Assignment, out: Out) -> None:
    at = place(node)
    if isinstance(node.rvalue, c_ast.Assignment):
        names.text.fail("K10", at, "two assignments in one statement", "two statements")
    pointer = pointer_named(names, node.lvalue)
    if pointer is not None and node.op == "=":
        if pointer.fixed:
            said = f"`{pointer.name}` is const, and is made to point elsewhere"
            names.text.fail("K14", at, said, f"leave out the const in line {pointer.at.line}")
        check_not_allocated(names, node.rvalue)
        point(names, pointer, node.rvalue, at, out)
        return
    _check_not_moved(names, node.lvalue, at)
    if node.op == "=":
        _change(names, node.lvalue, at, lambda _: value_of(names, node.rvalue, out), out)
    else:
        _change(names, node.lvalue, at, lambda old: combined(names, at, node.op[:-1], old, value_of(names, node.rvalue, out)), out)


def _check_not_moved(names: Names, target: c_ast.Node, at: At) -> None:
    pointer = pointer_named(names, target)
    if pointer is not None:
        said = f"`{pointer.name}` is a pointer, and nothing is added to a pointer"
        names.text.fail("K04", at, said, f"`{pointer.name} = &a[k]`, or `*{pointer.name}` for what it points at")


def _change(names: Names, target: c_ast.Node, at: At, value: Callable[[Expression], Expression], out: Out) -> None:
    """`target = value(target)`."""
    text = names.text
    if isinstance(target, c_ast.ArrayRef):
        check_written(names, target, at)
        object_, index = element(names, target, out)
        out.append(Store(at, object_, index, cast(value(Load(place(target), object_, index)), object_.type)))
        return
    pointer = pointer_named(names, target.expr) if isinstance(target, c_ast.UnaryOp) and target.op == "*" else None
    if pointer is not None:
        _change_pointed(names, pointer, place(target), at, value, out)
        return
    variable = _variable(names, target, at)
    if variable is None:
        text.fail("K10", at, "this cannot be assigned to", "a variable, an element of an array, or `*` and a pointer")
    out.append(Assign(at, variable, cast(value(Read(place(target), variable)), variable.type)))


def _change_pointed(names: Names, pointer: Pointer, where: At, at: At, value: Callable[[Expression], Expression], out: Out) -> None:
    spot = pointed(names, pointer, at)
    check_written_through(names, pointer, spot, at)
    found = spotted(where, spot)
    if isinstance(found, Variable):
        out.append(Assign(at, found, cast(value(Read(where, found)), found.type)))
    else:
        out.append(Store(at, *found, cast(value(Load(where, *found)), found[0].type)))


def _variable(names: Names, target: c_ast.Node, at: At) -> Variable | None:
    name = target.expr if isinstance(target, c_ast.UnaryOp) and target.op == "*" else target
    if not isinstance(name, c_ast.ID):
        return None
    if names.find(name.name) is None:
        value_of(names, name, [])  # says that it is unknown
        names.text.fail("K10", at, f"`{name.name}` is a constant", "a variable")
    bound = names.find(name.name)
    assert bound is not None
    if name is not target:
        names.text.fail("K04", at, f"`{name.name}` is no pointer", f"`{name.name} = …`")
    check_written(names, name, at)
    if not isinstance(bound.what, Variable):
        names.text.fail("K12", at, f"`{name.name}` is an array", "one of its elements")
    return bound.what


def check_written(names: Names, node: c_ast.Node, at: At) -> None:
    """That what an element or variable belongs to may be changed."""
    while isinstance(node, c_ast.ArrayRef):
        node = node.name
    bound = names.find(node.name) if isinstance(node, c_ast.ID) else None
    if bound is not None and bound.pointer is not None:
        check_written_through(names, bound.pointer, pointed(names, bound.pointer, at), at)
    elif bound is not None and bound.fixed:
        own = f"a variable of its own: `int k = {node.name};`"
        instead = own if bound.given else f"leave out the const in line {bound.at.line}, or write to another"
        names.text.fail("K14", at, f"`{node.name}` is const, and is written here", instead)
