"""Addresses: `float *p = &y[i];`, `p = c ? &a : NULL;`, `f(&v)`. What they become in the tree are a few variables, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from pycparser import c_ast

from laminar.kernels.language.expressions import condition_of, element, value_of
from laminar.kernels.language.intrinsics import ALLOCATE
from laminar.kernels.language.names import Names, Out
from laminar.kernels.language.parse import place
from laminar.kernels.language.pointers import Pointer, Points, Spot, joined
from laminar.kernels.language.pointing import assume, definite, is_null, pointed, pointer_named
from laminar.kernels.language.tree import Assign, At, Constant, Declare, Expression, If, Object, Read, Statement, Variable, walk
from laminar.kernels.language.types import scalar


@dataclass(frozen=True)
class Address:
    """What an expression of C points at. `index`: of an element whose address is taken here. `copied`: the pointer that has it."""

    points: Points
    at: At
    index: tuple[Expression, ...] | None = None
    copied: Pointer | None = None


def assigned_names(node: c_ast.Node) -> frozenset[str]:
    """Names that something is assigned to, or counted up or down."""
    found, todo = set[str](), [node]
    while todo:
        one = todo.pop()
        target = one.lvalue if isinstance(one, c_ast.Assignment) else None
        if isinstance(one, c_ast.UnaryOp) and one.op in ("p++", "p--", "++", "--"):
            target = one.expr
        if isinstance(target, c_ast.ID):
            found.add(target.name)
        todo += [inner for _, inner in one.children()]
    return frozenset(found)


def check_not_allocated(names: Names, start: c_ast.Node | None) -> None:
    while isinstance(start, c_ast.Cast):
        start = start.expr
    if isinstance(start, c_ast.FuncCall) and isinstance(start.name, c_ast.ID) and start.name.name in ALLOCATE:
        value_of(names, start, [])  # says that it allocates


def new_pointer(names: Names, inner: Names, node: c_ast.Decl, start: c_ast.Node | None, at: At, out: Out) -> Pointer:
    """A pointer that is declared: in `inner`, which is the function that is called if `start` is an argument for it, else `names`."""
    text, where = names.text, place(node)
    type_ = scalar(text, node.type)
    if isinstance(node.type.type, c_ast.PtrDecl):
        text.fail("K04", where, "a pointer to a pointer", "a pointer to a variable")
    check_not_allocated(names, start)
    quals = [*(getattr(node.type.type, "quals", None) or [])]
    made = Pointer(node.name, type_, where, "const" in quals, "const" in (node.type.quals or []))
    if start is None and node.name not in inner.assigned:
        text.fail("K15", where, f"`{node.name}` has no address", f"`{type_} *{node.name} = &v;`, or no pointer")
    if start is not None and node.name not in inner.assigned and not isinstance(start, c_ast.TernaryOp):
        found = address(names, made, start, at, out, strict=inner is not names)
        always = _for_good(names, made, found, out)
        if always is not None:
            return replace(made, always=always)
        made = _that_moves(names, made, out)
        _set(names, made, found, out)
        return made
    made = _that_moves(names, made, out)
    names.body.flow = None if names.body.flow is None else {**names.body.flow, made: Points(unset=True)}
    if start is not None:
        point(names, made, start, at, out, strict=inner is not names)
    return made


def _that_moves(names: Names, pointer: Pointer, out: Out) -> Pointer:
    made = replace(pointer, is_set=names.body.variable(f"{pointer.name}_set", "bool", pointer.at), offsets={})
    assert made.is_set is not None
    names.body.pointers.append(made)
    out.append(Declare(pointer.at, made.is_set))
    return made


def _for_good(names: Names, pointer: Pointer, found: Address, out: Out) -> Points | None:
    """What a pointer that never moves points at; None if that depends on the run."""
    points = found.points
    if points.maybe_null:
        return None
    spots = points.ordered()
    index: tuple[Expression, ...] | None = found.index
    if found.copied is not None and found.copied.always is None and spots and spots[0].index is not None:
        index = tuple(Read(found.at, one) for one in spots[0].index)  # the other one may go on to another element
    if index is None:
        return points
    kept = _variables(names, pointer, index)
    out += [part for one, value in zip(kept, index, strict=True) for part in (Declare(found.at, one), Assign(found.at, one, value))]
    return replace(points, spots=frozenset({replace(spots[0], index=kept)}))


def _variables(names: Names, pointer: Pointer, index: tuple[Expression, ...]) -> tuple[Variable, ...]:
    ends = [""] if len(index) == 1 else [str(axis) for axis in range(len(index))]
    made = tuple(names.body.variable(f"{pointer.name}_at{end}", one.type, pointer.at) for one, end in zip(index, ends, strict=True))
    names.body.offsets.update(made)
    return made


def point(names: Names, pointer: Pointer, node: c_ast.Node, at: At, out: Out, *, strict: bool = False) -> None:
    """`p = …`, of a pointer that moves."""
    if not isinstance(node, c_ast.TernaryOp):
        _set(names, pointer, address(names, pointer, node, at, out, strict=strict), out)
        return
    body = names.body
    condition = condition_of(names, node.cond, out)
    if isinstance(condition, Constant):
        point(names, pointer, node.iftrue if condition.value else node.iffalse, at, out, strict=strict)
        return
    before, ways, sides = body.flow, [], []
    for truth, side in ((True, node.iftrue), (False, node.iffalse)):
        body.flow = before
        inner: Out = []
        if assume(names, node.cond, truth):
            point(names, pointer, side, at, inner, strict=strict)
            ways.append(body.flow)
        sides.append(tuple(inner))
    body.flow = joined(ways)
    out.append(If(at, condition, sides[0], sides[1]))


def _set(names: Names, pointer: Pointer, found: Address, out: Out) -> None:
    assert pointer.is_set is not None
    points, spots, inner = found.points, found.points.ordered(), list[Statement]()
    index, copied = found.index, found.copied
    if copied is not None and spots and spots[0].index is not None:
        index = tuple(Read(found.at, one) for one in spots[0].index)
    if index is not None and isinstance(spots[0].what, Object):
        key = (spots[0].what, tuple(one.type for one in index))
        if key not in pointer.offsets:
            pointer.offsets[key] = _variables(names, pointer, index)
        kept = pointer.offsets[key]
        if any(isinstance(part, Read) and part.variable in kept for one in index[1:] for part in walk(one)):
            first = _variables(names, pointer, index)  # its own place is looked at while it is set
            inner += [
                part for one, value in zip(first, index, strict=True) for part in (Declare(found.at, one), Assign(found.at, one, value))
            ]
            index = tuple(Read(found.at, one) for one in first)
        inner += [Assign(found.at, one, value) for one, value in zip(kept, index, strict=True)]
        points = replace(points, spots=frozenset({replace(spots[0], index=kept)}))
    if points.maybe_null:
        assert copied is not None and copied.is_set is not None
        set_: Expression = Read(found.at, copied.is_set)
        out += [If(found.at, set_, tuple(inner), ())] if inner else []
    else:
        set_ = Constant(found.at, "bool", not points.null)
        out += inner
    out.append(Assign(found.at, pointer.is_set, set_))
    if names.body.flow is not None:
        names.body.flow = {**names.body.flow, pointer: points}


def address(names: Names, pointer: Pointer, node: c_ast.Node, at: At, out: Out, *, strict: bool) -> Address:
    """What `pointer` is to point at. `strict`: an argument, which is refused already if writing through it would be wrong."""
    text = names.text
    if is_null(node):
        return Address(Points(null=True, null_at=place(node)), at)
    taken = isinstance(node, c_ast.UnaryOp) and node.op == "&"
    target = node.expr if taken else node
    if isinstance(target, c_ast.UnaryOp) and target.op == "*" and taken:
        taken, target = False, target.expr  # &*p
    if taken and isinstance(target, c_ast.ArrayRef):
        object_, index = element(names, target, out)
        base = target
        while isinstance(base, c_ast.ArrayRef):
            base = base.name
        spot = Spot(object_, None, _is_fixed(names, base, at), at)
        _check_fits(names, pointer, spot, at, strict=strict)
        return Address(Points(frozenset({spot})), at, index)
    other = pointer_named(names, target)
    if other is not None:
        return _copied(names, pointer, other, at, taken=taken)
    bound = names.find(target.name) if isinstance(target, c_ast.ID) else None
    if bound is None or bound.what is None or (not taken and bound.kind == "scalar"):
        _refuse(names, pointer, node, at)
    spot = Spot(bound.what, None, bound.fixed, at)
    _check_fits(names, pointer, spot, at, strict=strict)
    if isinstance(bound.what, Object) and len(bound.what.shape) != 1:
        said = f"`{target.name}` has {len(bound.what.shape)} dimensions, a pointer has one"
        text.fail("K12", at, said, "a parameter with all sizes: `a[3][3]`; or the address of one element")
    return Address(Points(frozenset({spot})), at)


def _is_fixed(names: Names, base: c_ast.ID, at: At) -> bool:
    bound = names.find(base.name)
    assert bound is not None
    if bound.pointer is None:
        return bound.fixed
    return bound.pointer.reads_only or pointed(names, bound.pointer, at).fixed


def _check_fits(names: Names, pointer: Pointer, spot: Spot, at: At, *, strict: bool) -> None:
    if spot.what.type != pointer.type:
        said = f"the address of a {spot.what.type} for a pointer to {pointer.type}"
        names.text.fail("K12", at, said, f"`{spot.what.type} *{pointer.name}`")
    if strict and spot.fixed and not pointer.reads_only:
        names.text.fail("K14", at, f"{spot} is const, and the function may write to it", "const at the function's parameter")


def _copied(names: Names, pointer: Pointer, other: Pointer, at: At, *, taken: bool) -> Address:
    if taken:
        names.text.fail("K04", at, "the address of a pointer", "the pointer itself")
    if other.type != pointer.type:
        said = f"`{other.name}` is a pointer to {other.type}, `{pointer.name}` one to {pointer.type}"
        names.text.fail("K12", at, said, f"`{other.type} *{pointer.name}`")
    if other.reads_only and not pointer.reads_only:
        said = f"`{other.name}` points at const values, and `{pointer.name}` may write to them"
        names.text.fail("K14", at, said, f"`const {pointer.type} *{pointer.name}`")
    return Address(definite(names, other, at), at, copied=other)


def _refuse(names: Names, pointer: Pointer, node: c_ast.Node, at: At) -> NoReturn:
    text, name = names.text, pointer.name
    match node:
        case c_ast.BinaryOp(op="+" | "-"):
            text.fail("K04", at, f"`{name}` is set to a sum: nothing is added to a pointer", "the address of the element: `&a[k]`")
        case c_ast.Constant():
            text.fail("K04", at, f"`{name}` is set to a number", "NULL, or the address of a variable, array or element")
        case c_ast.Cast():
            text.fail("K04", at, "a cast to a pointer", "the address itself")
        case c_ast.FuncCall():
            value_of(names, node, [])  # says what else is wrong with it
            text.fail("K04", at, f"`{name}` is set to what a function gives, which is no pointer", "an argument to write to: `&v`")
        case c_ast.ArrayRef():
            value_of(names, node, [])
            text.fail("K04", at, f"`{name}` is set to the value of an element", "its address: `&` before it")
        case c_ast.ID(name=word) | c_ast.UnaryOp(op="&", expr=c_ast.ID(name=word)) if names.find(word) is None:
            value_of(names, c_ast.ID(word, node.coord or getattr(node, "expr", node).coord), [])  # says that it is unknown
    said = f"`{name}` is not the address of a variable, array or element"
    text.fail("K04", at, said, "`&` and the name of a variable or an element, an array, another pointer, or NULL")
