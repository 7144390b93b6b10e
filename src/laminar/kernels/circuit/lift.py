"""Local arrays that several functions use become arrays with one row per instance."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from laminar.kernels.analyse.assigned import Assigned
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import (
    Added,
    Assign,
    Atomic,
    Binary,
    Block,
    Cast,
    Constant,
    Declare,
    Expression,
    Kernel,
    Load,
    Loop,
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


def lifted(kernel: Kernel, objects: Set[Object]) -> Kernel:
    """The same kernel, with `objects` as in-out arrays behind its other parameters; they begin as zeros."""
    if not objects:
        return kernel
    count = Read(kernel.count.at, kernel.count)
    chosen = [one for one in kernel.objects if one in objects]
    taken = {one.name for one in kernel.parameters}
    made = {
        one: replace(one, name=free_name(f"{one.name}_of_instance", taken), shape=(count, *one.shape), memory="global") for one in chosen
    }
    lift = _Lift(kernel, made)
    body = lift.block(kernel.body)
    added = tuple(Parameter(one.name, "array", one, one.at, "inout") for one in made.values())
    objects_ = tuple(made.get(one, one) for one in kernel.objects)
    return replace(
        kernel, parameters=(*kernel.parameters, *added), body=body, objects=objects_, variables=(*kernel.variables, *lift.variables)
    )


def free_name(name: str, taken: set[str]) -> str:
    """One that nothing else has; it is taken then."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


class _Lift(Rewrite):
    def __init__(self, kernel: Kernel, made: dict[Object, Object]) -> None:
        self.made, self._again = made, _read_too_soon(kernel)
        self.variables: list[Variable] = []
        self.instance = Read(Added(*kernel.instance.at), kernel.instance)

    def statement(self, one: Statement) -> Block:
        if isinstance(one, Declare) and isinstance(one.what, Object) and one.what in self.made:
            return self.block(self._cleared(one.what, (), Added(*one.at))) if one.what in self._again else ()
        (changed,) = super().statement(one)
        if isinstance(changed, (Store, Atomic)) and changed.object in self.made:
            changed = replace(changed, object=self.made[changed.object], index=(self.instance, *changed.index))
        return (changed,)

    def expression(self, one: Expression) -> Expression:
        changed = super().expression(one)
        if isinstance(changed, Load) and changed.object in self.made:
            return replace(changed, object=self.made[changed.object], index=(self.instance, *changed.index))
        return changed

    def _cleared(self, object_: Object, index: tuple[Expression, ...], at: Added) -> Block:
        """Loops that make all elements zero, from this dimension on."""
        if len(index) == len(object_.shape):
            return (Store(at, object_, index, Constant(at, object_.type, 0)),)
        place = Variable(f"{object_.name}_{len(index)}", "int", at)
        self.variables.append(place)
        here, size = Read(at, place), object_.shape[len(index)]
        test = Binary(at, "bool", "<", here, size if size.type == "int" else Cast(at, "int", size))
        following = Assign(at, place, Binary(at, "int", "+", here, Constant(at, "int", 1)))
        loop = Loop(at, (), test, self._cleared(object_, (*index, here), at), (following,))
        return (Declare(at, place), Assign(at, place, Constant(at, "int", 0)), loop)


def _read_too_soon(kernel: Kernel) -> set[Object]:
    """Arrays of rounds of loops that may be read before they are written: without a value is without that of the round before, too."""
    assigned = Assigned.of(kernel)
    unsure = frozenset(assigned.unsure) | frozenset(assigned.unset)
    loops = tuple(one for one in statements(kernel.body) if isinstance(one, Loop))
    again = {one.what for one in statements(loops) if isinstance(one, Declare) and isinstance(one.what, Object)}
    every = (part for one in statements(kernel.body) for whole in expressions(one) for part in walk(whole))
    return {part.object for part in every if isinstance(part, Load) and id(part) in unsure and part.object in again}
