"""Races: no witness that is none, and nothing proved that happens, in random kernels with barriers.

`check` reports a witness after the emulator has seen it, so the emulator's own watch is not asked again here: the run is traced, every
access with the phase between barriers in which it was done, and the two instances, the two places and the sizes that the witness names
have to be in the trace. Kernels are of the kind that phases make hard: rows and columns of a matrix, rounds with one barrier or several,
loops within them, and conditions on the round. `python -m tests.nets.run kernel_races --minutes 5`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from random import Random
from typing import Any, Final

from tests.nets._kernel_writer import KernelWriter, text_of

STEPS: Final = 10_000


def check(seed: int) -> str:
    from laminar.kernels.analyse.verdicts import verdicts
    from laminar.kernels.language.kernel import read_kernel
    from laminar.kernels.language.rules import KernelError

    random = Random(seed)
    source = text_of(KernelWriter(random, waits=True).kernel()) if random.random() < 0.3 else Phases(random).kernel()
    try:
        kernel = read_kernel(source)
        told = verdicts(kernel)
    except KernelError as error:
        return f"refused by {error.rule}"
    races = [one for one in told if one.kind == "race"]
    for one in races:
        if one.verdict == "witness":
            assert happens(kernel, one), f"seed {seed}: a false witness: {one.text}\n{source}"
    for n in (2, 3, 5):
        trace = traced(kernel, dict.fromkeys(("n", "m", "k", "l"), n), n)
        for one in races if trace is not None else ():
            if one.verdict == "proved" and not one.said:
                assert not met(trace, one), f"seed {seed}: proved, and happens with {n}: {one.text}\n{source}"
    counts = {verdict: sum(one.verdict == verdict for one in races) for verdict in ("witness", "run-time")}
    return "a witness" if counts["witness"] else "checked as it runs" if counts["run-time"] else "no race"


def happens(kernel: Any, verdict: Any) -> bool:
    """Do the instances that are named use one element at the places that are named, with the sizes that are named?"""
    count = int(re.search(r"with (\d+) instances", verdict.why)[1])  # type: ignore[index]
    numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (-?\d+)", verdict.why)}
    trace = traced(kernel, numbers, count)
    return trace is not None and met(trace, verdict, verdict.instances)


Trace = dict[tuple[Any, int, int], set[tuple[Any, int]]]
"""Of (array, element, phase): places and instances."""


def met(trace: Trace, verdict: Any, instances: tuple[int, ...] = ()) -> bool:
    """`instances`: these; else any two."""
    first, second = verdict.at, verdict.other
    for (array, _, _), here in trace.items():
        if f"`{array}`" == verdict.what:
            ones, others = ({who for at, who in here if at == place} for place in (first, second))
            if any(one != other and (one, other) == (instances or (one, other)) for one in ones for other in others):
                return True
    return False


def traced(kernel: Any, numbers: dict[str, int], count: int) -> Trace | None:
    """Every access of a run; None: sizes do not fit, or it has no end."""
    import numpy as np

    from laminar.core.errors import LaminarError
    from laminar.kernels.arguments import DTYPES, shape_of
    from laminar.kernels.emulate import accesses, run
    from laminar.kernels.emulate.findings import Watch

    values = {one.name: numbers.get(one.name, 1) for one in kernel.values}
    scalars = {kernel.count: count, **{one.of: values[one.name] for one in kernel.values}}
    shapes = {one.name: shape_of(one.of, scalars) for one in kernel.arrays}
    if any(min(shape) < 1 for shape in shapes.values()):
        return None
    found: Trace = defaultdict(set)

    def note(watch: Watch, site: int, flat: int, me: int) -> None:
        place = watch._sites[site]
        found[place.object.name, flat, me // count].add((place.at, me % count))

    plain, watch_lines, called = run._program, accesses.watch, Watch.CALLED
    run._program = plain.__wrapped__  # type: ignore[assignment]  # not the program of another run of this kernel
    accesses.watch = lambda _, site, flat: [f"note({site.number}, {flat}, me)"] if site.object.memory != "local" else []
    Watch.CALLED, Watch.note = (*called, "note"), note  # type: ignore[misc, attr-defined]
    try:
        arrays = {one.name: np.zeros(shapes[one.name], DTYPES[one.of.type]) for one in kernel.arrays}
        run.emulate(kernel, arrays, values, count, steps=STEPS)
    except LaminarError as error:
        if error.code != "L704":
            raise
        return None
    finally:
        run._program, accesses.watch, Watch.CALLED = plain, watch_lines, called  # type: ignore[misc]
    return found


class Phases:
    """Kernels over rows of a matrix, in rounds, as elimination and sweeps are."""

    def __init__(self, random: Random) -> None:
        self.random, self.rounds = random, 0

    def kernel(self) -> str:
        pick = self.random.choice
        lines = [line for _ in range(self.random.randint(1, 3)) for line in self.part("", "k")]
        arrays = "const int x[n], inout int y[n], inout int z[n][n]"
        head = f"{pick(['', '#pragma laminar instances n'])}\nvoid kernel(int i, int count, int n, int m, int k, {arrays}) {{"
        return "\n".join([head, "    shared int t[16];", *("    " + line for line in lines), "}", ""])

    def part(self, pad: str, around: str) -> list[str]:
        pick = self.random.random()
        if pick < 0.45 and self.rounds < 2:
            return self.loop(pad, around)
        if pick < 0.6:
            return [f"{pad}barrier();"]
        return self.work(pad, around)

    def loop(self, pad: str, around: str) -> list[str]:
        self.rounds += 1
        name, outer = f"r{self.rounds}", around if around != "k" else "0"
        head = self.random.choice(
            [
                f"for (int {name} = 0; {name} < n; {name}++) {{",
                f"for (int {name} = {outer}; {name} < n - 1; {name}++) {{",
                f"for (int {name} = n - 1; {name} >= 0; {name}--) {{",
                f"for (int {name} = 1; {name} < n; {name} *= 2) {{",
                f"for (int {name} = 0; {name} < m; {name} += 2) {{",
            ]
        )
        body = [line for _ in range(self.random.randint(1, 4)) for line in self.part(pad + "    ", name)]
        if self.random.random() < 0.7:
            body.insert(self.random.choice([0, len(body), len(body)]), f"{pad}    barrier();")
        if self.random.random() < 0.15:
            body.insert(self.random.randint(0, len(body)), f"{pad}    if ({name} == m) {self.random.choice(['break', 'continue'])};")
        self.rounds -= 1
        return [pad + head, *body, f"{pad}}}"]

    def work(self, pad: str, around: str) -> list[str]:
        """What one instance does in a phase; loops of its own among it."""
        pick, lines = self.random.random(), [f"{pad}    {self.store(around)}"]
        if pick < 0.3:
            lines = [
                f"{pad}    for (int j = {self.random.choice(['0', around, f'{around} + 1', 'i'])}; j < n; j++) {self.store(around, 'j')}"
            ]
        if self.random.random() < 0.6:
            test = self.random.choice(
                [f"i > {around}", f"i == {around}", f"i < {around}", "i > 0", "i + 1 < n", "i == 0", f"i != {around}"]
            )
            return [f"{pad}if ({test}) {{", *lines, f"{pad}}}"]
        return [line[4:] for line in lines]

    def store(self, around: str, inner: str = "i") -> str:
        target, source = self.element(around, inner), self.element(around, inner)
        more = self.random.choice(["+ 1", "", "* 2", f"+ {self.element(around, inner)}"])
        return f"{target} {self.random.choice(['=', '+=', '-='])} {source} {more};"

    def element(self, around: str, inner: str) -> str:
        numbers = ["i", "i", around, around, inner, inner, "0", "n - 1 - i", "(i + 1) % n", f"(i + {around}) % n"]
        array = self.random.choice(["z", "z", "y", "t", "x"])
        if array == "z":
            return f"z[{self.random.choice(numbers)}][{self.random.choice(numbers)}]"
        if array == "x":
            return f"y[{self.random.choice(numbers)}]"
        return f"{array}[{self.random.choice(numbers)}{' % 16' if array == 't' else ''}]"
