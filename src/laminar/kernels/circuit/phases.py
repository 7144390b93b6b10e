"""Phases: a kernel with barriers as kernels without, one after the other.

A phase is what runs from one barrier (or the start) to the next that is reached, whichever that is: the rest of the kernel behind the
barrier, in which every barrier ends the phase. What an instance needs behind it lives in arrays with one row per instance; shared arrays
become arrays; instance 0 writes which phase comes next, since all instances reach the same barrier. To go on in the middle of a loop is to
run the loop with a first round that begins there (Stratton, Stone, Hwu, "MCUDA", LCPC 2008, cut loops at barriers likewise).

    plan = phases(kernel)
    run_plan(plan, run, arrays, values, count)       # run(kernel, arrays, values, count): any way to run one without barriers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from laminar.kernels.analyse.barriers import check_barriers
from laminar.kernels.analyse.live import live_at_barriers
from laminar.kernels.arguments import DTYPES, Array, Value, shape_of
from laminar.kernels.circuit.lift import free_name, lifted
from laminar.kernels.compile.native import waits
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import (
    Added,
    Assign,
    At,
    Atomic,
    Barrier,
    Binary,
    Block,
    Constant,
    Declare,
    Expression,
    If,
    Kernel,
    Leave,
    Load,
    Loop,
    Object,
    Parameter,
    Read,
    Scope,
    Statement,
    Store,
    Variable,
    blocks,
    expressions,
    statements,
    walk,
)

END: Final = -1
Run: TypeAlias = Callable[[Kernel, dict[str, Array], Mapping[str, Value], int], None]
"""Runs a kernel without barriers; arrays are changed in place."""


@dataclass(frozen=True)
class Plan:
    """The first phase runs first; then the one whose number is in the array `next`, until it is END. `barriers`: where each phase but the
    first begins. `added`: arrays that the phases have beyond the kernel's own, that start as zeros; of these, `values`: those of variables,
    by name, which are written before they are read."""

    kernel: Kernel
    phases: tuple[Kernel, ...]
    barriers: tuple[At, ...]
    added: tuple[Object, ...]
    next: str
    values: frozenset[str] = frozenset()

    @property
    def after(self) -> dict[int, frozenset[int]]:
        """Which phases may come after each; END among them."""
        found: dict[int, frozenset[int]] = {}
        for number, phase in enumerate(self.phases):
            stores = [one.value for one in statements(phase.body) if isinstance(one, Store) and one.object.name == self.next]
            found[number] = frozenset(int(one.value) for one in stores if isinstance(one, Constant)) or frozenset({END})
        return found


def phases(kernel: Kernel, file: str = "kernel.c") -> Plan:
    """Raises KernelError (K16) if not all instances reach a barrier. A kernel without barriers and shared arrays is the only phase."""
    if not waits(kernel):
        return Plan(kernel, (kernel,), (), (), "")
    check_barriers(kernel, file)
    kept = {one for live in live_at_barriers(kernel).values() for one in live if isinstance(one, Object)}
    whole = _with_arrays(lifted(kernel, kept))
    made = _Phases(whole)
    first = (whole.body, *(made.rest(barrier) for barrier in made.barriers))
    every = tuple(made.phase(number, block) for number, block in enumerate(first))
    own = {one.name for one in kernel.arrays}
    added = tuple(one.of for one in every[0].arrays if one.name not in own and isinstance(one.of, Object))
    names = frozenset(one.name for one in (*made.kept.values(), made.next))
    return Plan(kernel, every, tuple(one.at for one in made.barriers), added, made.next.name, names)


def run_plan(plan: Plan, run: Run, arrays: Mapping[str, Array], values: Mapping[str, Value], count: int) -> None:
    """Runs phase after phase. `arrays` are changed in place."""
    scalars: dict[Variable, Value] = {plan.kernel.count: count}
    scalars |= {one.of: values[one.name] for one in plan.kernel.values if isinstance(one.of, Variable)}
    every: dict[str, Array] = dict(arrays)
    every |= {one.name: np.zeros(shape_of(one, scalars), DTYPES[one.type]) for one in plan.added}
    number = 0
    while number != END:
        run(plan.phases[number], every, values, count)
        number = int(every[plan.next][0]) if plan.next else END


def _with_arrays(kernel: Kernel) -> Kernel:
    """Shared arrays as parameters; and outputs keep what earlier phases wrote."""
    shared = [one for one in kernel.objects if one.memory == "shared"]
    taken = {one.name for one in kernel.parameters}
    made = {one: replace(one, name=free_name(one.name, taken), memory="global") for one in shared}
    parameters = tuple(replace(one, mode="inout") if one.mode == "out" else one for one in kernel.parameters)
    added = tuple(Parameter(one.name, "array", one, one.at, "inout") for one in made.values())
    objects = tuple(made.get(one, one) for one in kernel.objects)
    return replace(kernel, parameters=(*parameters, *added), body=_Renamed(made).block(kernel.body), objects=objects)


class _Renamed(Rewrite):
    def __init__(self, made: dict[Object, Object]) -> None:
        self._made = made

    def statement(self, one: Statement) -> Block:
        if isinstance(one, Declare) and one.what in self._made:
            return ()
        found = super().statement(one)
        return tuple(
            replace(each, object=self._made.get(each.object, each.object)) if isinstance(each, (Store, Atomic)) else each for each in found
        )

    def expression(self, one: Expression) -> Expression:
        changed = super().expression(one)
        return replace(changed, object=self._made.get(changed.object, changed.object)) if isinstance(changed, Load) else changed


class _Phases:
    """Of a kernel whose shared arrays, and local ones that live across barriers, are parameters."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.barriers = [one for one in statements(kernel.body) if isinstance(one, Barrier)]
        self.number = {id(one): number for number, one in enumerate(self.barriers, 1)}
        self.scope = 1 + max((one.number for one in statements(kernel.body) if isinstance(one, (Scope, Leave))), default=0)
        changed = {one.variable for one in statements(kernel.body) if isinstance(one, Assign)}
        live = live_at_barriers(kernel)
        place = {one: number for number, one in enumerate(kernel.variables)}
        self.live = {
            id(one): sorted((each for each in live[id(one)] if each in changed and isinstance(each, Variable)), key=place.__getitem__)
            for one in self.barriers
        }
        taken = {one.name for one in kernel.parameters}
        self.next = Object(free_name("next", taken), "int", (Constant(kernel.count.at, "int", 1),), "global", kernel.count.at)
        count = Read(kernel.count.at, kernel.count)
        kept = sorted({one for every in self.live.values() for one in every}, key=place.__getitem__)
        self.kept = {one: Object(free_name(f"{one.name}_kept", taken), one.type, (count,), "global", one.at) for one in kept}

    # where a phase begins

    def rest(self, barrier: Barrier) -> Block:
        """All that is left to do behind a barrier."""
        return self._rest(self.kernel.body, barrier)

    def _rest(self, block: Block, barrier: Barrier) -> Block:
        for number, one in enumerate(block):
            if one is barrier:
                return block[number + 1 :]
            if any(each is barrier for each in statements((one,))):
                return (*self._within(one, barrier), *block[number + 1 :])
        return ()

    def _within(self, one: Statement, barrier: Barrier) -> Block:
        match one:
            case If():
                return self._rest(one.then if any(each is barrier for each in statements(one.then)) else one.other, barrier)
            case Scope():
                return (replace(one, body=self._rest(one.body, barrier)),)
            case Loop():
                return self._round(one, barrier)
        return ()

    def _round(self, one: Loop, barrier: Barrier) -> Block:
        """The loop, with a first round that begins behind the barrier."""
        at = Added(*one.at)
        first = Variable("resumed", "bool", at)
        read, off = Read(at, first), Assign(at, first, Constant(at, "bool", False))
        begin = (Declare(at, first), Assign(at, first, Constant(at, "bool", True)))
        inside = [any(each is barrier for each in statements(block)) for block in (one.before, one.body, one.update)]
        rest = self._rest(blocks(one)[inside.index(True)], barrier)
        resumed: Block = (off, *rest)
        if inside[1] and one.test_last:
            return (*begin, replace(one, body=(If(at, read, resumed, one.body),)))
        if inside[1]:
            condition = Binary(at, "bool", "or", read, one.condition)
            before: Block = (If(at, read, (), one.before),) if one.before else ()
            return (*begin, replace(one, before=before, condition=condition, body=(If(at, read, resumed, one.body),)))
        if not one.test_last:
            again = replace(one, before=(If(at, read, resumed, one.before),))
            return (*begin, again) if inside[0] else (*rest, one)
        before = (If(at, read, resumed, one.before),) if inside[0] else (off, *one.before)
        skipped = replace(one, before=before, body=(If(at, read, (), one.body),), update=(If(at, read, (), one.update),))
        return (*begin, skipped) if inside[0] else (*rest, *begin, skipped)

    # what a phase is

    def phase(self, number: int, block: Block) -> Kernel:
        kernel, at = self.kernel, Added(*self.kernel.count.at)
        index = self._index(at)
        live = self.live[id(self.barriers[number - 1])] if number else []
        body = self._ended(block, tail=True)
        if any(isinstance(one, Leave) and one.number == self.scope for one in statements(body)):
            body = (Scope(at, kernel.name, self.scope, body),)
        given = {one.of for one in kernel.parameters}
        taken: list[Statement] = []
        for one in live:
            declared = [Declare(at, one)] if one not in given else []
            taken += [*declared, Assign(at, one, Load(at, self.kept[one], index))]
        free = _undeclared(body) - {*live, *given}
        used = [one for one in (*kernel.variables, *kernel.objects) if one in free]
        start: list[Statement] = [self._says(at, END), *(Declare(at, one) for one in used), *taken]
        whole = Rewrite().block((*start, *body))
        extra = [Parameter(one.name, "array", one, one.at, "inout") for one in (*self.kept.values(), self.next)]
        variables = dict.fromkeys([one.of for one in kernel.parameters if isinstance(one.of, Variable)])
        variables |= dict.fromkeys(one.what for one in statements(whole) if isinstance(one, Declare) and isinstance(one.what, Variable))
        objects = dict.fromkeys([one.of for one in (*kernel.parameters, *extra) if isinstance(one.of, Object)])
        objects |= dict.fromkeys(one.what for one in statements(whole) if isinstance(one, Declare) and isinstance(one.what, Object))
        name = f"{kernel.name}_{number}"
        parameters = (*kernel.parameters, *extra)
        return replace(kernel, name=name, parameters=parameters, body=whole, variables=tuple(variables), objects=tuple(objects))

    def _index(self, at: At) -> tuple[Expression, ...]:
        return (Read(at, self.kernel.instance),)

    def _says(self, at: At, number: int) -> Statement:
        """Which phase comes next: instance 0 writes it."""
        zero = Constant(at, self.kernel.instance.type, 0)
        test = Binary(at, "bool", "==", Read(at, self.kernel.instance), zero)
        return If(at, test, (Store(at, self.next, (Constant(at, "int", 0),), Constant(at, "int", number)),), ())

    def _ended(self, block: Block, *, tail: bool) -> Block:
        """Barriers replaced by what ends the phase; `tail`: nothing comes behind the block anyway."""
        made: list[Statement] = []
        for number, one in enumerate(block):
            last = tail and number == len(block) - 1
            match one:
                case Barrier():
                    at = Added(*one.at)
                    made += [Store(at, self.kept[each], self._index(at), Read(at, each)) for each in self.live[id(one)]]
                    made.append(self._says(at, self.number[id(one)]))
                    if not tail:
                        made.append(Leave(one.at, self.scope))
                    return tuple(made)
                case If():
                    made.append(replace(one, then=self._ended(one.then, tail=last), other=self._ended(one.other, tail=last)))
                case Scope():
                    made.append(replace(one, body=self._ended(one.body, tail=last)))
                case Loop():
                    before, body, update = (self._ended(each, tail=False) for each in blocks(one))
                    made.append(replace(one, before=before, body=body, update=update))
                case _:
                    made.append(one)
        return tuple(made)


def _undeclared(block: Block) -> set[Variable | Object]:
    """What is used before a declaration of it: that one is in front of the barrier, or in a round that comes later."""
    declared: set[Variable | Object] = set()
    found: set[Variable | Object] = set()
    for one in statements(block):
        used: set[Variable | Object] = set()
        for part in (one, *(part for whole in expressions(one) for part in walk(whole))):
            if isinstance(part, (Assign, Read)):
                used.add(part.variable)
            elif isinstance(part, (Store, Atomic, Load)):
                used.add(part.object)
        found |= used - declared
        if isinstance(one, Declare):
            declared.add(one.what)
    return found
