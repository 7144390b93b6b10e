"""Random kernels of one instance that consist of loops that count: halves of an array, blocks, triangles, waves, rows and columns, with
stores that meet those of other rounds or not. `LoopWriter(Random(seed)).kernel()`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.nets._kernel_writer import HEAD, INPUTS, OUTPUTS, Node


@dataclass
class LoopWriter:
    random: Random
    counters: list[str] = field(default_factory=list)  # of the loops around
    scalars: list[tuple[str, str]] = field(default_factory=list)  # that have a value: name and type
    made: int = 0

    def kernel(self) -> tuple[Node, ...]:
        body = [Node("int half = n / 2;"), Node("int third = (n + 2) / 3;")]
        if self.random.random() < 0.4:
            body.append(Node("int v[40] = {1, 2, 3};"))
        self.local = len(body) == 3
        for _ in range(self.random.randint(1, 4)):
            body += self.part(3)
        if self.scalars:
            body.append(Node(f"y[0] = (int)({self.random.choice(self.scalars)[0]});"))
        head = HEAD.format(instance="int", arrays=f"{INPUTS}, {OUTPUTS}")
        return (Node("#pragma laminar instances 1"), Node(head + " {", tuple(body), "}"))

    def part(self, depth: int) -> list[Node]:
        pick = self.random.random()
        if pick < 0.2:
            return self.halves(depth)
        if pick < 0.35:
            return self.blocks(depth)
        if pick < 0.75 and depth:
            return [self.loop(depth)]
        if pick < 0.82 and depth:
            return [Node(f"if ({self.index()} {self.random.choice(['<', '>', '!='])} {self.index()}) {{", tuple(self.part(depth - 1)), "}")]
        if pick < 0.88:
            return [self.scalar()]
        return [self.store()]

    def halves(self, depth: int) -> list[Node]:
        """Two loops, of which one goes on where the other ends, or a little before."""
        middle = self.random.choice(["half", "half", "n / 2", "third", "half + 1", "k"])
        found = []
        for start, bound in (("0", middle), (self.random.choice([middle, middle, f"{middle} - 1"]), "n")):
            found.append(self.over(f"int {{0}} = {start}; {{0}} < {bound}; {{0}}++", depth))
        return found if self.random.random() < 0.7 else found[::-1]

    def blocks(self, depth: int) -> list[Node]:
        size, outer = self.random.choice(["2", "3", "4", "third"]), self.name("b")
        self.counters.append(outer)
        end = self.name("e")
        inner = [Node(f"int {end} = {outer} + {size} < n ? {outer} + {size} : n;")]
        for _ in range(self.random.randint(1, 2)):
            inner.append(self.over(f"int {{0}} = {outer}; {{0}} < {end}; {{0}}++", depth - 1))
        self.counters.pop()
        return [Node(f"for (int {outer} = 0; {outer} < n; {outer} += {size}) {{", tuple(inner), "}")]

    def loop(self, depth: int) -> Node:
        around = self.counters[-1] if self.counters else "1"
        heads = [
            "int {0} = 0; {0} < n; {0}++",
            "int {0} = 0; {0} < m; {0}++",
            "int {0} = 1; {0} < n; {0}++",
            "int {0} = 0; {0} < n; {0} += 2",
            "int {0} = 1; {0} <= n - 1; {0} += 3",
            "int {0} = n - 1; {0} >= 0; {0}--",
            "int {0} = n - 2; {0} > 0; {0} -= 2",
            f"int {{0}} = {around} + 1; {{0}} < n; {{0}}++",
            f"int {{0}} = 0; {{0}} < {around}; {{0}}++",
            f"int {{0}} = 0; {{0}} <= {around}; {{0}}++",
            "int {0} = k; {0} < n; {0}++",
            "int {0} = 0; {0} < k; {0}++",
            "long {0} = 0; {0} < l; {0} += 4",
        ]
        return self.over(self.random.choice(heads), depth)

    def over(self, head: str, depth: int) -> Node:
        counter = self.name("j")
        self.counters.append(counter)
        known = list(self.scalars)
        body: list[Node] = []
        for _ in range(self.random.randint(1, 3)):
            body += self.part(depth - 1) if depth > 1 and self.random.random() < 0.3 else [self.store()]
        if self.random.random() < 0.1:
            body.insert(0, Node(f"if ({self.index()} == 3) {self.random.choice(['break', 'continue'])};"))
        self.scalars = known
        self.counters.pop()
        return Node(f"for ({head.format(counter)}) {{", tuple(body), "}")

    def name(self, word: str) -> str:
        self.made += 1
        return f"{word}{self.made}"

    def scalar(self) -> Node:
        if self.scalars and self.random.random() < 0.3:
            return Node(f"{self.random.choice(self.scalars)[0]} += {self.value()};")
        name, value = self.name("s"), self.value()
        self.scalars.append((name, "int"))
        return Node(f"int {name} = {value};")

    def index(self) -> str:
        """Of a counter around, mostly; what may be beyond the array is brought back into it, mostly."""
        if not self.counters:
            return self.random.choice(["0", "n - 1", "half", "third", "k"])
        counter = self.random.choice(self.counters[-2:] + self.counters[-1:])
        return self.random.choice(
            [*[counter] * 6, f"{counter} - 1", f"{counter} + 1", f"n - 1 - {counter}", f"{counter} / 2", f"2 * {counter}", "half", "0", "k"]
        )

    def place(self, array: str) -> str:
        sizes = {"z": ("m", "n"), "p": ("m", "n"), "q": ("n * m",), "v": ("40",)}.get(array, ("n",))
        found = []
        for size in sizes:
            index = self.index()
            found.append(
                f"[{index}]"
                if self.random.random() < 0.35
                else f"[abs({index}) % {size}]"
                if "k" in index or "-" in index
                else f"[({index}) % {size}]"
            )
        return array + "".join(found)

    def value(self) -> str:
        parts = [self.place(self.random.choice(["x", "y", "y", "z", "q", "w", "o", *(["v"] if self.local else [])])), self.index(), "3"]
        parts += [name for name, _ in self.scalars]
        first, second = self.random.choice(parts), self.random.choice(parts)
        return f"(int)({first} {self.random.choice('+-*')} {second})"

    def store(self) -> Node:
        array = self.random.choice(["y", "y", "z", "z", "q", "o", "g", "p", *(["v"] if self.local else [])])
        if array in "gp":
            return Node(f"{self.place(array)} = f[abs({self.index()}) % n] * s + {self.place('g')};")
        if array != "o" and self.random.random() < 0.08:
            return Node(f"atomic_{self.random.choice(['add', 'min', 'max'])}(&{self.place(array)}, {self.value()});")
        return Node(f"{self.place(array)} {self.random.choice(['=', '=', '+=', '-='])} {self.value()};")
