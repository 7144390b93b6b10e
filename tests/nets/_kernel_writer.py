"""Random kernels whose accesses, loops and conditions are close to the edges of what can be proved: `KernelWriter(Random(seed)).kernel()`.

Nested loops with breaks and continues, conditions that narrow what a variable may be, casts, numbers that wrap around, negative steps,
rests, two parameters that may be one array, arrays of two dimensions, local and shared arrays, barriers, atomics, functions with returns
in their midst, and pointers that move among the elements of an array or may be NULL. The text is kept as a tree of lines, so that parts of
it can be left out: `smaller`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, TypeAlias

HEAD: Final = "void kernel({instance} i, {instance} count, int n, int m, int k, long l, float s, {arrays})"
INPUTS: Final = "const int x[n], const int w[n], const float f[n]"  # x and w may be one array
OUTPUTS: Final = "int y[n], int z[m][n], long q[n * m], float g[n], out int o[n], out float p[m][n]"
EDGES: Final = (0, 1, -1, 2, 3, 4, 7, 8, 2**31 - 1, 2**31 - 2, 2**31 - 7, -(2**31), -(2**31) + 1, -(2**31) + 6, 2**30, -(2**30), 65536)
LONG_EDGES: Final = (2**31, 2**31 + 3, -(2**31) - 1, 2**32, 2**32 + 1, 2**32 - 1, 2**63 - 1, 2**63 - 5, -(2**63), -(2**63) + 1)
NEAR_LIMITS: Final = ("2147483640", "2147483646", "-2147483640", "(-2147483647 - 1)", "2147483647", "65536", "1000000007", "4294967297L")


@dataclass(frozen=True)
class Node:
    """`if (k > 3) {`, what is within, and `}`; a plain line has nothing within."""

    head: str
    body: tuple[Node, ...] = ()
    tail: str = ""

    def lines(self, pad: str = "") -> Iterator[str]:
        yield pad + self.head
        if self.tail:
            for one in self.body:
                yield from one.lines(pad + "    ")
            yield pad + self.tail


Nodes: TypeAlias = tuple[Node, ...]


def text_of(nodes: Sequence[Node]) -> str:
    return "\n".join(line for one in nodes for line in one.lines()) + "\n"


def smaller(nodes: Nodes) -> Iterator[Nodes]:
    """The same without one node, or with what is within a node in its place; the largest cuts first."""
    for place, one in enumerate(nodes):
        rest = nodes[:place], nodes[place + 1 :]
        yield (*rest[0], *rest[1])
        if one.tail and one.head != "{":
            yield (*rest[0], *one.body, *rest[1])
        for body in smaller(one.body):
            yield (*rest[0], replace(one, body=body), *rest[1])


@dataclass
class KernelWriter:
    """`waits`: barriers may stand where all instances come by. `shared`: there is a shared array."""

    random: Random
    waits: bool = False
    names: list[tuple[str, str]] = field(default_factory=list)  # whole numbers that are known, and their types
    fixed: set[str] = field(default_factory=set)  # not to be changed: counters, parameters in sizes
    arrays: list[tuple[str, str, int]] = field(default_factory=list)  # name, type, dimensions
    written: list[str] = field(default_factory=list)  # those that may be written
    focus: str = "k"  # the name that conditions and indices have most often
    uniform: bool = True  # do all instances come here?
    loops: int = 0
    made: int = 0
    functions: list[Node] = field(default_factory=list)
    pointers: list[tuple[str, str]] = field(default_factory=list)  # name, and the array or variable that they point at or into
    points: bool = False  # may there be pointers?

    def kernel(self) -> Nodes:
        pick = self.random.random
        instance = "long" if pick() < 0.15 else "int"
        self.names = [("i", instance), ("count", instance), ("n", "int"), ("m", "int"), ("k", "int"), ("l", "long")]
        self.fixed = {"i", "count", "n", "m"}
        self.arrays = [("x", "int", 1), ("w", "int", 1), ("y", "int", 1), ("z", "int", 2), ("q", "long", 1)]
        self.written = ["y", "z", "q", "o"]
        self.focus = self.random.choice(["i", "k", "k", "l", "n"])
        self.points = pick() < 0.3
        made = [Node("#pragma laminar contract off")] if pick() < 0.1 else []
        if pick() < 0.5:
            made.append(Node(f"#pragma laminar instances {self.random.choice(['n', 'n * m', 'm * n', 'n - 1'])}"))
        head = HEAD.format(instance=instance, arrays=f"{INPUTS}, {OUTPUTS}")
        body: list[Node] = []
        if self.waits or pick() < 0.1:
            body.append(Node("shared int t[8];"))
            self.arrays.append(("t", "int", 1))
            self.written.append("t")
        if pick() < 0.4:
            body.append(Node(self.random.choice(["int v[4];", "int v[4] = {1, 2};", "int v[4] = {0};"])))
            self.arrays.append(("v", "int", 1))
            self.written.append("v")
        body += self.block(3, self.random.randint(2, 5))
        if pick() < 0.5:
            body.append(Node(self.random.choice(["o[i] = y[i];", "o[i] = k;", "p[i / n][i % n] = s;", "g[i] += f[i] * s;"])))
        return (*made, *self.functions, Node(head + " {", tuple(body), "}"))

    # numbers

    def atom(self) -> str:
        if self.pointers and self.random.random() < 0.15:
            name, _ = self.random.choice(self.pointers)
            return f"({name} != NULL ? *{name} : {self.random.randint(0, 8)})"
        pick = self.random.random()
        if pick < 0.3:
            return self.focus
        if pick < 0.75:
            return self.random.choice(self.names)[0]
        if pick < 0.95:
            return str(self.random.randint(0, 8))
        return self.random.choice(NEAR_LIMITS)

    def number(self, depth: int = 2) -> str:
        pick, inner = self.random.random(), depth - 1
        if depth == 0 or pick < 0.3:
            return self.atom()
        if pick < 0.55:
            return f"({self.number(inner)} {self.random.choice('+-')} {self.number(inner)})"
        if pick < 0.65:
            return f"({self.number(inner)} * {self.random.choice(['2', '3', 'n', 'm', self.atom()])})"
        if pick < 0.78:
            return f"({self.number(inner)} {self.random.choice('/%')} {self.random.choice(['2', '3', '8', 'n', 'm', self.atom()])})"
        if pick < 0.82:
            right = self.random.choice(["1", "3", "7", self.atom()])
            return f"({self.number(inner)} {self.random.choice(['&', '|', '^', '<<', '>>'])} {right})"
        if pick < 0.88:
            cast = self.random.choice(["(int)", "(long)", "(bool)", "(int)(float)", "(int)(long)"])
            return f"({cast}{self.number(inner)})"
        if pick < 0.92:
            return f"({self.condition(1)} ? {self.number(inner)} : {self.number(inner)})"
        if pick < 0.97:
            return self.element(inner)
        return self.random.choice(["abs({0})", "(-{0})", "(~{0})", "(int)(f[{1}] * {0})", "(int)s", "(long)(s * 1e9f)"]).format(
            self.atom(), self.inside("n")
        )

    def inside(self, size: str) -> str:
        """An index that mostly is within an array of that size."""
        ways = [
            "i",
            "i % {0}",
            "i % {0}",
            "({1}) % {0}",
            "0",
            "{0} - 1",
            "i - 1",
            "i + 1",
            "{0} - 1 - i",
            "({1} & 3)",
            "{1}",
            "i / 2",
            "2 * i",
        ]
        return self.random.choice(ways).format(size, self.number(1))

    def index(self, size: str, depth: int = 1) -> str:
        return self.inside(size) if self.random.random() < 0.45 else self.number(depth)

    def element(self, depth: int = 1) -> str:
        name, _, dimensions = self.random.choice(self.arrays)
        return self.place(name, dimensions, depth)

    def place(self, name: str, dimensions: int, depth: int = 1) -> str:
        if dimensions == 2:
            if self.random.random() < 0.3:
                return f"{name}[i / n][i % n]"
            return f"{name}[{self.index('m', depth)}][{self.index('n', depth)}]"
        return f"{name}[{self.index({'t': '8', 'v': '4', 'q': 'n * m'}.get(name, 'n'), depth)}]"

    def condition(self, depth: int = 2) -> str:
        pick = self.random.random()
        if depth and pick < 0.25:
            return f"{self.condition(depth - 1)} {self.random.choice(['&&', '&&', '||'])} {self.condition(depth - 1)}"
        if depth and pick < 0.32:
            return f"!({self.condition(depth - 1)})"
        if pick < 0.55:
            name = self.focus if self.random.random() < 0.5 else self.random.choice(self.names)[0]
            low, high = self.random.choice(["0", "1", "-1"]), self.random.choice(["n", "n", "m", "4", "8", "n - 1"])
            return f"({low} <= {name} && {name} < {high})" if self.random.random() < 0.6 else f"{name} < {high}"
        if pick < 0.62:
            return f"f[{self.inside('n')}] {self.random.choice('<>')} {self.random.choice(['s', '0', '1.5f'])}"
        signs = ["<", "<=", ">", ">=", "==", "!="]
        return f"{self.number(1)} {self.random.choice(signs)} {self.number(1)}"

    # the same for all instances: barriers may stand under these

    def common(self) -> str:
        return f"{self.random.choice(['k', 'n', 'm', 'k', 'l'])} {self.random.choice(['<', '>', '==', '!='])} {self.random.randint(0, 5)}"

    # statements

    def block(self, depth: int, size: int | None = None) -> list[Node]:
        known, focus, pointers = len(self.names), self.focus, len(self.pointers)
        arrays, written = list(self.arrays), list(self.written)
        made = [node for _ in range(size or self.random.randint(1, 3)) for node in self.statement(depth)]
        del self.names[known:], self.pointers[pointers:]
        self.focus, self.arrays, self.written = focus, arrays, written
        return made or [Node("y[i] = 1;")]

    def statement(self, depth: int) -> list[Node]:
        if self.points and self.random.random() < 0.2:
            return [self.pointer()]
        pick = self.random.random()
        if self.waits and self.uniform and pick < 0.25:
            return [Node("barrier();")]
        if depth == 0 or pick < 0.45:
            return [self.store()]
        if pick < 0.53:
            return [self.declare()]
        if pick < 0.58:
            free = [name for name, _ in self.names if name not in self.fixed]
            return [Node(f"{self.random.choice(free)} {self.random.choice(['=', '+=', '-='])} {self.number()};")] if free else []
        if pick < 0.63 and self.loops:
            return [Node(f"if ({self.guard()}) {self.random.choice(['break', 'break', 'continue', 'return'])};")]
        if pick < 0.66:
            return [self.call()]
        if pick < 0.78:
            return self.branch(depth)
        return self.loop(depth)

    def guard(self) -> str:
        return self.common() if self.waits and self.uniform else self.condition()

    def store(self) -> Node:
        name = self.random.choice(self.written)
        dimensions = 2 if name == "z" else 1
        target, pick = self.place(name, dimensions), self.random.random()
        if pick < 0.08 and name not in ("v", "o"):
            return Node(f"atomic_{self.random.choice(['add', 'min', 'max'])}(&{target}, {self.number(1)});")
        if pick < 0.18:
            return Node(
                f"g[{self.index('n')}] {self.random.choice(['=', '+='])} {self.random.choice(['f[i] * s + 1', 's', 'f[i] / 3', 'i'])};"
            )
        if pick < 0.24:
            return Node(f"p[{self.index('m')}][{self.index('n')}] = f[{self.inside('n')}] - s;")
        if pick < 0.4 and name != "o":
            return Node(f"{target} {self.random.choice(['+=', '-=', '*='])} {self.number(1)};")
        return Node(f"{target} = {self.number(2)};")

    def declare(self) -> Node:
        self.made += 1
        type_, name, value = self.random.choice(["int", "int", "long"]), f"a{self.made}", self.number()
        self.names.append((name, type_))
        if self.random.random() < 0.3:
            self.focus = name
        return Node(f"{type_} {name} = {value};")

    def call(self) -> Node:
        """A function with a return in its midst; it may have one array by two names."""
        self.made += 1
        name = f"h{self.made}"
        kind, test = (
            self.random.choice(["value", "arrays", "pointer"]),
            self.random.choice(["a < 0", "a > b", "a == b", "b != 3", "a >= 8"]),
        )
        if kind == "value":
            lines = (
                Node(f"if ({test}) return b;"),
                Node("for (int j = 0; j < 3; j++) { if (a > j) return a - j; b += j; }"),
                Node("return b;"),
            )
            self.functions.append(Node(f"int {name}(int a, int b) {{", lines, "}"))
            return Node(f"y[{self.index('n')}] = {name}({self.number(1)}, {self.number(1)});")
        if kind == "arrays":
            lines = (Node(f"if ({test}) return;"), Node("one[a] = other[b] + 1;"))
            constant = self.random.random() < 0.5
            second = "const int other[n]" if constant else "int other[n]"
            self.functions.append(Node(f"void {name}(int n, int a, int b, int one[n], {second}) {{", lines, "}"))
            return Node(f"{name}(n, {self.index('n')}, {self.index('n')}, y, {'x' if constant else 'o'});")
        lines = (Node(f"if ({test}) {{ *r = b; return; }}"), Node("*r = a - b;"))
        self.functions.append(Node(f"void {name}(int a, int b, int *r) {{", lines, "}"))
        target, given = f"r{self.made}", f"{self.number(1)}, {self.number(1)}"
        self.names.append((target, "int"))
        return Node(f"int {target}; {name}({given}, &{target});")

    def pointer(self) -> Node:
        """One is declared, moved or written through, or addresses of elements are given away."""
        pick = self.random.random()
        if pick < 0.12:
            self.made += 1
            name, array = f"e{self.made}", self.random.choice([one for one in self.written if one not in ("q", "o")])
            body = (Node("int one = *a;"), Node("if (one > *b) return;"), Node("*a = *b + 1;"), Node("*b = one;"))
            self.functions.append(Node(f"void {name}(int *a, int *b) {{", body, "}"))
            return Node(f"{name}({self.address(array)}, {self.address(array)});")
        if not self.pointers or pick < 0.3:
            free = [name for name, type_ in self.names if type_ == "int" and name not in self.fixed]
            home = self.random.choice([*(one for one in self.written if one not in ("q", "o")), *free])
            self.made += 1
            node = Node(f"int *p{self.made} = {self.target(home)};")
            self.pointers.append((f"p{self.made}", home))
            return node
        name, home = self.random.choice(self.pointers)
        if pick < 0.65:
            test = self.random.choice(["", f"if ({self.condition()}) ", f"if ({name} == NULL) "])
            return Node(f"{test}{name} = {self.target(home)};")
        sign = self.random.choice(["=", "+=", "-="])
        change = f"*{name} {sign} {self.number(1)};"
        if pick < 0.72 and home in ("y", "z", "t"):
            change = f"atomic_{self.random.choice(['add', 'max'])}({name}, {self.number(1)});"
        return Node(f"if ({name} != NULL{self.random.choice(['', '', f' && *{name} > {self.atom()}'])}) {change}")

    def address(self, home: str) -> str:
        """Of the variable, or of some element. Indices of one array have one type."""
        if home not in ("y", "z", "t", "v"):
            return f"&{home}"
        if home == "z":
            return f"&z[(int)({self.index('m')})][(int)({self.index('n')})]"
        return f"&{home}[(int)({self.index({'t': '8', 'v': '4'}.get(home, 'n'))})]"

    def target(self, home: str) -> str:
        others = [name for name, of in self.pointers if of == home]
        pick = self.random.random()
        if pick < 0.15:
            return "NULL"
        if others and pick < 0.35:
            return self.random.choice(others)
        if pick < 0.5:
            return f"({self.condition(1)}) ? {self.address(home)} : {self.random.choice(['NULL', self.address(home)])}"
        return self.address(home)

    def branch(self, depth: int) -> list[Node]:
        uniform, self.uniform = self.uniform, self.uniform and self.waits and self.random.random() < 0.4
        test = self.common() if self.uniform else self.condition()
        made = [Node(f"if ({test}) {{", tuple(self.block(depth - 1)), "}")]
        if self.random.random() < 0.35:
            made.append(Node("else {", tuple(self.block(depth - 1)), "}"))
        self.uniform = uniform
        return made

    def loop(self, depth: int) -> list[Node]:
        self.made += 1
        name = f"j{self.made}"
        uniform, focus = self.uniform, self.focus
        self.uniform = self.uniform and self.waits and self.random.random() < 0.6
        head, before, step = self.counter(name)
        known = len(self.names)
        self.names.append((name, "int"))
        kept = name in self.fixed
        self.fixed.add(name) if self.random.random() < 0.85 else None
        if self.random.random() < 0.5:
            self.focus = name
        self.loops += 1
        body = self.block(depth - 1)
        self.loops -= 1
        del self.names[known:]
        if not kept:
            self.fixed.discard(name)
        self.uniform, self.focus = uniform, focus
        inner = (*([Node(f"if ({self.guard()}) break;")] if self.random.random() < 0.15 else []), *([Node(step)] if step else []), *body)
        if head == "do {":
            return [*before, Node(head, inner, f"}} while ({name} < {self.bound()});")]
        return [*before, Node(head, inner, "}")]

    def bound(self) -> str:
        if self.uniform:
            return self.random.choice(["n", "m", "3", "k", "n - 1", "2", "4"])
        return self.random.choice(["n", "n", "m", "3", "8", "k", "i", "l", "n - 1", "x[i]", self.atom(), self.atom()])

    def counter(self, name: str) -> tuple[str, list[Node], str]:
        """The loop's head, what stands before it, and what counts within it."""
        pick, bound = self.random.random(), self.bound()
        start = self.random.choice(["0", "0", "1", "k" if self.uniform else "i", "n - 1"] + ([] if self.uniform else [self.atom()]))
        type_ = self.random.choice(["int", "int", "int", "long"])
        if pick < 0.06:
            low, high = self.random.choice(
                [("2147483640", "l"), ("2147483645", "2147483647"), ("-2147483640", "-2147483644"), ("2147483646", "k")]
            )
            sign, step = ("<", f"{name}++") if not low.startswith("-") else (">", f"{name}--")
            return f"for (int {name} = {low}; {name} {sign} {high}; {step}) {{", [], ""
        more = f" && {self.guard()}" if self.random.random() < 0.15 else ""
        if pick < 0.45:
            ways = [f"{name} < {bound}; {name}++"] * 3 + [
                f"{name} <= {bound}; {name} += 2",
                f"{bound} > {name}; {name} += 3",
                f"{name} < {bound}; ++{name}",
            ]
            test, step = self.random.choice(ways).split("; ")
            return f"for ({type_} {name} = {start}; {test}{more}; {step}) {{", [], ""
        if pick < 0.7:
            ways = [f"{name} >= {bound}; {name}--", f"{name} > 0; {name} -= 2", f"{name} >= 0; {name}--", f"{name} > {bound}; {name} -= 1"]
            test, step = self.random.choice(ways).split("; ")
            first = self.random.choice(["n", "n - 1", "k", "8"])
            return f"for ({type_} {name} = {first}; {test}{more}; {step}) {{", [], ""
        if pick < 0.78:
            test, step = self.random.choice(
                [f"{name} != {bound}; {name}++", f"{name} < n; {name} *= 2", f"{name} < {bound}; {name} += {self.atom()}"]
            ).split("; ")
            return f"for ({type_} {name} = {self.random.choice(['0', '1'])}; {test}{more}; {step}) {{", [], ""
        if pick < 0.9:
            return f"while ({name} < {bound}{more}) {{", [Node(f"{type_} {name} = {start};")], f"{name} += 1;"
        return "do {", [Node(f"{type_} {name} = {start};")], f"{name} += 1;"


@dataclass(frozen=True)
class Case:
    """A kernel, and calls of it: values, the number of instances and the seed of the arrays' elements."""

    nodes: Nodes
    calls: tuple[dict[str, Any], ...]
    mode: str = "lanes"  # how native code runs it

    @staticmethod
    def of(seed: int, *, waits: bool | None = None) -> Case:
        random = Random(seed)
        if waits is None and seed % 16 == 11:
            return _of_loops(random)
        waits = random.random() < 0.2 if waits is None else waits
        nodes = KernelWriter(random, waits).kernel()
        calls = tuple(_call(random, number) for number in range(5))
        drawn = random.choice(["lanes", "lanes", "lanes", "one by one", "threads"])
        return Case(nodes, calls, {7: "counted", 15: "circuit", 23: "counted"}.get(seed % 32, drawn))

    @property
    def text(self) -> str:
        return text_of(self.nodes)

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "calls": self.calls, "mode": self.mode}


def _of_loops(random: Random) -> Case:
    from tests.nets._loop_writer import LoopWriter

    calls = tuple({**_call(random, number), "count": 1} for number in range(5))
    return Case(LoopWriter(random).kernel(), calls, random.choice(["operator", "operator", "circuit", "one by one"]))


def _call(random: Random, number: int) -> dict[str, Any]:
    n = random.choice([1, 2, 3, 5, 8, 9, 17, 33])
    m = random.choice([1, 2, 3, 4])
    k = random.choice([*EDGES, n, n - 1, n + 1, -n, random.randint(-3, 12), random.randint(-3, 12), random.randint(-3, 12)])
    l_ = random.choice([*EDGES, *LONG_EDGES, n, n - 1, -n, random.randint(-3, 12), random.randint(-3, 12), random.randint(-3, 12)])
    s = random.choice([0.5, -1.25, 3.0, 1e9, -1e20, 2.5e-40, float(n)])
    count = random.choice([n, n, n * m, n * m, max(n - 1, 1), 1, n + 1, random.randint(1, 40)])
    if number == 0:
        k, l_, count = random.randint(0, n), random.randint(0, n), n
    return {"n": n, "m": m, "k": k, "l": l_, "s": s, "count": count, "seed": random.randint(0, 999)}
