"""Accesses that stay within their arrays."""

from __future__ import annotations

from laminar.kernels.analyse.facts import Facts
from laminar.kernels.language.tree import Atomic, Kernel, Load, Store


def proved_in_bounds(kernel: Kernel, *, said: bool = False) -> frozenset[int]:
    """Ids of the loads, stores and atomics that no instance can make out of bounds. `said`: in runs of the usual kind; who uses it
    looks at that first: `Granted.of(kernel, said=True).broken(values, count) is None`."""
    facts = Facts.of(kernel, said=said)
    return frozenset(key for key, sites in facts.values.sites.items() if all(in_bounds(facts, one.node) for one in sites))


def in_bounds(facts: Facts, node: Load | Store | Atomic) -> bool:
    """In all dimensions, wherever the node stands."""
    return not any(unproved(facts, node, number) for number in range(len(node.index)))


def unproved(facts: Facts, node: Load | Store | Atomic, dimension: int) -> tuple[bool, bool] | None:
    """(below, beyond): what of a dimension is not proved; None if nothing is left."""
    size = facts.shapes[node.object][dimension]
    sites = facts.accesses(node)
    below = not all(facts.holds(one.index[dimension], one.known) for one in sites)
    beyond = not all(facts.holds(size - one.index[dimension] - 1, one.known) for one in sites)
    return (below, beyond) if below or beyond else None
