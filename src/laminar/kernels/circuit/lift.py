"""Local arrays that several functions use become arrays with one row per instance."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import Added, Atomic, Block, Declare, Expression, Kernel, Load, Object, Parameter, Read, Statement, Store


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
    body = _Lift(kernel, made).block(kernel.body)
    added = tuple(Parameter(one.name, "array", one, one.at, "inout") for one in made.values())
    return replace(kernel, parameters=(*kernel.parameters, *added), body=body, objects=tuple(made.get(one, one) for one in kernel.objects))


def free_name(name: str, taken: set[str]) -> str:
    """One that nothing else has; it is taken then."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


class _Lift(Rewrite):
    def __init__(self, kernel: Kernel, made: dict[Object, Object]) -> None:
        self.made = made
        self.instance = Read(Added(*kernel.instance.at), kernel.instance)

    def statement(self, one: Statement) -> Block:
        if isinstance(one, Declare) and one.what in self.made:
            return ()
        (changed,) = super().statement(one)
        if isinstance(changed, (Store, Atomic)) and changed.object in self.made:
            changed = replace(changed, object=self.made[changed.object], index=(self.instance, *changed.index))
        return (changed,)

    def expression(self, one: Expression) -> Expression:
        changed = super().expression(one)
        if isinstance(changed, Load) and changed.object in self.made:
            return replace(changed, object=self.made[changed.object], index=(self.instance, *changed.index))
        return changed
