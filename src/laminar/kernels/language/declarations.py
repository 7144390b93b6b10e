"""Declarations: what may stand before a name, and sizes of arrays."""

from __future__ import annotations

from typing import Final

from pycparser import c_ast

from laminar.kernels.language.addresses import check_not_allocated, new_pointer
from laminar.kernels.language.expressions import overflown, value_of
from laminar.kernels.language.fold import folded
from laminar.kernels.language.names import Bound, Names, Out
from laminar.kernels.language.parse import place
from laminar.kernels.language.pointing import bind_pointer
from laminar.kernels.language.text import Text
from laminar.kernels.language.tree import (
    SIZES,
    WHOLE,
    Assign,
    At,
    Binary,
    Cast,
    Constant,
    Declare,
    Expression,
    Load,
    Memory,
    Object,
    Read,
    Statement,
    Store,
    Unary,
    walk,
)
from laminar.kernels.language.types import cast, scalar

LOCAL_BYTES: Final = 64 << 10  # of one array of one instance
SHARED_BYTES: Final = 64 << 20


def written(node: c_ast.Decl) -> str:
    """An array as C has it, of constants: `const float w[3][n]`."""
    sizes, inner = "", node.type
    while isinstance(inner, c_ast.ArrayDecl):
        sizes += f"[{getattr(inner.dim, 'value', None) or getattr(inner.dim, 'name', 'n')}]"
        inner = inner.type
    names = getattr(getattr(inner, "type", None), "names", ["float"])
    return f"const {' '.join(names)} {node.name}{sizes}"


def check_plain(text: Text, node: c_ast.Decl) -> None:
    """No static, extern, volatile and the like."""
    for word in node.storage:
        rule, instead = ("K05", "a variable of the function, or a parameter") if word in ("static", "extern") else ("K01", "leave it out")
        text.fail(rule, place(node), f"`{word}` is not supported", instead)
    for word in node.funcspec:
        text.fail("K01", place(node), f"`{word}` is for functions, and `{node.name}` is none", "leave it out")
    _check_qualifiers(text, node)
    if getattr(node, "align", None):
        text.fail("K03", place(node), "`_Alignas` is not supported", "leave it out")
    if node.bitsize is not None:
        text.fail("K03", place(node), "a number of bits is not supported", "leave it out")


def check_function(text: Text, node: c_ast.Decl) -> None:
    """`static` and `inline` mean nothing here, where functions are put in place of their calls; C compilers like to have them."""
    for word in [*node.storage, *node.funcspec]:
        if word not in ("static", "inline"):
            text.fail("K01", place(node), f"`{word}` is not supported before a function", "leave it out")
    _check_qualifiers(text, node)


def alike(one: c_ast.FuncDecl, other: c_ast.FuncDecl) -> bool:
    """Have two declarations of a function the same types, names and sizes aside? `f()` says nothing of what it takes."""
    return _words(one) == _words(other) and (one.args is None or other.args is None or _taken(one) == _taken(other))


def _taken(node: c_ast.FuncDecl) -> list[list[str]]:
    words = [_words(part) for part in node.args.params if isinstance(part, (c_ast.Decl, c_ast.Typename))]
    return [] if words == [["void"]] else words


def _words(node: c_ast.Node) -> list[str]:
    inner, made = node.type, []
    while not isinstance(inner, c_ast.TypeDecl):
        made.append("[]" if isinstance(inner, (c_ast.ArrayDecl, c_ast.PtrDecl)) else type(inner).__name__)
        inner = inner.type
    return [*made, *sorted(getattr(inner.type, "names", [type(inner.type).__name__]))]


def _check_qualifiers(text: Text, node: c_ast.Decl) -> None:
    if "restrict" in node.quals and isinstance(node.type, c_ast.TypeDecl):
        text.fail("K03", place(node), f"`restrict` is for pointers, and `{node.name}` is none", "leave it out")
    for word in node.quals:
        if word not in ("const", "restrict"):
            text.fail(
                "K03", place(node), f"`{word}` is not supported", "leave it out; `atomic_add(&a[k], v)` is for what many instances change"
            )


def is_fixed(node: c_ast.Decl) -> bool:
    inner = node.type
    while isinstance(inner, (c_ast.ArrayDecl, c_ast.PtrDecl)):
        inner = inner.type
    return "const" in (getattr(inner, "quals", None) or [])


def array_shape(names: Names, node: c_ast.Decl, *, open_first: bool = False) -> tuple[Expression, ...]:
    """Sizes; one that is left open is 0, and open only where the caller's array has it."""
    sizes: list[Expression] = []
    inner = node.type
    while isinstance(inner, c_ast.ArrayDecl):
        for word in [one for one in inner.dim_quals or [] if one not in ("const", "restrict")]:
            names.text.fail("K13", place(inner), f"`{word}` within the brackets of `{node.name}`", "the size alone: `[n]`")
        if inner.dim is None:
            if not (open_first and not sizes):
                names.text.fail("K13", place(inner), f"`{node.name}` has no size", "a number, or a parameter: `[n]`")
            sizes.append(Constant(place(inner), "int", 0))
        elif isinstance(inner.dim, c_ast.ID) and inner.dim.name == "*":
            names.text.fail("K13", place(inner), "`[*]` is no size", "a number, or a parameter: `[n]`")
        else:
            sizes.append(_size(names, inner.dim, node.name, may_be_zero=open_first))
        inner = inner.type
    if isinstance(inner, c_ast.PtrDecl):
        names.text.fail("K04", place(node), f"`{node.name}` is an array of pointers", "an array of numbers with one more dimension")
    if isinstance(inner, c_ast.FuncDecl):
        names.text.fail("K04", place(node), f"`{node.name}` is a function", "a call of a function of the file")
    if open_first:
        return tuple(folded(one) or Constant(one.at, "int", 0) if isinstance(one, Constant) else one for one in sizes)
    return tuple(sizes)


def _size(names: Names, node: c_ast.Node, name: str, *, may_be_zero: bool) -> Expression:
    first: Out = []
    found = value_of(names, node, first)
    if found.type not in WHOLE or first or any(isinstance(one, Load) for one in walk(found)):
        names.text.fail("K13", place(node), f"the size of `{name}` is no whole number", "a number, or a parameter of type int")
    known, large = folded(found), overflown(names, node, found)
    if known is not None and large is not None:
        said = f"the size of `{name}` is {large:,}, which does not fit the type {found.type}"
        names.text.fail("K13", place(node), said, "a smaller size" if large >= 1 << 63 else "a smaller size, or of longs: `2L * …`")
    if known is not None and known.value <= 0 and not may_be_zero:
        names.text.fail("K13", place(node), f"`{name}` has a size of {known.value}", "1 or more")
    if known is None and not is_size(found):
        names.text.fail("K13", place(node), f"the size of `{name}` is made by more than + - * / %", "a parameter of type int")
    return known or found


def is_size(found: Expression) -> bool:
    """Sizes are turned round to tell parameters, computed of symbols and in code: each of these knows sums, products and quotients."""
    match found:
        case Constant() | Read():
            return True
        case Cast() | Unary(operator="-"):
            return found.type in WHOLE and is_size(found.value)
        case Binary(operator="+" | "-" | "*" | "/" | "%"):
            return is_size(found.left) and is_size(found.right)
    return False


def declared(names: Names, node: c_ast.Decl, out: Out) -> None:
    """A variable or array of a block."""
    text, at = names.text, place(node)
    check_plain(text, node)
    if isinstance(node.type, c_ast.FuncDecl):
        text.fail("K01", at, f"`{node.name}` is declared as a function within a function", "the function itself, before the kernel")
    if isinstance(node.type, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
        scalar(text, node.type)
    if isinstance(node.type, c_ast.PtrDecl):
        bind_pointer(names, new_pointer(names, names, node, node.init, at, out))
        return
    words = text.words_before(type_place(node))
    for word in words:
        if word not in ("shared", "local"):
            text.fail("K03", at, f"`{word}` is for parameters of the kernel", "`shared` for one array of all instances, else nothing")
    if isinstance(node.type, c_ast.ArrayDecl):
        _array(names, node, "shared" if "shared" in words else "local", out)
        return
    if "shared" in words:
        text.fail("K03", at, f"`{node.name}` is shared and no array", f"`shared {scalar(text, node.type)} {node.name}[1];`")
    type_ = scalar(text, node.type)
    variable = names.body.variable(node.name, type_, at)
    out.append(Declare(at, variable))
    value: Constant | None = None
    if node.init is not None:
        if isinstance(node.init, c_ast.InitList):
            text.fail("K12", place(node.init), f"a list of values for `{node.name}`, which is no array", "one value")
        first = cast(value_of(names, node.init, out), type_)
        value = folded(first) if is_fixed(node) else None
        out.append(Assign(at, variable, first))
    elif is_fixed(node):
        text.fail("K15", at, f"`{node.name}` is const and has no value", f"`const {type_} {node.name} = …;`")
    names.bind(node.name, Bound(variable, at, "scalar", is_fixed(node), value))


def _array(names: Names, node: c_ast.Decl, memory: Memory, out: Out) -> None:
    text, at = names.text, place(node)
    type_ = scalar(text, node.type)
    if node.type.dim is None and isinstance(node.init, c_ast.InitList):
        node.type.dim = c_ast.Constant("int", str(len(node.init.exprs)), node.type.coord)
    check_not_allocated(names, node.init)
    shape = array_shape(names, node)
    sizes = [folded(one) for one in shape]
    if any(one is None for one in sizes):
        instead = "a number, a #define, or an array that is a parameter of the kernel"
        text.fail("K13", at, f"the size of `{node.name}` is not known before it runs", instead)
    elements = 1
    for one in sizes:
        elements *= int(one.value) if one else 1
    limit, kind = (SHARED_BYTES, "shared") if memory == "shared" else (LOCAL_BYTES, "local")
    if elements * SIZES[type_] > limit:
        said = f"`{node.name}` takes {elements * SIZES[type_]:,} bytes of {kind} memory, {limit:,} are the most"
        text.fail("K19", at, said, "a smaller array, or a parameter of the kernel")
    object_ = names.body.object(Object(node.name, type_, tuple(one for one in sizes if one), memory, at))
    out.append(Declare(at, object_))
    names.bind(node.name, Bound(object_, at, "array", is_fixed(node)))
    if node.init is None:
        return
    if memory == "shared":
        text.fail("K12", at, f"`{node.name}` is shared, and every instance would set it", "one instance sets it, then `barrier()`")
    out.extend(_filled(names, object_, [int(one.value) for one in sizes if one], node.init, out))


def _filled(names: Names, object_: Object, sizes: list[int], start: c_ast.Node, out: Out) -> list[Statement]:
    """`{1, 2}`: the rest is zero."""
    text, made = names.text, list[Statement]()

    def fill(node: c_ast.Node | None, prefix: tuple[int, ...]) -> None:
        at = place(node) if node is not None else object_.at
        if len(prefix) == len(sizes):
            if isinstance(node, c_ast.InitList):
                text.fail("K12", at, "a list of values for one element", "one value")
            value = cast(value_of(names, node, out), object_.type) if node is not None else cast(Constant(at, "int", 0), object_.type)
            made.append(Store(at, object_, tuple(Constant(at, "int", one) for one in prefix), value))
            return
        if node is not None and not isinstance(node, c_ast.InitList):
            text.fail("K12", at, "one value for an array", "a list: `{1, 2}`")
        given = list(node.exprs) if node is not None else []
        for one in given:
            if isinstance(one, c_ast.NamedInitializer):
                text.fail("K12", place(one), "values with names or places are not supported", "all values in order")
        if len(given) > sizes[len(prefix)]:
            text.fail("K12", at, f"{len(given)} values for {sizes[len(prefix)]} elements", "fewer values, or a larger array")
        for number in range(sizes[len(prefix)]):
            fill(given[number] if number < len(given) else None, (*prefix, number))

    fill(start, ())
    return made


def type_place(node: c_ast.Decl) -> At:
    """Where its type stands; the language's own words come before."""
    inner = node.type
    while isinstance(inner, (c_ast.ArrayDecl, c_ast.PtrDecl, c_ast.TypeDecl)):
        inner = inner.type
    return place(inner)
