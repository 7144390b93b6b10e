"""What a pointer points at, at the place that is being read; and what is known of it behind a condition."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from pycparser import c_ast

from laminar.kernels.language.names import Bound, Names
from laminar.kernels.language.parse import place
from laminar.kernels.language.pointers import Flow, Pointer, Points, Spot, without
from laminar.kernels.language.tree import At, Constant, Expression, Object, Read, Unary, Variable


def pointer_named(names: Names, node: c_ast.Node | None) -> Pointer | None:
    bound = names.find(node.name) if isinstance(node, c_ast.ID) else None
    return bound.pointer if bound is not None else None


def points_of(names: Names, pointer: Pointer, at: At) -> Points:
    if names.body.dead:
        names.body.stand_ins += 1
        return Points(frozenset({Spot(Object(pointer.name, pointer.type, (Constant(at, "int", 0),), "local", at))}))
    if pointer.always is not None:
        return pointer.always
    assert names.body.flow is not None
    points = names.body.flow[pointer]
    if points.unset:
        others = points.spots or points.null or points.ended
        said = "has no address yet where some way leads here" if others else "has no address yet"
        names.text.fail("K15", at, f"`{pointer.name}` {said}", f"`= NULL`, or an address, in line {pointer.at.line}")
    return points


def pointed(names: Names, pointer: Pointer, at: At) -> Spot:
    """The one thing that `*p` is here."""
    name, points = pointer.name, points_of(names, pointer, at)
    if points.ended:
        what, line = min(points.ended)
        said = f"`{name}` points at `{what}` of line {line}, whose block has ended"
        names.text.fail("K04", at, said, f"declare `{what}` before the block")
    if points.null:
        said = f"{'may be' if points.spots else 'is'} NULL here, from line {points.null_at.line}"
        names.text.fail("K04", at, f"`{name}` {said}", f"`if ({name} != NULL)` around it")
    found = points.ordered()
    if len(found) > 1:
        _tell_apart(names, name, found, at)
    return found[0]


def definite(names: Names, pointer: Pointer, at: At) -> Points:
    """NULL, one thing, or either of both: what may be copied."""
    points = points_of(names, pointer, at)
    found = points.ordered()
    if points.ended:
        pointed(names, pointer, at)
    if len(found) > 1:
        _tell_apart(names, pointer.name, found, at)
    return points


def _tell_apart(names: Names, name: str, found: list[Spot], at: At) -> NoReturn:
    one, other = found[:2]
    if one.what is other.what and one.index and other.index:
        types = [" and ".join(part.type for part in spot.index or ()) for spot in (one, other)]
        said = (
            f"`{name}` has an element of `{one.what.name}` by {types[0]} from line {one.at.line}, by {types[1]} from line {other.at.line}"
        )
        names.text.fail("K12", at, said, "indices of one type in both lines: `(long)` before one of them")
    said = f"`{name}` points at {one} from line {one.at.line}, or at {other} from line {other.at.line}, and the text does not tell which"
    names.text.fail("K04", at, said, "write to each under its own condition; or one array, with the element's number in a variable")


def check_written_through(names: Names, pointer: Pointer, spot: Spot, at: At) -> None:
    if pointer.reads_only:
        said = f"`{pointer.name}` points at const values, and is written through here"
        names.text.fail("K14", at, said, f"leave out the const in line {pointer.at.line}, or write to another")
    if spot.fixed:
        said = f"`{pointer.name}` points at {spot}, which is const, and is written through here"
        names.text.fail("K14", at, said, f"leave out the const of `{spot.what.name}` in line {spot.what.at.line}, or write to another")


def pointer_test(names: Names, node: c_ast.Node) -> Expression | None:
    """`p`, `!p`, `p == NULL`, `p != NULL`: a constant where the text tells. None: no such test."""
    found = _tested(names, node)
    if found is None:
        return None
    pointer, wanted = found
    at = place(node)
    points = points_of(names, pointer, at)
    if not points.maybe_null:
        return Constant(at, "bool", (not points.null) == wanted)
    assert pointer.is_set is not None
    read = Read(at, pointer.is_set)
    return read if wanted else Unary(at, "bool", "!", read)


def _tested(names: Names, node: c_ast.Node) -> tuple[Pointer, bool] | None:
    """The pointer, and whether the test is true if it is not NULL."""
    match node:
        case c_ast.ID():
            pointer = pointer_named(names, node)
            return None if pointer is None else (pointer, True)
        case c_ast.UnaryOp(op="!"):
            found = _tested(names, node.expr)
            return None if found is None else (found[0], not found[1])
        case c_ast.BinaryOp(op="==" | "!="):
            sides = [node.left, node.right]
            if sum(is_null(one) for one in sides) == 1:
                found = _tested(names, sides[is_null(sides[0])])
                return None if found is None else (found[0], found[1] == (node.op == "!="))
    return None


def is_null(node: c_ast.Node | None) -> bool:
    return isinstance(node, c_ast.ID) and node.name == "NULL"


def assume(names: Names, node: c_ast.Node | None, truth: bool) -> bool:
    """Of what follows it is known that the condition was true, or false. False: that never is, and what follows is not run."""
    if names.body.flow is None or node is None:
        return True
    _assume(names, node, truth)
    return names.body.flow is not None


def _assume(names: Names, node: c_ast.Node, truth: bool) -> None:
    body = names.body
    if body.flow is None:
        return
    found = _tested(names, node)
    if found is not None:
        pointer, wanted = found
        if pointer.always is None:
            body.flow = _restricted(body.flow, pointer, null=wanted != truth)
        elif pointer.always.null == (wanted == truth):
            body.flow = None
        return
    match node:
        case c_ast.UnaryOp(op="!"):
            _assume(names, node.expr, not truth)
        case c_ast.BinaryOp(op="&&" | "||"):
            if (node.op == "&&") == truth:
                _assume(names, node.left, truth)
                _assume(names, node.right, truth)


def _restricted(flow: Flow, pointer: Pointer, *, null: bool) -> Flow | None:
    points = flow[pointer]
    kept = replace(points, spots=frozenset(), ended=frozenset()) if null else replace(points, null=False)
    if not (kept.spots or kept.null or kept.ended or kept.unset):
        return None
    return {**flow, pointer: kept}


def end_block(names: Names) -> None:
    """The innermost block ends, and with it what it declares: also for those that left it by a jump."""
    closed = names.blocks.pop()
    if not names.body.pointers:
        return
    own = {bound.pointer for bound in closed.values() if bound.pointer is not None}
    ended: set[Variable | Object] = {bound.what for bound in closed.values() if bound.what is not None and bound.kind != "pointer"}
    names.body.flow = without(names.body.flow, ended, own)
    for exits in names.exits:
        exits.breaks = [without(one, ended, own) for one in exits.breaks]
        exits.continues = [without(one, ended, own) for one in exits.continues]


def bind_pointer(names: Names, pointer: Pointer) -> None:
    names.bind(pointer.name, Bound(None, pointer.at, "pointer", pointer.fixed, pointer=pointer))
