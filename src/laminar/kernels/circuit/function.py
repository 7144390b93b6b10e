"""A function of a circuit: a kernel of its own, made of some statements of another.

Variables that come from other functions, and those that others need, are arrays with one element per instance. A function with a guard
does its work for the instances whose guard is set; for the others what it gives is what it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from laminar.kernels.analyse.counted import finite
from laminar.kernels.circuit.uses import Uses, uses
from laminar.kernels.language.tree import (
    Assign,
    At,
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


@dataclass(frozen=True, eq=False)
class Function:
    """`takes` and `gives`: variables, by name of the array that has them in `kernel`. `reads` and `writes`: arrays that others may
    use, too."""

    number: int
    name: str
    kind: Literal["piece", "condition"]
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

    @cached_property
    def private(self) -> bool:
        """Whether all that it changes is its own, and it is sure to end, so that it can be run on a guess."""
        return not self.writes and all(finite(one) for one in statements(self.kernel.body) if isinstance(one, Loop))


def function_of(
    whole: Kernel,
    number: int,
    block: Block,
    live: set[Variable],
    *,
    at: At,
    guarded: bool,
    cost: float,
    test: Expression | None = None,
) -> Function:
    """`live`: variables that are needed behind it. `test`: it is a condition, and gives this."""
    instance, count = whole.instance, whole.count
    found = uses(block)
    if test is not None:
        found = found.then(uses((Assign(at, Variable(TEST, "bool", at), test),)))
    given = {one.of for one in whole.parameters if isinstance(one.of, Variable)}
    fixed = given - set(changed_values(whole))
    place = {one: number for number, one in enumerate(whole.variables)}
    set_here = {one.variable for one in statements(block) if isinstance(one, Assign)}
    gives = sorted((set_here & live) - fixed, key=place.__getitem__)
    passed_on = {one for one in gives if guarded or one not in found.surely}
    needs = sorted((found.needs | passed_on) - fixed, key=place.__getitem__)
    names = {one: f"{one.name} {place[one]}" for one in {*needs, *gives}}  # two blocks may have variables of one name
    comes, leaves = {f"{names[one]} in": one for one in needs}, {f"{names[one]} out": one for one in gives}
    arrays = {name: _per_instance(name, one, count) for name, one in {**comes, **leaves}.items()}
    index = (Read(at, instance),)
    inner = {one.what for one in statements(block) if isinstance(one, Declare)}
    first: list[Statement] = [Declare(at, one) for one in needs if one not in given]
    first += [Assign(at, one, Load(at, arrays[f"{names[one]} in"], index)) for one in needs]
    first += [Declare(at, one) for one in sorted(set_here - inner - set(needs) - given, key=place.__getitem__)]
    last: list[Statement] = [Store(at, arrays[f"{names[one]} out"], index, Read(at, one)) for one in gives]
    body: Block = (*first, *block, *last)
    parameters = [*whole.parameters, *(_array(arrays[name], "in") for name in comes), *(_array(arrays[name], "out") for name in leaves)]
    if test is not None:
        answer = Object(TEST, "bool", (Read(at, count),), "global", at)
        body = (*first, *block, Store(at, answer, index, test), *last)
        parameters.append(_array(answer, "out"))
    if guarded:
        guard = Object(GUARD, "bool", (Read(at, count),), "global", at)
        passed: Block = tuple(Store(at, arrays[f"{names[one]} out"], index, Load(at, arrays[f"{names[one]} in"], index)) for one in gives)
        body = (If(at, Load(at, guard, index), body, passed),)
        parameters.append(_array(guard, "in"))
    kernel = _kernel(whole, f"{whole.name}_{number}", body, parameters)
    told = [one.at.line for one in statements(block)] or [at.line]
    lines = [one for one in told if one >= instance.at.line] or told  # of the kernel itself, not of functions it calls
    kind: Literal["piece", "condition"] = "condition" if test is not None else "piece"
    name = f"{kind} {number}"
    reads = frozenset(one for one in found.read if one.memory != "local")
    writes = frozenset(one for one in found.written if one.memory != "local")
    return Function(number, name, kind, at, kernel, comes, leaves, reads, writes, found, guarded, cost, (min(lines), max(lines)))


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
