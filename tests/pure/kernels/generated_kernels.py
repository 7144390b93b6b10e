"""Random small kernels, as text: expressions, conditions, loops, local arrays, functions with returns in the middle, pointers that are NULL
or move among addresses of variables and elements. Values of the caller are changed like variables, by the kernel itself or by a function
that it calls, and parameters have all kinds of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from laminar.kernels.language.tree import Parameter

TYPES = ("int", "long", "float", "double")
SIZE = 9  # of inputs that any instance may look at
VALUES = (0.75, 6)  # what `s` and `m` are called with
VALUE_TYPES = {"s": "float", "m": "int"}
ARRAYS = ("xi", "xf", "ti", "tf", *(f"y_{type_}" for type_ in TYPES))
PARAMETERS = ("i", "n", *VALUE_TYPES, *ARRAYS)
# Words of Python, of circuits and of what is compiled; a name of one parameter for another one, too.
NAMES = ("guard", "test", "s_2_in", "s_2_out", "lambda", "self", "np", "None", "count", "instance", "first", "main", "entry", *PARAMETERS)
INNER_NAMES = ("v1", "v2", "mine", "work_1")  # for a kernel that calls a function which has these


@dataclass
class Writer:
    """Draws a kernel. Values: s, m, which it may change. Arrays: xi, xf of one element per instance, ti, tf of SIZE elements for all,
    outputs y_ of each type. `digits`: quotients and rests of the instance are by SIZE only; `wild`: indices may be anything."""

    draw: st.DrawFn
    digits: bool = False
    wild: bool = False
    names: list[tuple[str, str]] = field(default_factory=lambda: list(VALUE_TYPES.items()))
    counters: set[str] = field(default_factory=set)
    made: int = 0
    loops: int = 0
    pointers: list[tuple[str, str]] = field(default_factory=list)  # to float; what they point at: a variable, or `mine`

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def name(self, type_: str) -> str:
        self.made += 1
        name = f"v{self.made}"
        self.names.append((name, type_))
        return name

    def expression(self, type_: str, depth: int = 2) -> str:
        if depth == 0:
            return self.leaf(type_)
        kind = self.pick("leaf", "binary", "binary", "binary", "choice", "cast", "unary", "call")
        if kind == "binary":
            signs = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>") if type_ in ("int", "long") else ("+", "-", "*", "/")
            return f"({self.expression(type_, depth - 1)} {self.pick(*signs)} {self.expression(type_, depth - 1)})"
        if kind == "choice":
            return f"({self.condition(depth - 1)} ? {self.expression(type_, depth - 1)} : {self.expression(type_, depth - 1)})"
        if kind == "cast":
            return f"(({type_}){self.expression(self.pick(*TYPES), depth - 1)})"
        if kind == "unary":
            sign = self.pick("-", "~") if type_ in ("int", "long") else "-"
            return f"({sign} {self.expression(type_, depth - 1)})"
        if kind == "call":
            return self.call(type_, depth)
        return self.leaf(type_)

    def call(self, type_: str, depth: int) -> str:
        inner = self.expression(type_, depth - 1)
        if type_ in ("int", "long"):
            return f"{'abs' if type_ == 'int' else 'labs'}({inner})"
        letter = "f" if type_ == "float" else ""
        name = self.pick("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "round", "fmin", "fmax", "copysign", "fma")
        more = {"fmin": 1, "fmax": 1, "copysign": 1, "fma": 2}.get(name, 0)
        return f"{name}{letter}({', '.join([inner, *(self.expression(type_, 0) for _ in range(more))])})"

    def leaf(self, type_: str) -> str:
        known = [name for name, has in self.names if has == type_]
        if type_ in ("int", "long"):
            whole = [f"(i / {SIZE})", f"(i % {SIZE})"] if self.digits else []
            options = [str(self.draw(st.integers(-3, 9))), "i", "n", "m", *whole, "xi[i]", "ti[" + self.index() + "]", *known, *known]
        else:
            options = [
                repr(self.draw(st.sampled_from([0.0, 0.5, -1.25, 3.0, 1e9]))),
                "s",
                "xf[i]",
                "tf[" + self.index() + "]",
                *known,
                *known,
                *(f"({name} != NULL ? *{name} : 0.5f)" for name, _ in self.pointers),
            ]
        return self.pick(*options)

    def index(self) -> str:
        """Of the arrays that have SIZE elements: sometimes the same for all, sometimes not."""
        whole = [name for name, has in self.names if has == "int"][-2:]
        options = ["0", "3", f"i % {SIZE}", *(f"({name} & 3)" for name in whole)]
        options += [f"(i / {SIZE}) % {SIZE}"] if self.digits else [f"(i / 3) % {SIZE}"]
        if self.wild:
            options += ["i", "i / 2", "xi[i]", "i + 1", "i - 1", *whole, *(f"({one} < 0 ? 0 : {one} > 8 ? 8 : {one})" for one in whole)]
        return self.pick(*options)

    def condition(self, depth: int = 1) -> str:
        type_ = self.pick("int", "float")
        plain = f"{self.expression(type_, 0)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.expression(type_, 0)}"
        if depth and self.draw(st.booleans()):
            return f"({plain} {self.pick('&&', '||')} {self.condition(depth - 1)})"
        return f"({plain})"

    def statements(self, depth: int, pad: str) -> list[str]:
        lines: list[str] = []
        known, pointers = len(self.names), len(self.pointers)
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, pad)
        del self.names[known:], self.pointers[pointers:]
        return lines

    def statement(self, depth: int, pad: str) -> list[str]:
        kinds = ["declare", "declare", "assign", "assign", "element"]
        kinds += ["if", "if", "for", "while", "do"] if depth else []
        kinds += ["jump"] if self.loops else []
        kinds += ["pointer", *(["point", "point", "through", "through"] if self.pointers else [])]
        kind = self.pick(*kinds)
        targets = [one for one in self.names if one[0] not in self.counters]
        if kind == "assign" and targets:
            name, type_ = self.draw(st.sampled_from(targets))
            return [f"{pad}{name} {self.pick('=', '+=', '-=')} {self.expression(type_)};"]
        if kind == "element":
            index = self.pick("0", "2", f"i % {SIZE}", "(xi[i] & 3)")
            return [f"{pad}mine[{index}] {self.pick('=', '+=')} {self.expression('float')};"]
        if kind in ("pointer", "point", "through"):
            return [pad + self.pointer(kind)]
        if kind == "if":
            lines = [f"{pad}if {self.condition()} {{", *self.statements(depth - 1, pad + "  "), f"{pad}}}"]
            if self.draw(st.booleans()):
                lines[-1] += " else {"
                lines += [*self.statements(depth - 1, pad + "  "), f"{pad}}}"]
            return lines
        if kind in ("for", "while", "do"):
            return self.loop(kind, depth, pad)
        if kind == "jump":
            return [f"{pad}if {self.condition()} {self.pick('break', 'continue', 'return')};"]
        type_ = self.pick(*TYPES)
        value = self.expression(type_)
        return [f"{pad}{type_} {self.name(type_)} = {value};"]

    def pointer(self, kind: str) -> str:
        """One is declared, moved, or written through."""
        if kind == "pointer":
            home = self.pick("mine", "mine", *(name for name, type_ in self.names if type_ == "float"))
            self.made += 1
            line = f"float *p{self.made} = {self.target(home)};"
            self.pointers.append((f"p{self.made}", home))
            return line
        name, home = self.draw(st.sampled_from(self.pointers))
        if kind == "point":
            return f"{self.pick('', f'if {self.condition()} ', f'if (!{name}) ')}{name} = {self.target(home)};"
        return f"if ({name} != NULL) *{name} {self.pick('=', '+=', '-=')} {self.expression('float')};"

    def target(self, home: str) -> str:
        def address() -> str:
            return f"&mine[{self.pick('0', '2', f'i % {SIZE}', '(xi[i] & 3)')}]" if home == "mine" else f"&{home}"

        others = [name for name, of in self.pointers if of == home]
        return self.pick("NULL", address(), address(), f"{self.condition()} ? {address()} : NULL", *others)

    def loop(self, kind: str, depth: int, pad: str) -> list[str]:
        bound = self.pick("3", "n % 5", "(xi[i] & 3)", "(ti[1] & 3)", "(m & 3)")
        known = len(self.names)
        counter = self.name("int")
        self.counters.add(counter)
        self.loops += 1
        body = self.statements(depth - 1, pad + "  ")
        self.loops -= 1
        del self.names[known:]
        if kind == "for":
            return [f"{pad}for (int {counter} = 0; {counter} < {bound}; {counter}++) {{", *body, f"{pad}}}"]
        step = f"{pad}  {counter} = {counter} + 1;"
        head = f"while ({counter} < {bound}) {{" if kind == "while" else "do {"
        tail = "}" if kind == "while" else f"}} while ({counter} < {bound});"
        return [f"{pad}int {counter} = 0;", f"{pad}{head}", step, *body, f"{pad}{tail}"]


@st.composite
def kernels(draw: st.DrawFn, *, digits: bool = False, wild: bool = False) -> str:
    writer = Writer(draw, digits, wild)
    values = ", ".join(f"{type_} {name}" for name, type_ in VALUE_TYPES.items())
    arrays = "const int xi[n], const float xf[n], const int ti[9], const float tf[9]"
    outputs = "int y_int[n], long y_long[n], float y_float[n], double y_double[n]"
    parameters = f"int i, int n, {values}, {arrays}, {outputs}"
    lines = ["  float mine[9] = {1.0f, 2.0f};"]
    for type_ in TYPES:
        value = writer.expression(type_, 1)
        lines.append(f"  {type_} {writer.name(type_)} = {value};")
    for _ in range(draw(st.integers(1, 4))):
        lines += writer.statement(2, "  ")
    for type_ in TYPES:
        lines.append(f"  y_{type_}[i] = {writer.expression(type_)}{' + mine[i % 9]' if type_ == 'float' else ''};")
    lines.append("}")
    if draw(st.booleans()):
        return renamed("\n".join([f"void kernel({parameters}) {{", *lines]), draw(names(NAMES)))
    called = f"void kernel({parameters}) {{ work({', '.join(PARAMETERS)}); }}"
    return "\n".join([f"void work({parameters}) {{", *lines, renamed(called, draw(names(NAMES + INNER_NAMES)))])


def names(of: Sequence[str]) -> st.SearchStrategy[list[str]]:
    """For all parameters."""
    several = st.lists(st.sampled_from(of), min_size=len(PARAMETERS), max_size=len(PARAMETERS), unique=True)
    return st.one_of(st.just(list(PARAMETERS)), several)


def renamed(text: str, new: Sequence[str]) -> str:
    to = dict(zip(PARAMETERS, new, strict=True))
    return re.sub(r"\b[a-z_]\w*\b", lambda found: to.get(found[0], found[0]), text)


def named(parameters: Iterable[Parameter], values: Iterable[Any]) -> dict[str, Any]:
    """What parameters are called with, by the names that they have in this kernel."""
    return dict(zip((one.name for one in parameters), values, strict=True))
