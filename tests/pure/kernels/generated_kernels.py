"""Random small kernels, as text: expressions, conditions, loops, local arrays, functions with returns in the middle."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

TYPES = ("int", "long", "float", "double")
SIZE = 9  # of inputs that any instance may look at


@dataclass
class Writer:
    """Draws a kernel. Arrays: xi, xf of one element per instance, ti, tf of SIZE elements for all, outputs y_ of each type. `digits`:
    quotients and rests of the instance are by SIZE only; `wild`: indices may be anything."""

    draw: st.DrawFn
    digits: bool = False
    wild: bool = False
    names: list[tuple[str, str]] = field(default_factory=list)
    counters: set[str] = field(default_factory=set)
    made: int = 0
    loops: int = 0

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
            options = [str(self.draw(st.integers(-3, 9))), "i", "n", *whole, "xi[i]", "ti[" + self.index() + "]", *known, *known]
        else:
            options = [
                repr(self.draw(st.sampled_from([0.0, 0.5, -1.25, 3.0, 1e9]))),
                "s",
                "xf[i]",
                "tf[" + self.index() + "]",
                *known,
                *known,
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
        known = len(self.names)
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, pad)
        del self.names[known:]
        return lines

    def statement(self, depth: int, pad: str) -> list[str]:
        kinds = ["declare", "declare", "assign", "assign", "element"]
        kinds += ["if", "if", "for", "while", "do"] if depth else []
        kinds += ["jump"] if self.loops else []
        kind = self.pick(*kinds)
        targets = [one for one in self.names if one[0] not in self.counters]
        if kind == "assign" and targets:
            name, type_ = self.draw(st.sampled_from(targets))
            return [f"{pad}{name} {self.pick('=', '+=', '-=')} {self.expression(type_)};"]
        if kind == "element":
            index = self.pick("0", "2", f"i % {SIZE}", "(xi[i] & 3)")
            return [f"{pad}mine[{index}] {self.pick('=', '+=')} {self.expression('float')};"]
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

    def loop(self, kind: str, depth: int, pad: str) -> list[str]:
        bound = self.pick("3", "n % 5", "(xi[i] & 3)", "(ti[1] & 3)")
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
    arrays = "const int xi[n], const float xf[n], const int ti[9], const float tf[9]"
    outputs = "int y_int[n], long y_long[n], float y_float[n], double y_double[n]"
    lines = [f"void work(int i, int n, float s, {arrays}, {outputs}) {{", "  float mine[9] = {1.0f, 2.0f};"]
    for type_ in TYPES:
        value = writer.expression(type_, 1)
        lines.append(f"  {type_} {writer.name(type_)} = {value};")
    for _ in range(draw(st.integers(1, 4))):
        lines += writer.statement(2, "  ")
    for type_ in TYPES:
        lines.append(f"  y_{type_}[i] = {writer.expression(type_)}{' + mine[i % 9]' if type_ == 'float' else ''};")
    lines.append("}")
    call = "work(i, n, s, xi, xf, ti, tf, y_int, y_long, y_float, y_double);"
    lines.append(f"void kernel(int i, int n, float s, {arrays}, {outputs}) {{ {call} }}")
    return "\n".join(lines)
