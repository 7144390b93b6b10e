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
    """A layer that others stand on, or all layers of a variant (`leaf` is its id then), or both."""

    name: str
    seconds: float = 0.0  # of training
    bytes: int = 0  # of tensors that the layer below does not have
    layers: int = 1
    leaf: str = ""
    above: list[Node] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        return bool(self.above) or not self.leaf

    @property
    def variants(self) -> int:
        return (1 if self.leaf else 0) + sum(one.variants for one in self.above)


def lineage(store: Store, trials: list[Trial]) -> list[Node]:
    """The roots. Layers of one variant (its repeats) are one node; what was removed from the store is left out."""
    by_layer = {one.layer: one for one in trials if one.layer}
    nodes: dict[tuple[str, ...], Node] = {}
    counted: set[str] = set()
    roots: list[Node] = []
    for trial in trials:
        manifest = _found(store, trial.layer)
        if manifest is None:
            continue
        place: tuple[str, ...] = ()
        parent: Manifest | None = None
        others = roots
        for one in (*reversed(ancestors(store, manifest)), manifest):
            mine = by_layer.get(one.id)  # a trial's layer may be what another stands on
            place = (*place, mine.variant if mine else one.id)
            if place not in nodes:
                nodes[place] = Node(one.name, layers=0, leaf=mine.variant if mine else "")
                others.append(nodes[place])
            node = nodes[place]
            if one.id not in counted:
                counted.add(one.id)
                node.layers += 1
                node.seconds += mine.seconds if mine else one.seconds
                node.bytes += _own(one, parent)
            parent, others = one, node.above
    return roots


def _found(store: Store, id: str) -> Manifest | None:
    try:
        return store.layer(id) if id and store.has_layer(id) else None
    except LaminarError:  # a damaged one is told by `laminar verify`; the report goes on without it
        return None


def _own(manifest: Manifest, parent: Manifest | None) -> int:
    inherited = {one.digest for one in parent.tensors.values()} if parent else set()
    return sum(byte_size(one.dtype, one.shape) for one in manifest.tensors.values() if one.digest not in inherited)
