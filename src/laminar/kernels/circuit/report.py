"""A circuit in words and as JSON: functions, who waits for whom, and the verdict on every two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from laminar.kernels.circuit.apart import Pair, Pairs
from laminar.kernels.circuit.build import Circuit, Cycle, Series, Step, build
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.edges import Edge, edges
from laminar.kernels.circuit.function import Function
from laminar.kernels.circuit.issue import functions
from laminar.kernels.circuit.phases import END, phases
from laminar.kernels.circuit.picture import cost_text, names, picture
from laminar.kernels.circuit.uses import uses
from laminar.kernels.language.tree import Barrier, Kernel, statements


@dataclass(frozen=True)
class Turns:
    """The rounds of a loop that counts: whether they leave each other alone. `functions`: numbers; `round`: nanoseconds of one."""

    line: int
    functions: tuple[int, ...]
    verdict: str
    why: str
    round: float

    def to_json(self) -> dict[str, object]:
        return {"line": self.line, "functions": list(self.functions), "verdict": self.verdict, "why": self.why}


@dataclass(frozen=True)
class Report:
    """`span`: nanoseconds of one instance on the longest way through the circuit; `work`: of all functions (Cilkview's words). `rounds`: of
    loops that count."""

    circuit: Circuit
    edges: list[Edge]
    pairs: list[Pair]
    instances_apart: bool
    rounds: list[Turns] = field(default_factory=list)

    @property
    def work(self) -> float:
        return sum(one.cost for one in self.circuit.functions)

    @property
    def span(self) -> float:
        ends: dict[int, float] = {}
        alone = {one.functions: one.round for one in self.rounds if one.verdict == "independent"}
        for one in self.circuit.functions:
            before = [ends[edge.source] for edge in self.edges if edge.target == one.number and edge.source in ends and not edge.next_round]
            ends[one.number] = alone.get((one.number,), one.cost) + max(before, default=0.0)
        return max(ends.values(), default=0.0)

    def to_json(self) -> dict[str, object]:
        return {
            "functions": [_function(one) for one in self.circuit.functions],
            "edges": [one.to_json() for one in self.edges],
            "pairs": [one.to_json() for one in self.pairs],
            "rounds": [one.to_json() for one in self.rounds],
            "instances": "independent" if self.instances_apart else "in order",
            "work_nanoseconds": self.work,
            "span_nanoseconds": self.span,
        }

    def svg(self, name: str) -> str:
        return picture(self.circuit, self.edges, name)

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        count = len(self.circuit.functions)
        apart = "instances leave each other alone" if self.instances_apart else "instances run in order, as they may meet"
        yield f"{count} function{'s' * (count != 1)}, {apart}"
        if self.span:
            at_once = self.work / self.span
            yield f"work {cost_text(self.work)} an instance, longest way {cost_text(self.span)}: at most {at_once:.1f} at once"
        loops = {one.number for step in self.circuit.steps if isinstance(step, Cycle) for one in (step.condition,)}
        for one in self.circuit.functions:
            takes, gives = names(one.takes.values(), one.reads), names(one.gives.values(), one.writes)
            kind = "loop's condition" if one.number in loops else one.kind
            lines = f"{one.lines[0]}-{one.lines[1]}"
            yield f"  {one.number:>3}  {kind:<16} lines {lines:<9} {cost_text(one.cost):>9}  {takes or '-'} → {gives or '-'}"
        for edge in self.edges:
            then = ", for the next round" if edge.next_round else ""
            yield f"  {edge.source:>3} → {edge.target:<3} {edge.kind} {edge.what}{then}"
        for turns in self.rounds:
            yield f"  loop in line {turns.line}: rounds {turns.verdict}, {turns.why}"
        for pair in self.pairs:
            yield f"  {pair.first.number:>3}, {pair.second.number:<3} {pair.verdict}: {pair.why}"


def report(kernel: Kernel, long: float | None = None, file: str = "kernel.c") -> Report:
    """`long`: as in build. Of a kernel with barriers the functions are its phases."""
    if any(isinstance(one, Barrier) for one in statements(kernel.body)):
        return _of_phases(kernel, file)
    circuit = build(kernel) if long is None else build(kernel, long)
    pairs = Pairs(circuit)
    return Report(circuit, edges(circuit, pairs), pairs.all(), pairs.instances_apart, list(_rounds(circuit.steps, pairs)))


def _rounds(steps: Sequence[Step], pairs: Pairs) -> Iterator[Turns]:
    for one in steps:
        if isinstance(one, Series):
            found = pairs.rounds(one)
            numbers = tuple(each.number for each in functions((one,)))
            yield Turns(one.loop.at.line, numbers, found.verdict, found.why, cost((*one.computed, *one.loop.body, *one.loop.update)))
            yield from _rounds(one.body, pairs)


def _of_phases(kernel: Kernel, file: str) -> Report:
    plan = phases(kernel, file)
    made = []
    for number, one in enumerate(plan.phases):
        found = uses(one.body)
        lines = [each.at.line for each in statements(one.body)] or [kernel.instance.at.line]
        reads, writes = frozenset(found.read), frozenset(found.written)
        at = plan.barriers[number - 1] if number else kernel.instance.at
        span = (min(lines), max(lines))
        takes = cost(one.body)
        made.append(Function(number, f"phase {number}", "piece", at, one, {}, {}, reads, writes, found, False, takes, span, {}, one.body))
    following = [
        Edge(number, then, "barrier", "barrier", then <= number) for number, after in plan.after.items() for then in sorted(after - {END})
    ]
    pairs = [Pair(one, other, "dependent", "", "a barrier is between them") for one, other in combinations(made, 2)]
    return Report(Circuit(kernel, tuple(made), tuple(made), frozenset()), following, pairs, instances_apart=False)


def _function(one: Function) -> dict[str, object]:
    return {
        "number": one.number,
        "kind": one.kind,
        "lines": list(one.lines),
        "takes": sorted({each.name for each in one.takes.values()}),
        "gives": sorted({each.name for each in one.gives.values()}),
        "reads": sorted({each.name for each in one.reads}),
        "writes": sorted({each.name for each in one.writes}),
        "guarded": one.guarded,
        "nanoseconds": one.cost,
    }
