"""Outputs of which every element is written, whatever the values are."""

from __future__ import annotations

from laminar.kernels.analyse.counted import escapes
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form, Symbol, product
from laminar.kernels.language.tree import Block, If, Loop, Object, Scope, Store


def written_everywhere(facts: Facts, array: Object, *, elements: bool = False) -> Store | None:
    """A store that all instances do and that, taken together, goes over all elements. With `facts.said`, if there are as many instances as
    the kernel's text says; `elements`: or, if it says nothing, as many as the first output has elements."""
    counts = [Form.of(facts.parameters[facts.kernel.count])]
    if facts.said and facts.number is not None and (elements or facts.kernel.instances is not None):
        counts.append(facts.number)
    always = _always(facts, facts.kernel.body, ())
    return next((one for one, loops in always if one.object is array and _covers(facts, one, loops, counts)), None)


def _always(facts: Facts, block: Block, loops: tuple[Loop, ...]) -> list[tuple[Store, tuple[Loop, ...]]]:
    """Stores that are done in any case, in every round of the loops around them."""
    found: list[tuple[Store, tuple[Loop, ...]]] = []
    for one in block:
        if isinstance(one, Store):
            found.append((one, loops))
        elif isinstance(one, Loop) and not one.test_last:
            found += _always(facts, one.body, (*loops, one)) if not escapes(one.body) else []
        elif isinstance(one, Scope):
            found += _always(facts, one.body, loops)
        elif isinstance(one, If):
            first, second = _always(facts, one.then, ()), _always(facts, one.other, ())
            found += [(store, loops) for store in _once(first) if any(_same(facts, store, other) for other in _once(second))]
        if escapes((one,)):
            break
    return found


def _once(found: list[tuple[Store, tuple[Loop, ...]]]) -> list[Store]:
    """Those in no loop, which might have no rounds."""
    return [store for store, loops in found if not loops]


def _same(facts: Facts, one: Store, other: Store) -> bool:
    """Of one element?"""
    return one.object is other.object and facts.flat(one) is not None and facts.flat(one) == facts.flat(other)


def _covers(facts: Facts, store: Store, loops: tuple[Loop, ...], counts: list[Form]) -> bool:
    shape = facts.shapes[store.object]
    if not loops:
        return facts.element(store) == Form.of(facts.instance) and product(shape) in counts
    left: dict[Symbol, list[Form]] = {facts.instance: counts}
    for loop in loops:
        found = facts.counters.get(id(loop))
        bound = facts.values.forms.get(id(found[0].bound)) if found else None
        if not found or not bound or not found[0].exact or found[0].step != 1 or found[0].operator != "<" or found[2] != Form({}):
            return False
        left[found[1]] = [bound]
    for index, size in zip(store.index, shape, strict=True):
        form = facts.form(index)
        symbol = form.single if form is not None else None
        if symbol is None or size not in left.pop(symbol, []):
            return False
    return not left
