"""Verdicts on pairs of functions: independent (proved), dependent (with a witness), or told by the values of a run.

Two accesses of one instance meet if all their indices are equal. Indices are forms (analyse/form.py): a difference that is a number other
than 0 proves them apart, one of 0 is a witness; one that is made of the kernel's values is computed for each run. Where loops count, ranges
that do not meet prove it, too; or each run compares the boxes of its tasks (footprints.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form
from laminar.kernels.analyse.granted import Granted
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.circuit.build import Circuit, Cycle, Fork, Series, Step
from laminar.kernels.circuit.footprints import Footprints
from laminar.kernels.circuit.function import Function
from laminar.kernels.language.tree import Atomic, Declare, Load, Object, Store, Variable, statements

Access = Load | Store | Atomic


@dataclass(frozen=True)
class Pair:
    """`differences`: of a verdict by values: of each two accesses those of their indices; apart if in each one is not 0; without them tasks
    are compared by their boxes. `certain`: they are sure to meet if both run."""

    first: Function
    second: Function
    verdict: Literal["independent", "dependent", "run-time"]
    what: str
    why: str
    lines: tuple[int, int] | None = None
    differences: tuple[tuple[Form, ...], ...] = ()
    certain: bool = False

    @property
    def text(self) -> str:
        return f"{self.first.name} and {self.second.name}: {self.verdict}, {self.why}"

    def to_json(self) -> dict[str, object]:
        return {
            "functions": [self.first.number, self.second.number],
            "verdict": self.verdict,
            "what": self.what,
            "why": self.why,
            "lines": list(self.lines) if self.lines else None,
        }


class Pairs:
    """Of all functions of a circuit. `instances_apart`: whether different instances are proved to leave each other alone."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.facts = Facts.of(circuit.kernel)
        races = [one for one in verdicts(circuit.kernel) if one.kind == "race"]
        self.instances_apart = all(one.verdict == "proved" for one in races) and not _floating_atomics(circuit)
        self._granted = Granted.of(circuit.kernel, said=any(one.said for one in races))
        self.guards = _guards(circuit.steps, frozenset())
        self._known: dict[tuple[int, int, Object], Pair] = {}
        self._footprints: dict[int, Footprints] = {}

    def footprints(self, function: Function) -> Footprints:
        if function.number not in self._footprints:
            self._footprints[function.number] = Footprints.of(function)
        return self._footprints[function.number]

    def may_be_chunked(self, values: Mapping[str, float], count: int) -> bool:
        """Whether instances of a run with these values leave each other alone: what proofs take for granted holds."""
        return self.instances_apart and self._granted.broken(values, count) is None

    def all(self) -> list[Pair]:
        """Every two functions; of those that have nothing to do with each other also whether one waits for the other by way of others."""
        functions = self.circuit.functions
        made = {(first.number, second.number): self.both(first, second) for first, second in combinations(functions, 2)}
        waits: dict[int, set[int]] = {}
        for second in functions:
            direct = [first for first in functions[: second.number] if made[first.number, second.number].verdict == "dependent"]
            waits[second.number] = {one.number for one in direct}.union(*(waits[one.number] for one in direct))
            for first in functions[: second.number]:
                if first not in direct and first.number in waits[second.number]:
                    by = next(one for one in direct if first.number in waits[one.number])
                    why = f"function {second.number} waits for function {by.number}, and that for function {first.number}"
                    made[first.number, second.number] = Pair(first, second, "dependent", "", why)
        return list(made.values())

    def both(self, first: Function, second: Function) -> Pair:
        if first.number in self.guards.get(second.number, ()):
            why = f"{_range(first)} {_verb(first, 'decide')} whether {_range(second)} {_verb(second, 'run')}"
            return Pair(first, second, "dependent", "", why, (first.lines[0], second.lines[0]))
        for variable in first.gives.values():
            if variable in second.takes.values():
                why = f"`{variable.name}` is set in {_range(first)} and read in {_range(second)}"
                return Pair(first, second, "dependent", variable.name, why, (first.lines[0], second.lines[0]))
        common = (first.reads | first.writes) & (second.reads | second.writes) & (first.writes | second.writes)
        pairs = [self.of(first, second, one) for one in sorted(common, key=lambda one: one.at)]
        for verdict in ("dependent", "run-time"):
            for one in pairs:
                if one.verdict == verdict:
                    return one
        return pairs[0] if pairs else Pair(first, second, "independent", "", "nothing that one changes is used by the other")

    def of(self, first: Function, second: Function, array: Object) -> Pair:
        key = (first.number, second.number, array)
        if key not in self._known:
            self._known[key] = self._decided(first, second, array)
        return self._known[key]

    def apart(self, values: Mapping[str, float], count: int) -> Callable[[Function, Function, Object], bool]:
        """For a run with these values and so many instances."""
        known = {**values, self.circuit.kernel.count.name: count}

        def decide(first: Function, second: Function, array: Object) -> bool:
            pair = self.of(first, second, array)
            if pair.verdict == "run-time" and pair.differences:
                return all(any(_other(_value(one, known)) for one in each) for each in pair.differences)
            return pair.verdict == "independent"

        return decide

    def _decided(self, first: Function, second: Function, array: Object) -> Pair:
        name = array.name
        found = (
            Pair(first, second, "dependent", name, f"rounds of a loop use `{name}`")
            if first is second
            else self._by_index(first, second, array)
        )
        boxes = self.footprints(first).known(array) and self.footprints(second).known(array)
        if found.verdict == "dependent" and not found.certain and boxes:
            why = f"values tell whether they use the same elements of `{name}`"
            return Pair(first, second, "run-time", name, why, found.lines)
        return found

    def _by_index(self, first: Function, second: Function, array: Object) -> Pair:
        name = array.name
        unsure: list[tuple[Form, ...]] = []
        for one, other in self._meetings(first, second, array):
            lines = (one.at.line, other.at.line)
            forms = [(self.facts.form(left), self.facts.form(right)) for left, right in zip(one.index, other.index, strict=True)]
            differences = [left - right for left, right in forms if left is not None and right is not None and _steady(left, right)]
            if any(each.known is not None and _other(each.known) for each in differences):
                continue
            if len(differences) == len(forms) and all(each.known == 0 for each in differences):
                why = f"lines {lines[0]} and {lines[1]} use the same element of `{name}`"
                return Pair(first, second, "dependent", name, why, lines, certain=True)
            if self._ranges_apart(one, other):
                continue
            by_values = tuple(each for each in differences if all(symbol.kind in ("count", "value") for symbol in each.symbols))
            if not any(each.known is None for each in by_values):
                why = f"lines {lines[0]} and {lines[1]} may use the same element of `{name}`"
                return Pair(first, second, "dependent", name, why, lines)
            unsure.append(by_values)
        if unsure:
            return Pair(first, second, "run-time", name, f"values tell whether they use the same element of `{name}`", None, tuple(unsure))
        return Pair(first, second, "independent", name, f"they use other elements of `{name}`")

    def _ranges_apart(self, one: Access, other: Access) -> bool:
        """Are all indices of one below those of the other, in some dimension? Not where a loop is around both: they may be in other rounds
        of it, and its numbers have another value in each."""
        for first, second in product(self.facts.accesses(one), self.facts.accesses(other)):
            if _loops(*first.index, *first.known) & _loops(*second.index, *second.known):
                return False
            known = (*first.known, *second.known)
            differences = [left - right for left, right in zip(first.index, second.index, strict=True)]
            if not any(self.facts.holds(each - 1, known) or self.facts.holds(-each - 1, known) for each in differences):
                return False
        return True

    def rounds(self, series: Series) -> Pair:
        """Of the rounds of a loop that counts with each other."""
        whole, counter = series.whole, series.counted.counter
        own = {one.what for one in statements((series.loop,)) if isinstance(one, Declare)}
        for array in sorted(whole.reads | whole.writes, key=lambda one: one.at):
            if array in own or all(self._by_round(*two, counter) for two in self._meetings(whole, whole, array)):
                continue
            name = array.name
            if self.footprints(whole).known(array):
                return Pair(whole, whole, "run-time", name, f"values tell whether rounds use the same elements of `{name}`")
            return Pair(whole, whole, "dependent", name, f"rounds may use the same elements of `{name}`")
        return Pair(whole, whole, "independent", "", "each round has its own elements")

    def _by_round(self, one: Access, other: Access, counter: Variable) -> bool:
        """Do they use other elements in each round? So they do where both indices are the counter and what no round changes, the same."""
        for left, right in zip(one.index, other.index, strict=True):
            form = self.facts.form(left)
            if form is None or form != self.facts.form(right):
                continue
            told = [symbol for symbol in form.symbols if symbol.kind == "counter" and symbol.variable is counter]
            parts = form.split(told[0]) if len(told) == 1 else None
            if parts is not None and parts[0].known in (1, -1) and told[0].loops[-1] not in _loops(parts[1]):
                return True
        return False

    def _meetings(self, first: Function, second: Function, array: Object) -> Iterator[tuple[Access, Access]]:
        for one, other in product(_accesses(first, array), _accesses(second, array)):
            if not (isinstance(one, Load) and isinstance(other, Load)):
                yield one, other


def _guards(steps: Sequence[Step], above: frozenset[int]) -> dict[int, frozenset[int]]:
    """Of each function the conditions that it stands under."""
    found: dict[int, frozenset[int]] = {}
    for one in steps:
        match one:
            case Function():
                found[one.number] = above
            case Fork(condition, then, other):
                inner = above | {condition.number}
                found |= {condition.number: above, **_guards(then, inner), **_guards(other, inner)}
            case Cycle(condition, body):
                found |= {condition.number: above, **_guards(body, above | {condition.number})}
            case Series(whole=whole, body=body):
                found |= _guards(body, above) if body else {whole.number: above}
    return found


def _range(function: Function) -> str:
    first, last = function.lines
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _verb(function: Function, word: str) -> str:
    first, last = function.lines
    return f"{word}s" if first == last else word


def _accesses(function: Function, array: Object) -> list[Access]:
    return [one for one in (*function.uses.loads, *function.uses.stores) if one.object is array]


def _steady(*forms: Form) -> bool:
    """Have they one value in all rounds of the loops around? Else a difference is one of the same round only."""
    return not any(symbol.loops for form in forms for symbol in form.symbols)


def _loops(*forms: Form) -> set[int]:
    """In which their symbols were made."""
    return {loop for form in forms for symbol in form.symbols for loop in symbol.loops}


def _other(difference: int) -> bool:
    """Whether indices that differ so are other ones: forms do not wrap around, and what is computed does."""
    return difference % 2**32 != 0


def _value(form: Form, values: Mapping[str, float]) -> int:
    return form.value({symbol: int(values[symbol.name]) for symbol in form.symbols})


def _floating_atomics(circuit: Circuit) -> bool:
    """Sums whose rounding depends on the order."""
    return any(isinstance(one, Atomic) and one.object.type in ("float", "double") for each in circuit.functions for one in each.uses.stores)
