"""Expressions to lines of Python, one operator a line. What comes back is a name, a number, or a term to be written once."""

from __future__ import annotations

import math
from typing import Final, assert_never

from laminar.kernels.emulate.accesses import load
from laminar.kernels.emulate.arithmetic import EXACT, ZERO
from laminar.kernels.emulate.writer import Writer
from laminar.kernels.language.tree import WHOLE, At, Binary, Call, Cast, Choice, Constant, Expression, Load, Read, Type, Unary

_COMPARE: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_RESULT: Final = {"+": "the sum", "-": "the difference", "*": "the product"}
_RANGE: Final = {"int": "-2147483648 <= {0} <= 2147483647", "long": "-9223372036854775808 <= {0} <= 9223372036854775807"}


def value(w: Writer, node: Expression) -> str:
    match node:
        case Constant():
            return _constant(node)
        case Read():
            return _read(w, node)
        case Load():
            return load(w, node, w.same_element(node) or [atom(w, one) for one in node.index])
        case Unary():
            return _unary(w, node)
        case Binary():
            return _binary(w, node)
        case Choice():
            return _choice(w, node)
        case Cast():
            return _cast(w, node, atom(w, node.value))
        case Call():
            return _call(w, node)
    assert_never(node)


def atom(w: Writer, node: Expression) -> str:
    return w.atom(value(w, node))


def _constant(node: Constant) -> str:
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return "NAN" if math.isnan(node.value) else "INF" if node.value > 0 else "(-INF)"
    text = repr(node.value)
    return f"({text})" if text.startswith("-") else text


def _read(w: Writer, node: Read) -> str:
    w.register(node.variable, node.at, write=False)
    name = w.variable(node.variable)
    if w.known is not None and node.variable not in w.known:
        w.line(f"if {name} is None: {name} = unset({w.place(node.at, node.variable.name)}, v0, {ZERO[node.variable.type]})")
        w.known.add(node.variable)
    if w.traced:
        w.line(f"got({w.end(node.at, node.variable)}, v0, None, {w.origin(node.variable)})")
    return name


def _unary(w: Writer, node: Unary) -> str:
    inner = atom(w, node.value)
    if node.operator == "!":
        return f"(not {inner})"
    if node.operator == "~":
        return w.temporary(f"~{inner}")
    return wrapped(w, node.type, f"-{inner}", node.at, "the negative")


def wrapped(w: Writer, type_: Type, term: str, at: At, what: str) -> str:
    """The term as a value of its type: whole numbers wrap, floats are rounded. `what`: as a finding calls it."""
    if type_ == "float":
        return w.temporary(term) if term.startswith("-") else rounded(w, term)
    name = w.temporary(term)
    if type_ in _RANGE:
        w.line(f"if not {_RANGE[type_].format(name)}: {name} = {_wrap(w, type_, name, at, what)}")
    return name


def _wrap(w: Writer, type_: Type, name: str, at: At, what: str) -> str:
    plain = f"wrap_{type_}({name})"
    return f"wrapped({w.place(at, what)}, v0, {name}, {plain})" if w.arithmetic else plain


def rounded(w: Writer, term: str) -> str:
    w.line(f"cell[0] = {term}")
    return w.temporary("cell[0]")


def _binary(w: Writer, node: Binary) -> str:
    sign = node.operator
    if sign in ("and", "or"):
        result = w.temporary(value(w, node.left))
        with w.under(f"if {result}:" if sign == "and" else f"if not {result}:"):
            w.line(f"{result} = {value(w, node.right)}")
        return result
    left, right = atom(w, node.left), atom(w, node.right)
    if sign in _COMPARE:
        return f"({left} {sign} {right})"
    if sign in ("&", "|", "^"):
        return w.temporary(f"{left} {sign} {right}")
    if sign in ("<<", ">>"):
        bits = 32 if node.type == "int" else 64
        if w.arithmetic:
            w.line(f"if not 0 <= {right} < {bits}: shifted({w.place(node.at, str(bits))}, v0, {right})")
        return wrapped(w, node.type, f"{left} {sign} ({right} & {bits - 1})", node.at, "what is shifted")
    if sign not in ("/", "%"):
        return wrapped(w, node.type, f"{left} {sign} {right}", node.at, _RESULT[sign])
    if node.type in WHOLE:
        return _divided(w, node, left, right)
    return wrapped(w, node.type, f"{left} / {right} if {right} else by_zero({left}, {right})", node.at, "")


def _divided(w: Writer, node: Binary, left: str, right: str) -> str:
    """Whole numbers: towards zero, and 0 by zero."""
    result, name = w.temporary(), "quotient" if node.operator == "/" else "remainder"
    plain = f"{result} = {left} {'//' if node.operator == '/' else '%'} {right}"
    if right.isdigit() and int(right):
        w.line(f"if {left} >= 0: {plain}")
        w.line(f"else: {result} = {name}({left}, {right})")
        return result
    w.line(f"if {left} >= 0 and {right} > 0: {plain}")
    if w.arithmetic and node.operator == "/":
        w.line(f"elif {right}: {result} = quotient({left}, {right})")
        w.line(f"if {right} and not {_RANGE[node.type].format(result)}: {result} = {_wrap(w, node.type, result, node.at, 'the quotient')}")
        w.line(f"if not {right}: {result} = divided({w.place(node.at)}, v0)")
        return result
    w.line(f"elif {right}: {result} = wrap_{node.type}({name}({left}, {right}))")
    w.line(f"else: {result} = divided({w.place(node.at)}, v0)")
    return result


def _choice(w: Writer, node: Choice) -> str:
    """Choices in a row stay side by side (`...` is: not chosen yet), since Python's lines cannot be within each other without end."""
    if not isinstance(node.no, Choice):
        condition = value(w, node.condition)
        result = w.temporary()
        with w.under(f"if {condition}:"):
            w.line(f"{result} = {value(w, node.yes)}")
        with w.under("else:"):
            w.line(f"{result} = {value(w, node.no)}")
        return result
    result, rest = w.temporary("..."), node
    while True:
        with w.under(f"if {result} is ...:"):
            condition = value(w, rest.condition)
            with w.under(f"if {condition}:"):
                w.line(f"{result} = {value(w, rest.yes)}")
        if not isinstance(rest.no, Choice):
            break
        rest = rest.no
    with w.under(f"if {result} is ...:"):
        w.line(f"{result} = {value(w, rest.no)}")
    return result


def _cast(w: Writer, node: Cast, inner: str) -> str:
    source, target = node.value.type, node.type
    if target == "bool":
        return f"({inner} != 0)"
    if target in WHOLE:
        if source == "bool":
            return w.temporary(f"+{inner}")
        if source in WHOLE:
            return wrapped(w, target, inner, node.at, "a long that becomes an int") if target == "int" and source == "long" else inner
        near = 2147483647.0 if target == "int" else 9007199254740992.0
        if w.arithmetic:
            low, high = ("-2147483649.0", "2147483648.0") if target == "int" else ("-9223372036854777856.0", "9223372036854775808.0")
            result = w.temporary(f"to_{target}({inner})")
            w.line(f"if not {low} < {inner} < {high}: {result} = cut({w.place(node.at, target)}, v0, {inner}, {result})")
            return result
        return w.temporary(f"int({inner}) if -{near} < {inner} < {near} else to_{target}({inner})")
    if target == "float" and source == "long":
        return w.temporary(f"to_float({inner})")
    if source in WHOLE:
        return rounded(w, f"{inner} + 0.0") if target == "float" and source == "int" else w.temporary(f"{inner} + 0.0")
    return rounded(w, inner) if target == "float" else inner


def _call(w: Writer, node: Call) -> str:
    arguments = [atom(w, one) for one in node.arguments]
    if node.name == "fma" and node.type == "float":
        return _fma(w, *arguments)
    if node.name == "abs":
        return wrapped(w, node.type, f"abs({arguments[0]})", node.at, "the absolute value")
    term = f"f_{node.name}({', '.join(arguments)})"
    return rounded(w, term) if node.type == "float" and node.name not in EXACT else w.temporary(term)


def _fma(w: Writer, one: str, other: str, more: str) -> str:
    """arithmetic.py says why: the product is exact in 64 bits, the sum's error is found as Knuth does (TAOCP 4.2.2, theorem B)."""
    product = w.temporary(f"{one} * {other}")
    total = w.temporary(f"{product} + {more}")
    second = w.temporary(f"{total} - {product}")
    error = w.temporary(f"({product} - ({total} - {second})) + ({more} - {second})")
    w.line(f"if {error}: {total} = odd({total}, {error})")
    return rounded(w, total)
