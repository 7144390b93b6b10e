"""A file of C to a `Kernel`: the way in.

    kernel = read_kernel(Path("leaky.c").read_text(), "leaky.c")

The first parameter of `kernel` is the instance's number, the second the number of instances. Arrays are inputs if they are const; outputs
if they are only written; else both. `in`, `out` and `inout` before the type say it outright. A function `kernel_backward` of the same
file is read by `entry="kernel_backward"`.
"""

from __future__ import annotations

import re
from typing import NoReturn

from pycparser import c_ast

from laminar.kernels.language.addresses import assigned_names
from laminar.kernels.language.calls import MOST_STATEMENTS, called, check_unused
from laminar.kernels.language.declarations import alike, array_shape, check_function, check_plain, is_fixed, is_size, type_place, written
from laminar.kernels.language.described import Described
from laminar.kernels.language.expressions import DEEPEST, condition_of, value_of
from laminar.kernels.language.fold import folded
from laminar.kernels.language.names import Body, Bound, Names, Out
from laminar.kernels.language.parse import deepest, parse, parse_expression, place, spoken
from laminar.kernels.language.room import too_large
from laminar.kernels.language.settle import settled
from laminar.kernels.language.statements import lowered
from laminar.kernels.language.text import Define, Text, prepared
from laminar.kernels.language.tree import (
    WHOLE,
    At,
    Atomic,
    Binary,
    Block,
    Call,
    Expression,
    Kernel,
    Load,
    Mode,
    Object,
    Parameter,
    Read,
    Variable,
    blocks,
    expressions,
    statements,
    walk,
)
from laminar.kernels.language.types import scalar

_SHAPE = "void kernel(int i, int n, const float x[n], float y[n])"


def read_kernel(source: str, name: str = "kernel.c", entry: str = "kernel") -> Kernel:
    """Raises KernelError."""
    text = prepared(source, name)
    try:
        return _read(text, entry)
    except RecursionError:
        text.fail("K01", deepest(text) or At(1, 1), "calls and conditions are nested too deeply", "fewer within each other")


def _read(text: Text, entry: str) -> Kernel:
    functions = _functions(text)
    if entry not in functions:
        text.fail("K02", At(1, 1), f"there is no function `{entry}`", f"`{_SHAPE.replace('kernel', entry)} {{ … }}`")
    function = functions.pop(entry)
    if getattr(function.decl.type.type.type, "names", None) != ["void"]:
        text.fail("K02", place(function), f"`{entry}` gives a value", "void; results go to an array that is not const")
    body = Body(text, functions, called, calls=[entry])
    names = Names(body, entry, 0, assigned=assigned_names(function.body))
    parameters = _parameters(names, function)
    given = dict(names.blocks[0])  # names of the body's outermost block are beside those of the parameters
    out: Out = []
    lowered(names, function.body.block_items or [], out, tail=True)
    block = settled(body, names.wrapped(place(function), out))
    if sum(1 for _ in statements(block)) > MOST_STATEMENTS:
        text.fail("K19", place(function), f"`{entry}` has more than {MOST_STATEMENTS} statements", "loops")
    deep = _deepest(block)
    if deep is not None:
        said = f"more than {DEEPEST} conditions and loops within each other, counting what comes after `else` or a return"
        text.fail("K19", deep, said, "a loop, or an array to look it up")
    if (large := too_large(body.objects)) is not None:
        text.fail("K19", *large)
    check_unused(body)
    instances, contract = _pragmas(names, given)
    assumed = [one for one in text.assumed if entry == "kernel" or _concerns(text, one, given)]
    assumptions = tuple(_assumption(names, given, one, parameters[0].of) for one in assumed)
    known = [_with_mode(one, block) for one in parameters]
    return Kernel(entry, text.text, tuple(known), block, tuple(body.variables), tuple(body.objects), instances, contract, assumptions)


def _deepest(block: Block) -> At | None:
    """The first statement that has too many around it: other parts of Laminar walk them one within the other."""
    level = [block]
    for _ in range(DEEPEST + 1):
        level = [inner for block in level for one in block for inner in blocks(one) if inner]
    return level[0][0].at if level else None


def entries(source: str, name: str = "kernel.c") -> tuple[str, ...]:
    """Names of the file's functions."""
    return tuple(_functions(prepared(source, name)))


def _functions(text: Text) -> dict[str, c_ast.FuncDef]:
    found: dict[str, c_ast.FuncDef] = {}
    named: dict[str, c_ast.Decl] = {}  # the first time, also if it was not defined there
    for node in parse(text).ext:
        at = place(node)
        if isinstance(node, c_ast.FuncDef):
            name = node.decl.name
            if name in found:
                text.fail("K11", at, f"`{name}` is defined twice", "another name")
            if node.param_decls:
                text.fail("K01", at, "parameters are declared in the way of 1978", "their types within the brackets")
            if any(isinstance(one, c_ast.EllipsisParam) for one in (node.decl.type.args.params if node.decl.type.args else [])):
                text.fail("K01", at, f"`{name}` takes any number of arguments", "a fixed number")
            _check_declared(text, node.decl, named)
            found[name] = node
        elif isinstance(node, c_ast.Typedef) and node.name in ("bool", "size_t"):
            continue
        elif isinstance(node, c_ast.Typedef):
            text.fail("K03", at, "typedef is not supported", "the type itself")
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            _check_declared(text, node, named)  # a function may be named before it is defined
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            scalar(text, node.type)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.ArrayDecl):
            fixed = written(node)
            instead = f"a parameter of the kernel: `{fixed}`; or in the kernel itself: `{fixed} = {{…}};`"
            text.fail("K05", at, f"`{node.name}` is a global array", instead)
        elif isinstance(node, c_ast.Decl):
            text.fail("K05", at, f"`{node.name}` is a global variable", f"a parameter of the kernel; a constant is `#define {node.name} …`")
        else:
            text.fail("K01", at, f"{spoken(node)} is not supported outside of a function", "functions only")
    return found


def _check_declared(text: Text, node: c_ast.Decl, named: dict[str, c_ast.Decl]) -> None:
    check_function(text, node)
    first = named.setdefault(node.name, node)
    if not alike(first.type, node.type):
        said = f"`{node.name}` has other types than in line {place(first).line}"
        text.fail("K12", place(node), said, "the same types in both places, or leave the first out")


def _parameters(names: Names, function: c_ast.FuncDef) -> list[Parameter]:
    text, found = names.text, function.decl.type.args
    nodes = [one for one in (found.params if found else []) if isinstance(one, c_ast.Decl)]
    made: list[Parameter] = []
    for number, node in enumerate(nodes):  # values first: sizes may be named after the array
        if number < 2 and not (isinstance(node.type, c_ast.TypeDecl) and scalar(text, node.type) in ("int", "long")):
            what = "the instance's number" if number == 0 else "the number of instances"
            text.fail("K02", place(node), f"parameter {number + 1} of `{names.function}` is {what}, an int", f"`{_SHAPE}`")
        if isinstance(node.type, c_ast.TypeDecl):
            check_plain(text, node)
            at, type_ = place(node), scalar(text, node.type)
            variable = names.body.variable(node.name, type_, at)
            names.bind(node.name, Bound(variable, at, "scalar", fixed=number < 2 or is_fixed(node), given=number < 2))
            made.append(Parameter(node.name, ("instance", "count")[number] if number < 2 else "value", variable, at))
    if len(nodes) < 2:
        text.fail("K02", place(function), f"`{names.function}` has {len(nodes)} parameter{'s' * (len(nodes) != 1)}", f"`{_SHAPE}`")
    for node in nodes:
        if not isinstance(node.type, c_ast.TypeDecl):
            made.append(_array(names, node))
    order = [node.name for node in nodes]
    for name, one in text.described.items():
        if name not in order and names.function == "kernel":
            text.fail("K17", one.at, f"`{name}` is described, and is no parameter of `{names.function}`", f"one of {', '.join(order)}")
    return sorted(made, key=lambda one: order.index(one.name))


def _array(names: Names, node: c_ast.Decl) -> Parameter:
    text, at = names.text, place(node)
    check_plain(text, node)
    told = text.described.get(node.name)
    if isinstance(node.type, c_ast.PtrDecl) and not (told and told.sizes):
        text.fail("K04", at, f"`{node.name}` is a pointer, and nobody knows how far it goes", f"an array: `float {node.name}[n]`")
    if not isinstance(node.type, (c_ast.ArrayDecl, c_ast.PtrDecl)):
        scalar(text, node.type)
    words = text.words_before(type_place(node))
    if {"shared", "local"} & set(words):
        text.fail("K03", at, f"`{node.name}` is a parameter, and in global memory", "declare shared and local arrays within the kernel")
    said: list[Mode] = [one for one in ("in", "out", "inout") if one in words]
    if told and told.mode is not None and told.mode not in said:
        said.append(told.mode)
    if len(said) > 1 or (said and said[0] != "in" and is_fixed(node)):
        text.fail("K14", at, f"`{node.name}` is said to be two things", "one of const, in, out, inout")
    mode: Mode | None = said[0] if said else "in" if is_fixed(node) else None
    shape = _described_shape(names, node, told) if told and told.sizes else array_shape(names, node)
    object_ = names.body.object(Object(node.name, scalar(text, node.type), shape, "global", at))
    names.bind(node.name, Bound(object_, at, "array", fixed=mode == "in"))
    return Parameter(node.name, "array", object_, at, mode)


def _described_shape(names: Names, node: c_ast.Decl, told: Described) -> tuple[Expression, ...]:
    """Sizes that the text leaves to a description."""
    text = names.text
    if not isinstance(node.type, c_ast.PtrDecl):
        text.fail("K13", told.sizes_at, f"`{node.name}` has its sizes in line {place(node).line} already", "one of both")
    if isinstance(node.type.type, c_ast.PtrDecl):
        text.fail("K04", place(node), f"`{node.name}` is a pointer to a pointer", f"`float *{node.name}`, with all its sizes described")
    sizes: list[Expression] = []
    for words in told.sizes:
        first: Out = []
        found = value_of(names, parse_expression(text, Define(told.sizes_at, words), f"a size of `{node.name}`"), first)
        known = folded(found)
        if found.type not in WHOLE or first or not is_size(known or found) or (known is not None and known.value <= 0):
            text.fail("K13", told.sizes_at, f"a size of `{node.name}` is `{words[:40]}`", "a whole number above 0, of sizes and values")
        sizes.append(known or found)
    return tuple(sizes)


def _with_mode(parameter: Parameter, block: Block) -> Parameter:
    """Arrays whose text does not say so are outputs, and in-outs if they are read."""
    if parameter.role != "array" or parameter.mode is not None:
        return parameter
    read = any(
        (isinstance(statement, Atomic) and statement.object is parameter.of)
        or any(isinstance(one, Load) and one.object is parameter.of for whole in expressions(statement) for one in walk(whole))
        for statement in statements(block)
    )
    return Parameter(parameter.name, "array", parameter.of, parameter.at, "inout" if read else "out")


def _pragmas(names: Names, given: dict[str, Bound]) -> tuple[Expression | None, bool]:
    text = names.text
    contract = text.pragmas.get("contract", "on")
    if contract not in ("on", "off"):
        text.fail("K17", text.pragma_at["contract"], f"contract is `{contract[:20]}`", "on or off")
    words = text.pragmas.get("instances")
    if words is None:
        return None, contract == "on"
    at, first = text.pragma_at["instances"], list[object]()
    apart = Names(names.body, names.function, 0, blocks=[given])
    found = value_of(apart, parse_expression(text, Define(at, words), "the number of instances"), first)  # type: ignore[arg-type]
    if found.type not in WHOLE or first or not is_size(folded(found) or found):
        text.fail("K17", at, f"the number of instances is `{words[:40]}`", "a whole number, of sizes and values")
    return folded(found) or found, contract == "on"


def _assumption(names: Names, given: dict[str, Bound], said: Define, instance: Variable | Object) -> Expression:
    """A condition that holds in every call: of values and the number of instances, which are the same for all instances."""
    text, first = names.text, list[object]()

    def fail(what: str, instead: str) -> NoReturn:
        text.fail("K17", said.at, f"`{said.text[:40]}` {what}", instead)

    apart = Names(names.body, names.function, 0, blocks=[given])
    found = condition_of(apart, parse_expression(text, said, "what is assumed"), first)  # type: ignore[arg-type]
    for part in walk(found):
        divided = isinstance(part, Binary) and part.operator in ("/", "%") and part.type not in WHOLE
        if isinstance(part, (Load, Call)) or divided or first:
            fail("is assumed", "a condition of values, without arrays, calls and quotients of floats")
        if isinstance(part, Read) and part.variable is instance:
            fail("is assumed of each instance", "a condition of values and the number of instances")
    if (known := folded(found)) is not None and not known.value:
        fail("never holds", "a condition of the kernel's values")
    return found


def _concerns(text: Text, said: Define, given: dict[str, Bound]) -> bool:
    """Does an adjoint in the same file have the parameters that are named?"""
    return all(name in given or name in text.defines for name in re.findall(r"[A-Za-z_]\w*", said.text))
