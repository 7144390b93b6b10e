"""What is proved holds in runs, and what is shown happens: verdicts on generated kernels against the emulator."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

pytest.importorskip("pycparser")

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.granted import Granted
from laminar.kernels.analyse.verdicts import Verdict, verdicts
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import At, Kernel

KERNELS = 12  # of each seed


class Writer:
    """Kernels of few statements, with indices of all kinds."""

    def __init__(self, random: Random, *, waits: bool) -> None:
        self.random, self.waits, self.names, self.made = random, waits, ["i", "n", "m"], 0

    def kernel(self) -> str:
        body = "\n".join(self.statement(2) for _ in range(self.random.randint(1, 4)))
        arrays = "const int x[n], int y[n], int z[m][n]"
        pragma = self.random.choice(["", "#pragma laminar instances m * n\n", "#pragma laminar instances n\n"])
        return f"{pragma}void kernel(int i, int count, int n, int m, {arrays}) {{\nshared int t[8];\n{body}\n}}\n"

    def number(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.3:
            return self.random.choice([*self.names, "i", "i", str(self.random.randint(0, 4))])
        if pick < 0.6:
            return f"({self.number(depth - 1)} {self.random.choice('+-')} {self.number(depth - 1)})"
        if pick < 0.7:
            return f"({self.number(depth - 1)} * {self.random.choice(['2', '3', 'n', 'm'])})"
        if pick < 0.9:
            return f"({self.number(depth - 1)} {self.random.choice('/%')} {self.random.choice(['2', '3', 'n', 'm', 'i'])})"
        if pick < 0.93:
            return f"x[{self.number(0)} % n]"
        if pick < 0.95:
            return f"(int)((long){self.number(depth - 1)} * {self.random.choice(['3', '1000000007', 'n'])})"
        if pick < 0.96:
            return f"({self.number(depth - 1)} * {self.random.choice(['1431655766', '65536 * 65536', '2147483647'])})"
        return f"({self.condition()} ? {self.number(depth - 1)} : {self.number(depth - 1)})"

    def condition(self) -> str:
        one = f"{self.number(1)} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {self.number(1)}"
        pick = self.random.random()
        return one if pick < 0.7 else f"!({one})" if pick < 0.8 else f"{one} {self.random.choice(['&&', '||'])} {self.condition()}"

    def element(self) -> str:
        pick = self.random.random()
        if pick < 0.2:
            return f"z[{self.number(1)}][{self.number(1)}]"
        if pick < 0.3:
            return "z[i / n][i % n]"
        return f"{self.random.choice('yyt')}[{self.number(self.random.randint(0, 2))}]"

    def statement(self, depth: int) -> str:
        pick = self.random.random()
        if self.waits and pick < 0.15:
            return "barrier();"
        if depth == 0 or pick < 0.4:
            target = self.element()
            return self.random.choice([f"{target} = {self.number(1)};", f"{target} += {self.element()};", f"atomic_add(&{target}, 1);"])
        if pick < 0.5:
            self.made += 1
            self.names.append(f"v{self.made}")
            return f"int v{self.made} = {self.number_of(self.names[:-1])};"
        if pick < 0.55 and any(one.startswith("v") for one in self.names):
            return f"{self.random.choice([one for one in self.names if one.startswith('v')])} = {self.number(2)};"
        if pick < 0.8:
            then, other = self.block(depth), self.block(depth) if self.random.random() < 0.4 else ""
            return f"if ({self.condition()}) {{ {then} }}" + (f" else {{ {other} }}" if other else "")
        return self.loop(depth)

    def number_of(self, names: list[str]) -> str:
        kept, self.names = self.names, names
        made = self.number(2)
        self.names = kept
        return made

    def block(self, depth: int) -> str:
        kept = list(self.names)
        made = " ".join(self.statement(depth - 1) for _ in range(self.random.randint(1, 2)))
        self.names = kept
        return made

    def loop(self, depth: int) -> str:
        self.made += 1
        name, start, bound = f"k{self.made}", self.number(0), self.number(0)
        kept = list(self.names)
        self.names.append(name)
        body = self.block(depth)
        first = f"if ({self.condition()}) {self.random.choice(['break', 'continue'])}; " if self.random.random() < 0.2 else ""
        self.names = kept
        ways = [f"{name} = {start}; {name} < {bound}; {name}++", f"{name} = {start}; {name} <= {bound}; {name} += 2"]
        ways.append(f"{name} = {start}; {name} >= {bound}; {name}--")
        return f"for (int {self.random.choice(ways)}) {{ {first}{body} }}"


def runs(random: Random) -> list[tuple[int, int, int]]:
    """(n, m, count)"""
    every = []
    for n in (1, 2, 3, 5):
        m = random.randint(1, 4)
        every += [(n, m, n), (n, m, n * m), (n, n, random.randint(1, 9))]
    return every


def places(found: list[Verdict], kind: str, *, said: bool) -> set[frozenset[At | None]]:
    """Where all verdicts of a kind are proved, at least of runs that keep to what is said."""
    kept = [one for one in found if one.kind == kind]
    proved = {id(one) for one in kept if one.verdict == "proved" and (said or not one.said)}
    every = {frozenset((one.at, one.other or one.at)) for one in kept}
    return every - {frozenset((one.at, one.other or one.at)) for one in kept if id(one) not in proved}


def check(source: str, random: Random) -> tuple[int, int]:
    """How many were proved, and how many shown."""
    kernel = read_kernel(source)
    try:
        found = verdicts(kernel)
    except KernelError:
        return 0, 0
    granted = Granted.of(kernel, said=True)
    for n, m, count in runs(random):
        arrays = {"x": np.array([random.randint(-1, n) for _ in range(n)], "int32"), "y": np.zeros(n, "int32")}
        values = {"n": n, "m": m}
        arrays["z"] = np.zeros((m, n), "int32")
        try:
            report = emulate(kernel, arrays, values, count, seed=random.randint(0, 9), steps=10_000)
        except LaminarError as error:
            if error.code != "L704":  # numbers that wrap around make long loops
                raise
            continue
        said = granted.broken(values, count) is None
        for one in report.findings:
            kind = {"out-of-bounds": "bounds", "division-by-zero": "division", "divergent-barrier": "barrier"}.get(one.kind, one.kind)
            assert frozenset((one.at, one.other or one.at)) not in places(found, kind, said=said), (source, one, n, m, count)
    witnesses = [one for one in found if one.verdict == "witness" and one.kind == "race"]
    check_shown(source, kernel, witnesses)
    return sum(one.verdict == "proved" for one in found), len(witnesses)


def check_shown(source: str, kernel: Kernel, witnesses: list[Verdict]) -> None:
    """With the sizes that a witness names the emulator finds a race in that array."""
    for one in witnesses:
        size = int(one.why.split(" = ")[1].split()[0].strip(",")) if " = " in one.why else 2
        count = int(one.why.split()[1])
        arrays = {"x": np.zeros(size, "int32"), "y": np.zeros(size, "int32"), "z": np.zeros((size, size), "int32")}
        report = emulate(kernel, arrays, {"n": size, "m": size}, count)
        assert any(f"`{found.object}`" == one.what for found in report.findings if found.kind == "race"), (source, one)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_generated_kernels(seed: int, waits: bool) -> None:
    random = Random(seed)
    proved = shown = 0
    for _ in range(KERNELS):
        more = check(Writer(random, waits=waits).kernel(), random)
        proved, shown = proved + more[0], shown + more[1]
    assert proved > KERNELS and shown > 0
