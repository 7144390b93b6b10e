"""A function of a circuit: a kernel of its own, made of some statements of another.

Variables that come from other functions, and those that others need, are arrays with one element per instance. A function with a guard
does its work for the instances whose guard is set; for the others what it gives is what it got. Counters of the loops around, whose rounds
are functions, are values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from laminar.kernels.analyse.counted import Counted, finite
from laminar.kernels.circuit.fixed import Fixed
from laminar.kernels.circuit.uses import Uses, uses
from laminar.kernels.language.tree import (
    Assign,
    At,
    Binary,
    Block,
    Declare,
    Expression,
    If,
    Kernel,
    Load,
    Loop,
    Mode,
    Object,
    Parameter,
    Read,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)

GUARD = "guard of instances"  # no C names, so that no parameter has them
TEST = "test of instances"


@dataclass(frozen=True)
class Part:
    """Rounds of a loop that counts, from the one whose counter is `first` on; `beyond` is what the counter is compared with."""

    counted: Counted
    first: Variable
    beyond: Variable

    @staticmethod
    def of(counted: Counted) -> Part:
        counter = counted.counter
        first, beyond = (Variable(f"{word} {counter.name}", counter.type, counter.at) for word in ("first", "beyond"))
        return Part(counted, first, beyond)

    def of_loop(self, block: Block) -> Block:
        """`block` declares the counter, sets it, and is the loop."""
        declares, sets, loop = block
        assert isinstance(sets, Assign) and isinstance(loop, Loop)
        at, counter = loop.condition.at, self.counted.counter
        condition = Binary(at, "bool", self.counted.operator, Read(at, counter), Read(at, self.beyond))
        return (declares, replace(sets, value=Read(sets.at, self.first)), replace(loop, condition=condition))


@dataclass(frozen=True, eq=False)
class Function:
    """`takes` and `gives`: variables, by name of the array that has them in `kernel`. `reads` and `writes`: arrays that others may
    use, too. `values`: variables that are values of `kernel`, and are known when a task is made, by name. `block`: what it does, with
    what it computes first; `test`: what it tests."""

    number: int
    name: str
    kind: Literal["piece", "condition", "loop"]
    at: At
    kernel: Kernel
    takes: dict[str, Variable]
    gives: dict[str, Variable]
    reads: frozenset[Object]
    writes: frozenset[Object]
    uses: Uses
    guarded: bool
    cost: float
    lines: tuple[int, int]
    values: dict[str, Variable]
    block: Block
    test: Expression | None = None

    @cached_property
    def private(self) -> bool:
        """Whether all that it changes is its own, and it is sure to end, so that it can be run on a guess."""
        return not self.writes and all(finite(one) for one in statements(self.kernel.body) if isinstance(one, Loop))


def function_of(
    whole: Kernel,
    number: int,
    block: Block,
    live: set[Variable],
    fixed: Fixed,
    *,
    at: At,
    guarded: bool,
    cost: float,
    test: Expression | None = None,
    part: Part | None = None,
) -> Function:
    """`live`: variables that are needed behind it. `test`: it is a condition, and gives this. `part`: it is a loop, of which it does some
    rounds. `cost`: nanoseconds of an instance, as they are counted without a call's values."""
    instance, count = whole.instance, whole.count
    found, does = uses(block), part.of_loop(block) if part is not None else block
    if test is not None:
        found = found.then(uses((Assign(at, Variable(TEST, "bool", at), test),)))
    given = {one.of for one in whole.parameters if isinstance(one.of, Variable)}
    steady = given - set(changed_values(whole)) | fixed.counters | fixed.meaning.keys()
    place = {one: number for number, one in enumerate(whole.variables)}
    set_here = {one.variable for one in statements(block) if isinstance(one, Assign)}
    gives = sorted((set_here & live) - steady, key=place.__getitem__)
    passed_on = {one for one in gives if guarded or one not in found.surely}
    needs = sorted((found.needs | passed_on) - steady, key=place.__getitem__)
    own = fixed.needed(found.needs if part is None else uses(does).needs)
    made_of = found.needs.union(*(_read(fixed.meaning[one]) for one in own))
    known = {f"{one.name} {place[one]}": one for one in sorted(fixed.counters & made_of, key=place.__getitem__)}
    known |= {one.name: one for one in (part.first, part.beyond)} if part is not None else {}
    names = {one: f"{one.name} {place[one]}" for one in {*needs, *gives}}  # two blocks may have variables of one name
    comes, leaves = {f"{names[one]} in": one for one in needs}, {f"{names[one]} out": one for one in gives}
    arrays = {name: _per_instance(name, one, count) for name, one in {**comes, **leaves}.items()}
    index = (Read(at, instance),)
    inner = {one.what for one in statements(block) if isinstance(one, Declare)}
    first: list[Statement] = [*fixed.computed(own), *(Declare(at, one) for one in needs if one not in given)]
    first += [Assign(at, one, Load(at, arrays[f"{names[one]} in"], index)) for one in needs]
    first += [Declare(at, one) for one in sorted(set_here - inner - set(needs) - given, key=place.__getitem__)]
    last: list[Statement] = [Store(at, arrays[f"{names[one]} out"], index, Read(at, one)) for one in gives]
    body: Block = (*first, *does, *last)
    parameters = [*whole.parameters, *(Parameter(name, "value", one, one.at) for name, one in known.items())]
    parameters += [*(_array(arrays[name], "in") for name in comes), *(_array(arrays[name], "out") for name in leaves)]
    if test is not None:
        answer = Object(TEST, "bool", (Read(at, count),), "global", at)
        body = (*first, *does, Store(at, answer, index, test), *last)
        parameters.append(_array(answer, "out"))
    if guarded:
        guard = Object(GUARD, "bool", (Read(at, count),), "global", at)
        passed: Block = tuple(Store(at, arrays[f"{names[one]} out"], index, Load(at, arrays[f"{names[one]} in"], index)) for one in gives)
        body = (If(at, Load(at, guard, index), body, passed),)
        parameters.append(_array(guard, "in"))
    kernel = _kernel(whole, f"{whole.name}_{number}", body, parameters)
    told = [one.at.line for one in statements(block)] or [at.line]
    lines = [one for one in told if one >= instance.at.line] or told  # of the kernel itself, not of functions it calls
    kind: Literal["piece", "condition", "loop"] = "condition" if test is not None else "loop" if part is not None else "piece"
    name = f"{kind} {number}"
    reads = frozenset(one for one in found.read if one.memory != "local")
    writes = frozenset(one for one in found.written if one.memory != "local")
    span = (min(lines), max(lines))
    counted = (*fixed.computed(fixed.needed(found.needs)), *block)
    return Function(number, name, kind, at, kernel, comes, leaves, reads, writes, found, guarded, cost, span, known, counted, test)


def _read(expression: Expression) -> set[Variable]:
    return {part.variable for part in walk(expression) if isinstance(part, Read)}


def callers_values(kernel: Kernel) -> int:
    """How many of a function's values the caller gives; the rest are numbers of the loops around."""
    return sum(" " not in one.name for one in kernel.values)


def changed_values(kernel: Kernel) -> dict[Variable, str]:
    """Values of the caller that instances change, each for itself: variables that have a value from the start. By name."""
    changed = {one.variable for one in statements(kernel.body) if isinstance(one, Assign)}
    return {one.of: one.name for one in kernel.values if isinstance(one.of, Variable) and one.of in changed}


def _per_instance(name: str, variable: Variable, count: Variable) -> Object:
    return Object(name, variable.type, (Read(variable.at, count),), "global", variable.at)


def _array(one: Object, mode: Mode) -> Parameter:
    return Parameter(one.name, "array", one, one.at, mode)


def _kernel(whole: Kernel, name: str, body: Block, parameters: list[Parameter]) -> Kernel:
    """With only those arrays that it uses."""
    used = {part.object for one in statements(body) for each in expressions(one) for part in walk(each) if isinstance(part, Load)}
    used |= uses(body).written
    kept = [one for one in parameters if one.role != "array" or one.of in used]
    variables = [one.of for one in kept if isinstance(one.of, Variable)]
    inner = {one.what for one in statements(body) if isinstance(one, Declare)}
    variables += [one for one in whole.variables if one in inner]
    objects = [one.of for one in kept if isinstance(one.of, Object)]
    objects += [one for one in whole.objects if one in inner]
    return Kernel(name, whole.text, tuple(kept), body, tuple(variables), tuple(objects), None, whole.contract)
