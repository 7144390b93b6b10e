"""Lineage: the layers of an experiment's trials and those they stand on, read from the store. What a picture of them needs is pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.core.errors import LaminarError
from laminar.experiments.record import Trial
from laminar.stack.show import ancestors
from laminar.store.manifest import Manifest
from laminar.store.raw import byte_size
from laminar.store.store import Store


@dataclass
class Node:
    """A layer that others stand on, or all layers of a variant: `leaf` is its id then."""

    name: str
    seconds: float  # of training
    bytes: int  # of tensors that the layer below does not have
    layers: int = 1
    leaf: str = ""
    above: list[Node] = field(default_factory=list)

    @property
    def variants(self) -> int:
        return (1 if self.leaf else 0) + sum(one.variants for one in self.above)


def lineage(store: Store, trials: list[Trial]) -> list[Node]:
    """The roots. Layers of one variant (its repeats) are one leaf; what was removed from the store is left out."""
    nodes: dict[str, Node] = {}
    leaves: dict[tuple[str, str], Node] = {}
    roots: list[Node] = []
    for trial in trials:
        manifest = _found(store, trial.layer)
        if manifest is None:
            continue
        chain = ancestors(store, manifest)
        below: Node | None = None
        for number, one in reversed(list(enumerate(chain))):
            if one.id not in nodes:
                parent = chain[number + 1] if number + 1 < len(chain) else None
                nodes[one.id] = Node(one.name, one.seconds, _own(one, parent))
                (below.above if below else roots).append(nodes[one.id])
            below = nodes[one.id]
        place = (chain[0].id if chain else "", trial.variant)
        if place in leaves:
            leaf = leaves[place]
            leaf.layers, leaf.seconds, leaf.bytes = (
                leaf.layers + 1,
                leaf.seconds + trial.seconds,
                leaf.bytes + _own(manifest, chain[0] if chain else None),
            )
        else:
            leaves[place] = Node(manifest.name, trial.seconds, _own(manifest, chain[0] if chain else None), leaf=trial.variant)
            (below.above if below else roots).append(leaves[place])
    return roots


def _found(store: Store, id: str) -> Manifest | None:
    try:
        return store.layer(id) if id and store.has_layer(id) else None
    except LaminarError:  # a damaged one is told by `laminar verify`; the report goes on without it
        return None


def _own(manifest: Manifest, parent: Manifest | None) -> int:
    inherited = {one.digest for one in parent.tensors.values()} if parent else set()
    return sum(byte_size(one.dtype, one.shape) for one in manifest.tensors.values() if one.digest not in inherited)
