"""C expressions to typed ones. What they need done first (functions inlined) is added to `out`."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any, Final, NoReturn
from typing import cast as as_type

from pycparser import c_ast

from laminar.kernels.language.fold import exact, folded
from laminar.kernels.language.intrinsics import CONSTANTS, ELSEWHERE
from laminar.kernels.language.names import Names, Out
from laminar.kernels.language.parse import parse_expression, place, spoken
from laminar.kernels.language.pointers import Spot
from laminar.kernels.language.pointing import assume, pointed, pointer_named, pointer_test
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    At,
    Binary,
    Choice,
    Constant,
    Declare,
    Expression,
    If,
    Load,
    Object,
    Read,
    Type,
    Unary,
    Variable,
)
from laminar.kernels.language.types import cast, common, literal, promoted, scalar

COMPARE: Final = ("<", "<=", ">", ">=", "==", "!=")
DEEPEST: Final = 128  # operators within each other: other parts of Laminar walk them one within the other
WHOLE_ONLY: Final = ("%", "&", "|", "^", "<<", ">>")


def value_of(names: Names, node: c_ast.Node, out: Out) -> Expression:
    """The typed expression."""
    names.depth += 1
    if names.depth > DEEPEST:
        names.text.fail("K01", place(node), f"an expression of more than {DEEPEST} operators within each other", "names for parts of it")
    found = _value(names, node, out)
    names.depth -= 1
    return found


def _value(names: Names, node: c_ast.Node, out: Out) -> Expression:
    at = place(node)
    match node:
        case c_ast.Constant():
            return literal(names.text, node)
        case c_ast.ID():
            return _named(names, node, out)
        case c_ast.ArrayRef():
            object_, index = element(names, node, out)
            return Load(at, object_, index)
        case c_ast.UnaryOp():
            return _unary(names, node, out)
        case c_ast.BinaryOp():
            return _binary(names, node, out)
        case c_ast.TernaryOp():
            return _choice(names, node, out)
        case c_ast.Cast():
            if not isinstance(node.to_type.type, c_ast.TypeDecl):
                names.text.fail("K04", at, "a cast to a pointer", "use the variable itself")
            return cast(value_of(names, node.expr, out), scalar(names.text, node.to_type), at)
        case c_ast.FuncCall():
            found = names.body.call(names, node, out)
            if found is None:
                names.text.fail("K12", at, f"`{node.name.name}` gives no value", "call it as a statement of its own")
            return found
        case c_ast.Assignment():
            names.text.fail("K10", at, "an assignment within an expression", "make it a statement of its own, before this one")
        case c_ast.ExprList():
            names.text.fail("K10", at, "a comma between expressions", "statements of their own")
        case c_ast.StructRef(name=c_ast.ID(name=word)) if word in ELSEWHERE and names.find(word) is None:
            names.text.fail("K11", at, f"`{word}` is not declared", ELSEWHERE[word])
        case c_ast.StructRef():
            names.text.fail("K03", at, "members of a struct are not supported", "a variable for each member")
    return names.text.fail("K01", at, f"{spoken(node)} is not supported here", "an expression of numbers and variables")


def condition_of(names: Names, node: c_ast.Node, out: Out) -> Expression:
    if isinstance(node, c_ast.Assignment):
        names.text.fail("K10", place(node), "an assignment as a condition", "`==` to compare; else assign in a statement before")
    return pointer_test(names, node) or cast(value_of(names, node, out), "bool")


def _named(names: Names, node: c_ast.ID, out: Out) -> Expression:
    at, name = place(node), node.name
    bound = names.find(name)
    if bound is None:
        if name in names.text.defines:
            return _defined(names, name, at, out)
        if name in CONSTANTS:
            type_, value = CONSTANTS[name]
            return Constant(at, type_, bool(value) if type_ == "bool" else value)
        _unknown(names, name, at)
    if bound.kind == "pointer":
        names.text.fail("K04", at, f"`{name}` is a pointer, and has no value of its own", f"`*{name}`; to compare it, `{name} != NULL`")
    if isinstance(bound.what, Object):
        rank = len(bound.what.shape)
        names.text.fail("K12", at, f"`{name}` is an array, here a number is needed", f"an element: `{name}{'[…]' * rank}`")
    assert isinstance(bound.what, Variable)
    return bound.value or Read(at, bound.what)


def _unknown(names: Names, name: str, at: At) -> NoReturn:
    known = [one for block in names.blocks for one in block] + list(names.text.defines)
    near = difflib.get_close_matches(name, known, 1)
    if name == "NULL":
        names.text.fail("K04", at, "NULL is a value of pointers only", "0")
    names.text.fail("K11", at, f"`{name}` is not declared", f"`{near[0]}`" if near else "declare it before, or make it a parameter")


def _bracketed(words: str) -> bool:
    """Whether the bracket at the start is the one that closes at the end."""
    depth = 0
    for offset, one in enumerate(words):
        depth += (one == "(") - (one == ")")
        if depth == 0:
            return offset > 0 and offset == len(words) - 1
    return False


def _defined(names: Names, name: str, at: At, out: Out) -> Expression:
    if name in names.body.constants:
        return replace(names.body.constants[name], at=at)
    if name in names.body.defines:
        names.text.fail("K17", names.text.defines[name].at, f"`{name}` is defined by itself", "a constant")
    names.body.defines.append(name)
    apart = Names(names.body, names.function, names.scope)  # a constant sees no variables
    node, words = parse_expression(names.text, names.text.defines[name], f"`{name}`"), names.text.defines[name].text
    if isinstance(node, (c_ast.BinaryOp, c_ast.TernaryOp)) and not _bracketed(words):
        said = f"`{name}` has no brackets around it: in C, what stands beside `{name}` takes a part of it"
        names.text.fail("K17", names.text.defines[name].at, said, f"`#define {name} ({words})`")
    found = value_of(apart, node, out)
    names.body.defines.pop()
    value = folded(found)
    if value is None:
        names.text.fail("K17", names.text.defines[name].at, f"`{name}` is not a constant", "an expression of numbers")
    names.body.constants[name] = value
    large = overflown(names, node, found)
    if large is not None:
        names.body.wrapped[name] = large
    return Constant(at, value.type, value.value)


def overflown(names: Names, node: c_ast.Node, found: Expression) -> int | None:
    """What an expression of constants would be, if it, or a constant in it, is too large for its type."""
    if isinstance(node, c_ast.ID) and names.find(node.name) is None and node.name in names.body.wrapped:
        return names.body.wrapped[node.name]
    for _, inner in node.children():
        if (large := overflown(names, inner, Constant(place(node), "int", 0))) is not None:
            return large
    value, known = exact(found), folded(found)
    return value if value is not None and known is not None and value != known.value else None


def element(names: Names, node: c_ast.ArrayRef, out: Out) -> tuple[Object, tuple[Expression, ...]]:
    """Of `a[i][j]`: the array and its indices."""
    at, subscripts, base = place(node), [], node
    while isinstance(base, c_ast.ArrayRef):
        subscripts.append(base.subscript)
        base = base.name
    if isinstance(base, (c_ast.Constant, c_ast.CompoundLiteral)):
        value_of(names, base, out)
    if not isinstance(base, c_ast.ID):
        names.text.fail("K04", at, "an index of something that is no array", "the name of an array")
    bound = names.find(base.name)
    if bound is None:
        _unknown(names, base.name, at)
    object_ = bound.what
    if bound.pointer is not None:
        spot = pointed(names, bound.pointer, at)
        object_ = spot.what if spot.index is None else None
        if spot.index is not None:
            said = f"`{base.name}` points at one element of `{spot.what.name}`, and is not an array"
            names.text.fail("K12", at, said, f"`*{base.name}`; or `{spot.what.name}` with an index")
    if not isinstance(object_, Object):
        names.text.fail("K12", at, f"`{base.name}` is not an array", f"`{'*' * (bound.pointer is not None)}{base.name}` without an index")
    shape = object_.shape
    if len(subscripts) != len(shape):
        said = f"`{base.name}` has {len(shape)} dimension{'s' * (len(shape) != 1)}, here it has {len(subscripts)}"
        names.text.fail("K12", at, said, f"`{base.name}{'[…]' * len(shape)}`")
    index = tuple(_index(names, one, out) for one in reversed(subscripts))
    return object_, index


def spotted(at: At, spot: Spot) -> tuple[Object, tuple[Expression, ...]] | Variable:
    """The variable, or the array and the indices, that `*p` is. Of a whole array its first element."""
    if isinstance(spot.what, Variable):
        return spot.what
    first: tuple[Expression, ...] = (Constant(at, "int", 0),)
    return spot.what, first if spot.index is None else tuple(Read(at, one) for one in spot.index)


def _index(names: Names, node: c_ast.Node, out: Out) -> Expression:
    found = value_of(names, node, out)
    if found.type not in WHOLE:
        names.text.fail("K12", found.at, f"an index of type {found.type}", "a whole number: `(int)` before it")
    return cast(found, promoted(found.type))


def _unary(names: Names, node: c_ast.UnaryOp, out: Out) -> Expression:
    at = place(node)
    if node.op in ("p++", "p--", "++", "--"):
        names.text.fail("K10", at, "a variable is changed within an expression", "a statement of its own before or after: `k++;`")
    if node.op == "sizeof":
        names.text.fail("K03", at, "sizeof is not supported", "the number")
    if node.op == "&":
        names.text.fail("K04", at, "an address that is no argument of a function", "`f(&v)`, or the variable itself")
    if node.op == "*":
        pointer = pointer_named(names, node.expr)
        if pointer is None:
            names.text.fail("K04", at, "`*` of something that is no pointer", "the name of a pointer, or an element: `a[0]`")
        found = spotted(at, pointed(names, pointer, at))
        return Read(at, found) if isinstance(found, Variable) else Load(at, *found)
    null = pointer_test(names, node)
    if null is not None:
        return null
    value = value_of(names, node.expr, out)
    if node.op == "!":
        return Unary(at, "bool", "!", cast(value, "bool"))
    value = cast(value, promoted(value.type))
    if node.op == "+":
        return value
    if node.op == "~" and value.type not in WHOLE:
        names.text.fail("K12", at, f"`~` of a {value.type}", "a whole number")
    if node.op not in ("-", "~"):
        names.text.fail("K01", at, f"`{node.op}` is not supported", "another operator")
    if isinstance(value, Constant) and node.op == "-":
        return Constant(at, value.type, -value.value)
    return Unary(at, value.type, node.op, value)


def _binary(names: Names, node: c_ast.BinaryOp, out: Out) -> Expression:
    at, sign = place(node), node.op
    if sign in ("&&", "||"):
        return _short(names, node, out)
    null = pointer_test(names, node)
    if null is not None:
        return null
    return combined(names, at, sign, value_of(names, node.left, out), value_of(names, node.right, out))


def combined(names: Names, at: At, sign: str, left: Expression, right: Expression) -> Expression:
    """`left sign right`, converted as C does."""
    if sign in WHOLE_ONLY:
        for one in (left, right):
            if one.type not in WHOLE:
                instead = "fmod or fmodf" if sign == "%" else "whole numbers"
                names.text.fail("K12", at, f"`{sign}` of a {one.type}", instead)
    if sign in ("<<", ">>"):
        type_ = promoted(left.type)
        return Binary(at, type_, as_type(Any, sign), cast(left, type_), cast(right, type_))
    shared = common(left.type, right.type)
    result: Type = "bool" if sign in COMPARE else shared
    return Binary(at, result, as_type(Any, sign), cast(left, shared), cast(right, shared))


def _short(names: Names, node: c_ast.BinaryOp, out: Out) -> Expression:
    """The right side counts only if the left one does not decide; also what it needs done first."""
    at, flow = place(node), names.body.flow
    left = condition_of(names, node.left, out)
    if not assume(names, node.left, node.op == "&&"):
        names.body.flow = flow
        return left  # it decides alone, and the other side may not even make sense
    first: Out = []
    right = condition_of(names, node.right, first)
    names.body.flow = flow
    if isinstance(left, Constant) and pointer_test(names, node.left) is not None:
        out += first
        return right
    word = as_type(Any, "and" if node.op == "&&" else "or")
    if not first:
        return Binary(at, "bool", word, left, right)
    test = names.body.variable("condition", "bool", at)
    out += [Declare(at, test), Assign(at, test, left)]
    look: Expression = Read(at, test) if word == "and" else Unary(at, "bool", "!", Read(at, test))
    out.append(If(at, look, (*first, Assign(at, test, right)), ()))
    return Read(at, test)


def _side(names: Names, node: c_ast.TernaryOp, truth: bool, out: Out) -> Expression:
    """One of a choice. Where the test of a pointer leaves it out, only its type counts: what it points at there need not make sense."""
    body, flow, side = names.body, names.body.flow, node.iftrue if truth else node.iffalse
    if assume(names, node.cond, truth):
        found = value_of(names, side, out)
        body.flow = flow
        return found
    mark, dead, body.dead, body.flow = body.mark(), body.dead, True, flow
    found = value_of(names, side, [])
    body.dead, body.flow = dead, flow
    body.reset(mark)
    return cast(Constant(place(side), "int", 0), found.type)


def _choice(names: Names, node: c_ast.TernaryOp, out: Out) -> Expression:
    at = place(node)
    condition = condition_of(names, node.cond, out)
    first: Out = []
    second: Out = []
    yes = _side(names, node, True, first)
    no = _side(names, node, False, second)
    type_ = "bool" if yes.type == no.type == "bool" else common(yes.type, no.type)
    yes, no = cast(yes, type_), cast(no, type_)
    if not first and not second:
        return Choice(at, condition, yes, no)
    chosen = names.body.variable("choice", type_, at)
    out.append(Declare(at, chosen))
    out.append(If(at, condition, (*first, Assign(at, chosen, yes)), (*second, Assign(at, chosen, no))))
    return Read(at, chosen)
