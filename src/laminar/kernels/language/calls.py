"""Calls: a function of the file is put in place of its call, one of the table becomes a `Call`, atomics and barriers are statements."""

from __future__ import annotations

import difflib
from typing import Any, NoReturn
from typing import cast as as_type

from pycparser import c_ast

from laminar.kernels.language.addresses import assigned_names, new_pointer
from laminar.kernels.language.declarations import array_shape, check_plain, is_fixed
from laminar.kernels.language.expressions import element, spotted, value_of
from laminar.kernels.language.fold import folded
from laminar.kernels.language.intrinsics import ALLOCATE, ATOMICS, ELSEWHERE, INTRINSICS, OUTSIDE, TESTS
from laminar.kernels.language.names import Body, Bound, Names, Out
from laminar.kernels.language.parse import place
from laminar.kernels.language.pointers import Spot
from laminar.kernels.language.pointing import bind_pointer, check_written_through, pointed, pointer_named
from laminar.kernels.language.statements import check_written, lowered
from laminar.kernels.language.tree import Assign, At, Atomic, Barrier, Call, Constant, Declare, Expression, Object, Read, Variable
from laminar.kernels.language.types import cast, scalar

DEEPEST = 64
MOST_STATEMENTS = 50_000


def called(names: Names, node: c_ast.FuncCall, out: Out) -> Expression | None:
    """The value of a call; None of a function without one."""
    at = place(node)
    if not isinstance(node.name, c_ast.ID):
        names.text.fail("K04", at, "a call of something that is no name", "the name of a function")
    name, given = node.name.name, list(node.args.exprs) if node.args else []
    if name == "barrier":
        _expect(names, at, name, 0, len(given))
        out.append(Barrier(at))
        return None
    if name in ATOMICS:
        _atomic(names, at, name, given, out)
        return None
    if name in names.body.functions:
        return _inlined(names, names.body.functions[name], at, given, out)
    if name in TESTS:
        _expect(names, at, name, 1, len(given))
        value = value_of(names, given[0], out)
        value = value if value.type in ("float", "double") else cast(value, "double")
        return Call(at, "bool", name, (value,))
    if name in INTRINSICS:
        one = INTRINSICS[name]
        _expect(names, at, name, len(one.arguments), len(given))
        values = [cast(value_of(names, value, out), type_) for value, type_ in zip(given, one.arguments, strict=True)]
        return Call(at, one.result, one.name, tuple(values))
    return _unknown(names, at, name)


def _unknown(names: Names, at: At, name: str) -> NoReturn:
    if name == "free":
        names.text.fail("K07", at, "`free` is for what was allocated", "leave it out: arrays end with their block")
    if name in ALLOCATE:
        names.text.fail("K07", at, f"`{name}` allocates", "an array of fixed size, or one that is a parameter")
    if name in OUTSIDE:
        names.text.fail("K09", at, f"`{name}` depends on more than its arguments, or does more than give a value", OUTSIDE[name])
    if name == "kernel":
        names.text.fail("K06", at, "the kernel calls itself", "a loop")
    if name in ELSEWHERE:
        names.text.fail("K18", at, f"there is no function `{name}`", ELSEWHERE[name])
    near = difflib.get_close_matches(name, [*names.body.functions, *INTRINSICS, *ATOMICS, "barrier", *TESTS], 1, 0.7)
    names.text.fail("K18", at, f"there is no function `{name}`", f"`{near[0]}`" if near else "define it in the file, before the kernel")


def _expect(names: Names, at: At, name: str, wanted: int, given: int) -> None:
    if wanted != given:
        names.text.fail(
            "K12", at, f"`{name}` takes {wanted} argument{'s' * (wanted != 1)}, {given} given", "the arguments that it is declared with"
        )


def _atomic(names: Names, at: At, name: str, given: list[c_ast.Node], out: Out) -> None:
    _expect(names, at, name, 2, len(given))
    target, where = given[0], place(given[0])
    pointer = pointer_named(names, target)
    if pointer is not None:
        spot = pointed(names, pointer, where)
        found = spotted(where, spot)
        if isinstance(found, Variable):
            said = f"`{name}` works on an element of an array, and `{pointer.name}` points at `{found.name}`"
            names.text.fail("K04", where, said, f"`{name}(&a[k], value)`")
        object_, index = found
        check_written_through(names, pointer, spot, where)
    elif isinstance(target, c_ast.UnaryOp) and target.op == "&" and isinstance(target.expr, c_ast.ArrayRef):
        object_, index = element(names, target.expr, out)
        check_written(names, target.expr, where)
    else:
        names.text.fail("K04", where, f"`{name}` works on an element of an array", f"`{name}(&a[k], value)`")
    if object_.type == "bool":
        names.text.fail("K12", where, f"`{name}` of a bool", "an array of int, long, float or double")
    operator = as_type(Any, ATOMICS[name])
    out.append(Atomic(at, operator, object_, index, cast(value_of(names, given[1], out), object_.type)))


def _inlined(names: Names, function: c_ast.FuncDef, at: At, given: list[c_ast.Node], out: Out) -> Expression | None:
    body, name = names.body, function.decl.name
    if name in body.calls:
        ring = " → ".join([*body.calls[body.calls.index(name) :], name])
        names.text.fail("K06", at, f"`{name}` calls itself ({ring})", "a loop")
    if len(body.calls) >= DEEPEST:
        names.text.fail("K06", at, f"calls within calls, {DEEPEST} deep", "fewer functions")
    declared = _declared(function)
    _expect(names, at, name, len(declared), len(given))
    body.scopes += 1
    inner = Names(body, name, body.scopes, assigned=_assigned(body, function))
    shared: list[tuple[Spot, bool, At]] = []
    for parameter, argument in zip(declared, given, strict=True):
        _bind(names, inner, parameter, argument, shared, out)
    _no_aliases(names, name, shared)
    flow = body.flow
    result_type = function.decl.type.type
    if isinstance(result_type, c_ast.PtrDecl):
        names.text.fail("K04", place(function), f"`{name}` gives a pointer", "an argument to write to: `float *result`")
    if isinstance(result_type, c_ast.ArrayDecl):
        names.text.fail("K12", place(function), f"`{name}` gives an array", "an argument to write to: `float result[3]`")
    if list(getattr(result_type.type, "names", [])) != ["void"]:
        inner.result = body.variable(name, scalar(names.text, result_type), at)
        out.append(Declare(at, inner.result))
    body.calls.append(name)
    body.used.add(name)
    statements: Out = []
    lowered(inner, function.body.block_items or [], statements, tail=True)
    body.flow = flow  # a function cannot make its caller's pointers point elsewhere
    body.calls.pop()
    body.statements += len(statements)
    if body.statements > MOST_STATEMENTS:
        names.text.fail(
            "K19", at, f"with its functions inlined the kernel has more than {MOST_STATEMENTS} statements", "fewer calls within calls"
        )
    out.extend(inner.wrapped(at, statements))
    return Read(at, inner.result) if inner.result else None


def _assigned(body: Body, function: c_ast.FuncDef) -> frozenset[str]:
    name = function.decl.name
    if name not in body.assigned:
        body.assigned[name] = assigned_names(function.body)
    return body.assigned[name]


def _declared(function: c_ast.FuncDef) -> list[c_ast.Decl]:
    found = function.decl.type.args
    declared = list(found.params) if found else []
    if len(declared) == 1 and isinstance(declared[0], c_ast.Typename) and getattr(declared[0].type.type, "names", None) == ["void"]:
        return []
    return declared


def _bind(names: Names, inner: Names, parameter: Any, argument: c_ast.Node, shared: list[tuple[Spot, bool, At]], out: Out) -> None:
    """One argument to its name within the function."""
    at, text = place(argument), names.text
    if not isinstance(parameter, c_ast.Decl):
        text.fail("K01", place(parameter), "a parameter without a name", "a name")
    check_plain(text, parameter)
    fixed = is_fixed(parameter)
    where = place(parameter)
    if isinstance(parameter.type, c_ast.TypeDecl):
        type_ = scalar(text, parameter.type)
        variable = names.body.variable(parameter.name, type_, where)
        out += [Declare(at, variable), Assign(at, variable, cast(value_of(names, argument, out), type_))]
        inner.bind(parameter.name, Bound(variable, where, "scalar", fixed))
        return
    if isinstance(parameter.type, c_ast.PtrDecl):
        pointer = new_pointer(names, inner, parameter, argument, at, out)
        bind_pointer(inner, pointer)
        points = pointer.always or (names.body.flow or {}).get(pointer)
        shared += [(spot, fixed, at) for spot in points.ordered()] if points is not None else []
        return
    what = _array(names, inner, parameter, argument, at, fixed)
    inner.bind(parameter.name, Bound(what, where, "array", fixed))
    shared.append((Spot(what), fixed, at))


def _array(names: Names, inner: Names, parameter: c_ast.Decl, argument: c_ast.Node, at: At, fixed: bool) -> Object:
    bound = names.find(argument.name) if isinstance(argument, c_ast.ID) else None
    if bound is not None and bound.pointer is not None:
        spot = pointed(names, bound.pointer, at)
        bound = Bound(spot.what if spot.index is None else None, bound.at, "array", bound.pointer.reads_only or spot.fixed)
    if bound is None or not isinstance(bound.what, Object):
        names.text.fail("K12", at, f"`{parameter.name}` of the function is an array, this is none", "the name of an array")
    type_, sizes = scalar(names.text, parameter.type), array_shape(inner, parameter, open_first=True)
    if bound.what.type != type_ or len(sizes) != len(bound.what.shape):
        is_, wanted = f"{bound.what.type}{'[]' * len(bound.what.shape)}", f"{type_}{'[]' * len(sizes)}"
        names.text.fail("K12", at, f"`{argument.name}` is {is_}, the function takes {wanted}", "an array of that type")
    for size, has in zip(sizes, bound.what.shape, strict=True):
        known = folded(has)
        if isinstance(size, Constant) and known is not None and size.value != known.value:
            names.text.fail(
                "K12", at, f"`{argument.name}` has {known.value} elements, the function takes {size.value}", "an array of that size"
            )
    if bound.fixed and not fixed:
        names.text.fail(
            "K14", at, f"`{argument.name}` is const, and the function may write to it", f"`const` before `{parameter.name}` in the function"
        )
    return bound.what


def _no_aliases(names: Names, name: str, shared: list[tuple[Spot, bool, At]]) -> None:
    """Two elements of one array are told apart by their indices."""
    for number, (one, fixed, _) in enumerate(shared):
        for other, other_fixed, at in shared[number + 1 :]:
            elements = one.index is not None and other.index is not None
            if one.what is other.what and not elements and not (fixed and other_fixed):
                names.text.fail("K04", at, f"`{one.what.name}` is given to `{name}` twice, once to be written", "a copy of it")


def check_unused(body: Body) -> None:
    """Functions that nobody calls keep the rules, too: each is read as if it were called with variables and arrays of its own. Not so
    other kernels of the file: `kernel_backward` is read by itself. Of functions that take pointers is not looked at where these point:
    that is known where they are called."""
    for name, function in body.functions.items():
        if name in body.used or name.startswith("kernel"):
            continue
        takes_pointers = any(isinstance(getattr(one, "type", None), c_ast.PtrDecl) for one in _declared(function))
        apart = Names(Body(body.text, body.functions, called, calls=["kernel"], dead=takes_pointers), "kernel", 0)
        given: list[c_ast.Node] = []
        for parameter in _declared(function):
            _stand_in(apart, parameter, given)
        _inlined(apart, function, place(function), given, [])
        body.used |= apart.body.used


def _stand_in(names: Names, parameter: c_ast.Decl, given: list[c_ast.Node]) -> None:
    at, coord = place(parameter), parameter.coord
    type_ = scalar(names.text, parameter.type)
    if isinstance(parameter.type, c_ast.ArrayDecl):
        shape = array_shape(names, parameter, open_first=True)
        names.bind(parameter.name, Bound(Object(parameter.name, type_, shape, "global", at), at, "array"))
        given.append(c_ast.ID(parameter.name, coord))
        return
    names.bind(parameter.name, Bound(names.body.variable(parameter.name, type_, at), at, "scalar"))
    name = c_ast.ID(parameter.name, coord)
    given.append(c_ast.UnaryOp("&", name, coord) if isinstance(parameter.type, c_ast.PtrDecl) else name)
